"""Invented wikis of linked pages with questions to them, from a seed; `bench_linked.py` asks them.

The subjects of a workshop share their words, so a title is like others. Pages say title and aliases in front matter or
in a heading, have a few sections of prose, link to three to eight others in every way of writing, and are listed in
``index.md`` and ``log.md``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

_LATIN = str.maketrans("абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "abvgdeezziyklmnoprstufhccsssyyeua")
_WORDS = {
    "ru": {
        "deed": "журнал/журнала график/графика учёт/учёта осмотр/осмотра ремонт/ремонта запас/запаса проверка/проверки"
        " замена/замены наладка/наладки выдача/выдачи хранение/хранения разгрузка/разгрузки приём/приёма"
        " промывка/промывки чертёж/чертежа смета/сметы",
        "thing": "северной печи, медного котла, зимней теплицы, лодочного мотора, ткацкого станка, старой мельницы,"
        " дальней пасеки, ручного пресса, садового шланга, речной баржи, каменной сушильни, винного погреба,"
        " парового молота, башенных часов, соляной шахты, конного двора, грибной фермы, яблочного склада,"
        " рыбной коптильни, снежной пушки, лесной вышки, хлебной лавки",
        "kind": "латунный резервный сосновый чугунный войлочный малый съёмный сдвоенный полый гнутый шерстяной клеёный"
        " ребристый пробковый матовый сварной литой упорный глухой двойной",
        "part": "вентиль насос засов фланец ремень клапан желоб короб зажим обруч кронштейн поддон барабан шатун"
        " фонарь лоток черпак щуп тигель ворот",
        "unit": "мешков вёдер листов связок ящиков метров бочек горстей",
        "place": "у ворот, под лестницей, на чердаке, за перегородкой, в третьем шкафу, возле весов",
        "who": "Агафья Прохор Устинья Ермолай Фёкла Самсон Глафира Тихон",
        "opens": "Порядок/Сроки/Запчасти/Что бывает не так/История",
    },
    "en": {
        "deed": "logbook schedule inventory survey repair reserve inspection replacement tuning handout storage"
        " unloading intake rinsing drawing estimate",
        "thing": "north kiln, copper boiler, winter greenhouse, boat engine, weaving loom, old mill, far apiary,"
        " hand press, garden hose, river barge, stone dryer, wine cellar, steam hammer, tower clock, salt mine,"
        " horse yard, mushroom farm, apple store, fish smokehouse, snow cannon, forest lookout, bread stall",
        "kind": "brass spare pine cast felt small loose twin hollow bent woollen glued ribbed cork matt welded moulded"
        " thrust blind double",
        "part": "valve pump latch flange belt damper chute crate clamp hoop bracket tray drum rod lantern trough scoop"
        " probe crucible winch",
        "unit": "sacks buckets sheets bundles boxes metres barrels handfuls",
        "place": "by the gate, below the stairs, in the attic, behind the screen, in the third locker, near the scales",
        "who": "Agnes Percy Ursula Edmund Phoebe Samson Glenda Titus",
        "opens": "Steps/Terms/Spare parts/What goes wrong/History",
    },
}
_SAYINGS = {
    "ru": (
        "Работу начинают после росы, чтобы {part} успел остыть.",
        "{who} просит не трогать {part} без записи.",
        "Если {part} скрипит, смазку добавляют вдвое реже.",
        "Прошлой осенью {part} меняли дважды, и это было дорого.",
        "Чаще всего подводит {part}, реже сам материал.",
        "Остаток {unit} пересчитывают {place}.",
        "Для {thing} важнее всего ровный ход.",
        "Ключ лежит {place}, второй у сменщика.",
        "{who} ведёт {deed}, пока остальные заняты.",
    ),
    "en": (
        "Work starts after the dew so that the {part} has cooled.",
        "{who} asks nobody to touch the {part} without a note.",
        "If the {part} squeaks, grease is added half as often.",
        "Last autumn the {part} was changed twice, and that was dear.",
        "Most often the {part} fails, less often the material itself.",
        "The rest of the {unit} is counted {place}.",
        "For the {thing} an even run matters most.",
        "The key lies {place}, the second one is with the relief.",
        "{who} keeps the {deed} while the others are busy.",
    ),
}
_FACTS = {
    "ru": ("Под {kind} {part} держат {n} {unit} {place}.", "Сколько {unit} держат под {kind} {part}?"),
    "en": (
        "For the {kind} {part} they keep {n} {unit} {place}.",
        "How many {unit} do they keep for the {kind} {part}?",
    ),
}
_MENTIONS = {
    "ru": (
        "Подробнее: {link}.",
        "Сначала смотрят {link}, потом остальное.",
        "Это связано со страницей {link}.",
        "Вопрос о том, как устроено {link}, решили отдельно.",
        "См. {link} и записи смены.",
    ),
    "en": (
        "For more see {link}.",
        "First read {link}, then the rest.",
        "This goes with the page {link}.",
        "How {link} works was settled elsewhere.",
        "See {link} and the notes of the shift.",
    ),
}
_ASKS = {
    "ru": ("что такое {title}", "где описано: {title}?", "как у нас устроено {title}"),
    "en": ("what is {title}", "how do we do the {title}?", "where is the {title} described"),
}
_SYLLABLES = {"ru": "ба ло ми ру та ве ко ши ну ждо пля гри", "en": "ba lo mi ru ta ve ko shi nu jo pla gri"}
WIKIS = {"russian": ("ru",), "english": ("en",), "mixed": ("ru", "en")}


@dataclass
class _Made:
    language: str
    slug: str
    title: str
    loose: str
    """The subject as running text says it."""
    alias: str
    thing: str
    deed: str
    facts: list[tuple[str, str]] = field(default_factory=list)


def questions_of(folder: Path, name: str, size: int = 240, seed: int = 0) -> list[dict[str, str]]:
    """Write the wiki `name` to `folder`, and give its questions: kind, question and path of the page that answers."""
    rng = random.Random(f"{name} {seed}")  # invented prose
    pages = [page for language in WIKIS[name] for page in _pages(language, size // len(WIKIS[name]), rng)]
    questions, link_texts = [], {}
    for page in pages:
        linked = rng.sample([other for other in pages if other is not page], rng.randint(3, 8))
        links = [_link(other, rng, link_texts) for other in linked]
        path = f"{page.language}/{page.slug}.md"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(_text(page, links, rng), "utf-8")
    for language in WIKIS[name]:
        of_language = [page for page in pages if page.language == language]
        lines = [
            f"- {_link(page, rng, {})}" + (f" — {page.loose}" if rng.random() < 0.5 else "") for page in of_language
        ]
        (folder / language / "index.md").write_text("# Index\n\n" + "\n".join(lines) + "\n", "utf-8")
        days = [
            f"## 2026-{1 + n // 28:02}-{1 + n % 28:02}\n\n- {_link(page, rng, {})}: {page.facts[0][0]}"
            for n, page in enumerate(rng.sample(of_language, len(of_language) // 2))
        ]
        (folder / language / "log.md").write_text("# Log\n\n" + "\n\n".join(days) + "\n", "utf-8")
    for page in pages:
        path, subject = f"{page.language}/{page.slug}.md", page.title[0].lower() + page.title[1:]
        texts = {
            "title": page.title,
            "alias": page.alias,
            "title in a question": rng.choice(_ASKS[page.language]).format(title=subject),
            "fact": page.facts[-1][1],
            "text of a link": link_texts.get(page.slug, ""),
        }
        questions += [{"kind": kind, "question": q, "path": path} for kind, q in texts.items() if q]
    return questions


def _pages(language: str, size: int, rng: random.Random) -> Iterator[_Made]:
    words = _WORDS[language]
    subjects = rng.sample([*product(words["deed"].split(), words["thing"].split(", "))], size)
    parts = rng.sample([*product(words["kind"].split(), words["part"].split())], size)
    for number, ((deed, thing), (kind, part)) in enumerate(zip(subjects, parts, strict=True)):
        name = deed.partition("/")[0]
        loose = f"{deed.partition('/')[2]} {thing}" if language == "ru" else f"the {deed} of the {thing}"
        title = f"{name} {thing}" if language == "ru" else f"{thing} {name}"
        title = title[0].upper() + title[1:]
        slug = title.lower().replace(" ", "-")
        if language == "ru" and number % 2:
            slug = slug.translate(_LATIN)
        alias = "".join(rng.choices(_SYLLABLES[language].split(), k=3)).title() + f"-{number}"
        page = _Made(language, slug, title, loose, alias, thing, name)
        for _ in range(2):
            values = _values(page, rng) | {"kind": kind, "part": part, "n": str(rng.randint(3, 90))}
            page.facts.append(tuple(text.format(**values) for text in _FACTS[language]))  # type: ignore[arg-type]  # pairs
        yield page


def _values(page: _Made, rng: random.Random) -> dict[str, str]:
    words = _WORDS[page.language]
    values = {name: rng.choice(words[name].split()) for name in ("kind", "part", "unit", "who")}
    return values | {"place": rng.choice(words["place"].split(", ")), "thing": page.thing, "deed": page.deed}


def _link(page: _Made, rng: random.Random, texts: dict[str, str]) -> str:
    """A link to a page, in one of the ways of writing; `texts` keeps words that are not the title."""
    way = rng.random()
    if way < 0.4:
        return f"[[{page.slug}|{page.title}]]"
    if way < 0.6:
        return f"[{page.title}](../{page.language}/{page.slug}.md)"
    if way < 0.75:
        return f"[[{page.title}]]"
    if way < 0.8:
        return f"[[{page.alias}]]"
    texts[page.slug] = page.loose
    return f"[[{page.slug}|{page.loose}]]" if way < 0.9 else f"[{page.loose}](../{page.language}/{page.slug}.md)"


def _text(page: _Made, links: Iterable[str], rng: random.Random) -> str:
    front = f"aliases: [{page.alias}]\ntags: [{page.deed}]\n"
    is_titled = rng.random() < 0.5
    top = f"---\ntitle: {page.title}\n{front}---\n\n" if is_titled else f"---\n{front}---\n\n# {page.title}\n\n"
    sections = rng.sample(_WORDS[page.language]["opens"].split("/"), rng.randint(2, 4))
    prose: list[list[str]] = [[] for _ in range(len(sections) + 1)]
    for section in prose:
        sayings = rng.sample(_SAYINGS[page.language], rng.randint(2, 5))
        section += [saying.format(**_values(page, rng)) for saying in sayings]
    for sentence, _ in page.facts:
        rng.choice(prose).append(sentence)
    listed: list[str] = []
    has_list = rng.random() < 0.5
    for number, link in enumerate(links):
        if has_list and number % 2:
            listed.append(f"- {link}")
        else:
            sentence = rng.choice(_MENTIONS[page.language]).format(link=link)
            section = rng.choice(prose)
            section.insert(rng.randint(0, len(section)), sentence)
    body = " ".join(prose[0]) + "\n"
    body += "".join(
        f"\n## {name}\n\n{' '.join(sentences)}\n" for name, sentences in zip(sections, prose[1:], strict=True)
    )
    see = {"ru": "См. также", "en": "See also"}[page.language]
    return top + body + (f"\n## {see}\n\n" + "\n".join(listed) + "\n" if listed else "")
