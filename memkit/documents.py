"""The five source documents that memkit follows, and the numbers in them, as data.

>>> cite("memory_v2", "decay")
"Memory v2, 'Decay при поиске'"
"""

from __future__ import annotations

from dataclasses import dataclass

from memkit.base.dates import DATE_WORDS


@dataclass(frozen=True)
class Document:
    """A source document: memkit's name for it, its title, the format that it describes, and its sections by key."""

    name: str
    title: str
    format: str
    sections: dict[str, str]


DOCUMENTS = {
    "index_standard": Document(
        "index standard",
        "Стандарты работы с памятью",
        "index_tree",
        {
            "format": "1. Формат index.json",
            "metadata": "2. Метаданные",
            "folders": "3. Структура каталогов",
            "validation": "4. Валидация индекса",
            "splitting": "5. Деление больших файлов",
            "safety": "6. Защита и версияция",
        },
    ),
    "workspace": Document(
        "workspace document",
        "memory/ — Система памяти",
        "workspace",
        {
            "levels": "Три уровня памяти",
            "storage": "MemoryStorage (storage.py)",
            "search": "Гибридный поиск",
            "chunks": "Параметры",
            "tools": "MCP Tools (tools.py)",
            "fallback": "Fallback",
        },
    ),
    "memory_format": Document(
        "Memory Format",
        "Memory Format",
        "notes",
        {
            "structure": "File Structure",
            "fields": "Frontmatter Fields",
            "content": "Content Section",
            "validation": "Validation Rules",
        },
    ),
    "rust_brain": Document(
        "Rust Brain",
        "Форматы данных для Rust Brain",
        "records",
        {
            "versions": "1) Версионирование форматов",
            "pathway": "2.1) Pathway",
            "memory_item": "2.2) Memory Item",
            "wisdom_fact": "2.3) Wisdom Fact",
        },
    ),
    "memory_v2": Document(
        "Memory v2",
        "Memory v2 — долговременная память бота",
        "facts",
        {
            "files": "Расположение данных",
            "line": "Формат строки факта в .md",
            "policy": "Политика сохранения (policy)",
            "blocks": "Pre-retrieval (контекст для ответа)",
            "tools": "Инструменты (MemorySkill)",
            "expiry": "TTL и очистка",
            "decay": "Decay при поиске",
        },
    ),
}
"""The documents that formats, policies and presets follow, by key."""


def cite(document: str, section: str) -> str:
    """A citation of a section of a document, as every declaration writes its source."""
    source = DOCUMENTS[document]
    return f"{source.name}, '{source.sections[section]}'"


# Beginnings of shell lines, and words before a git revision of 40 hexadecimal digits: the document says "etc."
_SHELL_LINES = (
    *("pip install", "pip3 install", "pip uninstall", "apt install", "apt update", "apt-get install"),
    *("apt-get update", "brew install", "conda install", "cargo build", "cargo run", "docker run"),
    *("docker build", "docker compose", "git add", "git checkout", "git clone", "git commit", "git fetch"),
    *("git merge", "git pull", "git push", "git rebase", "git reset", "git stash", "git status", "git log"),
    *("git diff", "git show", "git branch", "git init", "git remote", "git tag", "pip freeze", "pip list"),
    *("pip show", "python -m pip", "python3 -m pip", "apt remove", "apt upgrade", "apt search"),
    *("apt-get remove", "apt-get upgrade", "docker ps", "docker pull", "npm run", "npm start", "npm test"),
    *("pnpm install", "yarn add", "yarn install"),
)
_SHA_WORDS = ("commit", "commits", "sha", "sha1", "sha-1", "коммит", "коммита", "коммите", "коммитом", "коммиту")

# Numbers, dates and negations in which two texts must agree before one may replace the other; not in the documents.
_COUNTS = {
    **{2: "два две двух двум двумя пара пару пары", 3: "три трёх трём тремя", 4: "четыре четырёх четырём четырьмя"},
    **{5: "пять пяти пятью", 6: "шесть шести шестью", 7: "семь семи семью", 8: "восемь восьми восемью"},
    **{9: "девять девяти девятью", 10: "десять десяти десятью", 11: "одиннадцать одиннадцати"},
    **{12: "двенадцать двенадцати дюжина дюжину дюжины", 13: "тринадцать тринадцати", 14: "четырнадцать четырнадцати"},
    **{15: "пятнадцать пятнадцати", 16: "шестнадцать шестнадцати", 17: "семнадцать семнадцати"},
    **{18: "восемнадцать восемнадцати", 19: "девятнадцать девятнадцати", 20: "двадцать двадцати"},
    **{30: "тридцать тридцати", 40: "сорок сорока", 50: "пятьдесят пятидесяти", 60: "шестьдесят шестидесяти"},
    **{70: "семьдесят семидесяти", 80: "восемьдесят восьмидесяти", 90: "девяносто девяноста", 100: "сто ста"},
    **{200: "двести двухсот", 300: "триста трёхсот", 500: "пятьсот пятисот", 1000: "тысяча тысячи тысячу тысяч"},
}
_COUNTS_ENGLISH = (
    *("two=2", "three=3", "four=4", "five=5", "six=6", "seven=7", "eight=8", "nine=9", "ten=10", "eleven=11"),
    *("twelve=12", "dozen=12", "thirteen=13", "fourteen=14", "fifteen=15", "sixteen=16", "seventeen=17"),
    *("eighteen=18", "nineteen=19", "twenty=20", "thirty=30", "forty=40", "fifty=50", "sixty=60", "seventy=70"),
    *("eighty=80", "ninety=90", "hundred=100", "thousand=1000", "first=1", "second=2", "third=3", "fourth=4"),
    *("fifth=5", "sixth=6", "seventh=7", "eighth=8", "ninth=9", "tenth=10", "eleventh=11", "twelfth=12"),
)
_ORDINALS = {
    **{"перв": 1, "втор": 2, "четвёрт": 4, "пят": 5, "шест": 6, "седьм": 7, "восьм": 8, "девят": 9, "десят": 10},
    **{"одиннадцат": 11, "двенадцат": 12, "тринадцат": 13, "четырнадцат": 14, "пятнадцат": 15, "двадцат": 20},
    **{"тридцат": 30, "сот": 100},
}
_ENDINGS = ("ый", "ой", "ая", "ое", "ого", "ому", "ую", "ым", "ом", "ые", "ых", "ыми")
_THIRD = "третий третья третье третьего третьему третьим третьем третью третьей третьи третьих"
NUMBER_WORDS = (
    *(f"{word}={number}" for number, words in _COUNTS.items() for word in words.split()),
    *(f"{stem}{ending}={number}" for stem, number in _ORDINALS.items() for ending in _ENDINGS),
    *(f"{word}=3" for word in _THIRD.split()),
    *_COUNTS_ENGLISH,
)
"""Spelled numbers in all their forms, as word=digits, without «один», "one" and «раз», which often are no numbers."""
NEGATIONS = (
    *("не", "нет", "ни", "без", "нельзя", "никогда", "никто", "никого", "никому", "ничто", "ничего", "ничем"),
    *("нигде", "никуда", "никак", "отнюдь", "перестал", "перестала"),
    *("not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "cannot"),
)

# Memory v2, the policy on save; its lists end in "etc." and are completed here. Every parameter is listed, so that a
# changed default does not change a preset's verdicts; None is the value that the parameter's declaration gives.
memory_v2_policy: dict[str, dict[str, object]] = {
    "admission": {
        "min_chars": 12,
        "max_chars": 240,
        "question_mark": True,
        "question_words": (
            *("найди", "сделай", "покажи", "объясни", "почему", "как", "когда", "можешь", "давай"),
            *("find", "show", "explain", "why", "how", "when", "can you", "could you", "what is"),
        ),
        "statement_words": (),
        "clauses": False,
        "commands": ("npm install", "npx", "сделай промпт", "сделай промт"),
        "shell_lines": _SHELL_LINES,
        "run": False,
        "cd": True,
        "sk_chars": 20,
        "bearer_chars": 16,
        "token_chars": 30,
        "hex_chars": 32,
        "sha_words": _SHA_WORDS,
        "known_secrets": False,
    },
    "classifier": {
        "profile_words": (
            *("имя", "зовут", "меня", "я", "предпочитаю", "предпочитает", "русский", "английский", "язык", "работа"),
            *("профессия", "живу", "живёт", "my name", "I am", "prefer", "language", "live", "work as"),
        ),
        "working_words": (
            *("сейчас", "ставим", "чиним", "задача", "план", "делаем", "работаем над", "текущ"),
            *("currently", "now", "task", "plan", "working on"),
        ),
        "lasting_words": (),
        "liked_words": (),
        "self_words": (),
        "self_subjects": (),
        "beginnings": True,
        "working_days": 14,
        "use_given": True,
    },
    "deduplicator": {
        "encoder": "use",
        "floor": 0.7,
        "lexical_floor": 0.85,
        "centre": "corpus",
        "owner": "any",
        "across_users": False,
        "number_words": NUMBER_WORDS,
        "date_words": DATE_WORDS,
        "negations": NEGATIONS,
        "kinds": ("substring", "semantic"),
        "threshold": 0.9,
        "lexical_threshold": 0.9,
        "linkage": "complete",
        "survivor": "oldest",
        "substring": "letters",
    },
    "quota": {"max_facts": 500, "max_profile": 50, "max_working": 50},
    "expiry": {"grace_days": 0},
    "decay": {"decay": "e_folding", "decay_days": 60.0, "decay_floor": 0.0, "decay_kinds": "*"},
}

# The numbers of the index standard.
index_policy: dict[str, dict[str, object]] = {
    "index_check": {"auto_clean_invalid": False, "auto_clean_missing": False},
    "split_plan": {"max_tokens_per_file": 4096, "counter": None},
}

POLICY: dict[str, dict[str, dict[str, object]]] = {"memory_v2": memory_v2_policy, "index_standard": index_policy}
"""The presets of the policies by document."""
