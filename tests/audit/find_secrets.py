"""Precision and recall of the list of secrets on a generated set, Russian and English, by kind.

    python tests/audit/find_secrets.py [SENTENCES] [SEED]
    python tests/audit/find_secrets.py FOLDER...

The set is made here and knows nothing of the list: secrets as services issue them, in sentences as people write them,
and beside each as many sentences with what only looks like one (a UUID, a git SHA, a version, a path, a slug, a
checksum, a variable, a date, a count, a word that holds "secret"). A find is right when it lies on the secret.

Given folders, it prints each find in their texts (any file of text, and the texts within Parquet and JSON files), to be
looked at, and how many there are in a million characters.
"""

from __future__ import annotations

import json
import random
import string
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from memkit.text.secrets import find

LETTERS, HEX = string.ascii_letters + string.digits, "0123456789abcdef"
WORDS = ["owl", "pool", "river", "lamp", "sova", "amber", "kazan", "night", "tea", "winter", "maple", "lynx"]
Make = Callable[[random.Random], str]


def signs(chars: str, low: int, high: int | None = None) -> Make:
    return lambda draw: "".join(draw.choices(chars, k=draw.randint(low, high or low)))


def after(start: str, rest: Make) -> Make:
    return lambda draw: start + rest(draw)


def password(draw: random.Random) -> str:
    word = draw.choice(WORDS)
    forms = (
        f"{word.title()}{draw.randint(10, 9999)}{draw.choice('!#%_-')}",
        f"{word}-{draw.choice(WORDS)}-{draw.randint(2019, 2027)}",
        "".join(draw.choices(LETTERS + "!#%^&*_-+", k=draw.randint(8, 20))) + str(draw.randint(0, 9)),
    )
    return draw.choice(forms)


def card(draw: random.Random) -> str:
    digits = [int(one) for one in draw.choice(("4", "51", "55", "2200", "6011"))]
    digits += [draw.randint(0, 9) for _ in range(15 - len(digits))]
    # The last digit makes Luhn's sum a multiple of ten.
    total = sum(d if i % 2 else d * 2 - 9 * (d > 4) for i, d in enumerate(digits))
    number = "".join(map(str, [*digits, -total % 10]))
    between = draw.choice(("", " ", "-"))
    return between.join(number[i : i + 4] for i in range(0, 16, 4))


def private_key(draw: random.Random) -> str:
    name = draw.choice(("", "RSA ", "EC ", "OPENSSH "))
    body = "\n".join(signs(LETTERS + "+/", 64)(draw) for _ in range(draw.randint(2, 12)))
    return f"-----BEGIN {name}PRIVATE KEY-----\n{body}\n-----END {name}PRIVATE KEY-----"


PLAIN = ("{}", "`{}`", "вот он: {} — не потеряй", "нашёл в истории команд: {}", "It was pasted into the chat: {}")
SAID = ("Authorization: Bearer {}", "curl -H 'Authorization: Bearer {}'", "шлём `Bearer {}` в заголовке")
PASSWORD = (
    "password: {}",
    "The password of the staging database is {}, ask Mira.",
    "DB_PASSWORD={}",
    '{{"user": "boris", "password": "{}"}}',
    "login boris, password {}",
    "Пароль: {}",
    "Пароль от вайфая в коворкинге новый: {}, старый не подходит.",
    "Пароль тестовой базы на birch — `{}`",
    "логин anna пароль {}",
    "С паролем = {} пускает",
    "passwd: '{}'",
    "Passphrase for the backup: {}",
)
TOKEN = (
    "api_key = {}",
    "export FILIN_GEO_KEY={}",
    "The token of the test bot is {}",
    "client_secret: {}",
    "ключ для геокодера: {}",
    "Токен раннера — {}",
    'secret: "{}"',
    "Новый ключ доступа: `{}`",
)
SECRETS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "model key": (after("sk-", signs(LETTERS + "_-", 24, 60)), PLAIN),
    "payment key": (after("sk_live_", signs(LETTERS, 24)), PLAIN),
    "git token": (after("ghp_", signs(LETTERS, 36)), PLAIN),
    "chat token": (after("xoxb-", signs(string.digits, 11)), PLAIN),
    "bot token": (lambda draw: f"{signs('123456789', 9, 10)(draw)}:{signs(LETTERS + '_-', 35)(draw)}", PLAIN),
    "cloud key": (after("AKIA", signs(string.ascii_uppercase + string.digits, 16)), PLAIN),
    "JWT": (lambda d: "eyJ" + ".".join(signs(LETTERS + "_-", n)(d) for n in (20, 60, 40)), PLAIN),
    "bearer": (lambda draw: signs(LETTERS, 20, 40)(draw) + "7", SAID),
    "password": (password, PASSWORD),
    "address": (password, ("postgres://filin:{}@birch:5432/filin", "строка: amqp://bot:{}@elm/ , не коммитить")),
    "card": (card, ("карта {}", "card {} exp 04/28", "Оплатил с {}.", "{}")),
    "PIN": (signs(string.digits, 4), ("PIN: {}", "пин-код {}", "пин от карты {}", "The PIN is {}.", "cvv {}")),
    "private key": (private_key, ("{}", "Ключ деплоя:\n{}\nзаменить в мае")),
    "named token": (lambda draw: "k7" + signs(LETTERS, 14, 40)(draw), TOKEN),
    "named hex": (signs(HEX, 32, 64), TOKEN),
}
NAMED = (
    "id записи: {}",
    "see {} for more",
    "ключ кэша: {}",
    "token: {}",
    "key = {}",
    "пароль не менялся с {}",
    "{}",
    "The secret of {} is patience.",
)
NO_SECRETS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "UUID": (lambda draw: str(uuid.UUID(int=draw.getrandbits(128))), NAMED),
    "git SHA": (signs(HEX, 40), ("commit {}", "откатили до коммита {}", "{}", "sha {} is green", "rev: {}")),
    "short SHA": (signs(HEX, 7, 10), ("commit {}", "ключевой коммит: {}", "fixed in {}")),
    "checksum": (signs(HEX, 64), ("sha256: {}", "{}  filin-0.13.0.tar.gz", "контрольная сумма {}")),
    "version": (lambda draw: ".".join(str(draw.randint(0, 40)) for _ in range(draw.choice((3, 4)))), NAMED),
    "path": (lambda draw: "/".join(draw.choices(WORDS, k=3)) + ".md", NAMED),
    "slug": (lambda draw: "-".join([*draw.choices(WORDS, k=3), str(draw.randint(2020, 2027))]), NAMED[:5]),
    "variable": (
        lambda draw: f"FILIN_{draw.choice(WORDS).upper()}_KEY",
        ("key in ${}", "password: ${}", "token=${{{}}}", "os.environ['{}']", "ключ лежит в `{}`"),
    ),
    "date": (lambda draw: f"2026-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}", NAMED),
    "time": (lambda draw: f"{draw.randint(10, 23)}:{draw.randint(10, 59)}", (*NAMED, "password reset at {}")),
    "count": (
        signs(string.digits, 3, 7),
        ("tokens: {}", "токенов: {}", "{} tokens", "key {} of 10", "бюджет токенов {}"),
    ),
    "phone": (lambda draw: f"+7 9{signs(string.digits, 2)(draw)} {signs(string.digits, 7)(draw)}", ("{}", "тел. {}")),
    "order number": (signs("13579", 16), ("order {}", "заказ {}", "id={}")),
    "words": (
        lambda draw: draw.choice(
            (
                "My secretary: anna",
                "ключевой вопрос: кто дежурит",
                "The bearer of bad news",
                "secretarial work = 2 days",
                "Пароль: см. в хранилище",
                "password: see the vault",
                "Passwords are kept in the vault, tokens are counted",
                "Ключ от квартиры у соседки",
                "a task-force, a risk-averse plan",
                "Пароли: правила для всех одинаковые",
                "keyboard: qwerty layout",
                "pinned: true",
                "the token budget is 4096 per block",
                "пароль сменился 26 января",
            )
        ),
        ("{}", "- {}", "Заметка: {}."),
    ),
}


def main(sentences: int = 3000, seed: int = 0) -> tuple[float, float]:
    """Print a line a kind and the two numbers; give precision and recall over all."""
    draw, per = random.Random(seed), max(1, sentences // (len(SECRETS) + len(NO_SECRETS)))
    detected, planted, wrong, looked = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for kind, (make, texts) in SECRETS.items():
        for _ in range(per):
            secret = make(draw)
            text = draw.choice(texts).format(secret)
            start = text.index(secret)
            hits = find(text)
            right = [hit for hit in hits if hit.start < start + len(secret) and hit.end > start]
            planted[kind] += 1
            detected[kind] += bool(right)
            wrong[kind] += len(hits) - len(right)
            if not right and "-v" in sys.argv:
                print("missed", repr(text))
    for kind, (make, texts) in NO_SECRETS.items():
        for _ in range(per):
            text = draw.choice(texts).format(make(draw))
            looked[kind] += 1
            wrong[kind] += len(find(text))
            if find(text) and "-v" in sys.argv:
                print("wrong ", repr(text), find(text))
    for kind, count in planted.items():
        print(f"{kind:14} found {detected[kind]:4} of {count:4}")
    for kind, count in looked.items():
        print(f"{kind:14} wrong {wrong[kind]:4} of {count:4}")
    right_ones = detected.total()
    precision, recall = right_ones / (right_ones + wrong.total()), right_ones / planted.total()
    print(f"precision {precision:.3f}  recall {recall:.3f}  ({planted.total()} secrets, {looked.total()} others)")
    return precision, recall


def texts_in(value: object) -> Iterator[str]:
    """Every text within lists and dictionaries."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item)


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a file; what is none has none."""
    if path.suffix == ".parquet":
        yield from texts_in(pq.read_table(path).to_pylist())
        return
    try:
        text = path.read_text("utf-8")
        yield from texts_in(json.loads(text)) if path.suffix == ".json" else [text]
    except ValueError:  # no text, or no JSON
        return


def finds(folders: list[str]) -> float:
    """Print each find in the texts of these folders; give how many there are in a million characters."""
    files = sorted(path for folder in folders for path in Path(folder).rglob("*") if path.is_file())
    size = count = 0
    for text in sorted({text for path in files for text in texts_of(path)}):
        size += len(text)
        for name, start, end in find(text):
            count += 1
            print(
                f"{name:14} {text[max(0, start - 60) : start]!r} >>> {text[start:end]!r} <<< {text[end : end + 20]!r}"
            )
    rate = count / max(size, 1) * 1e6
    print(f"{count} finds in {size:,} characters, {rate:.2f} a million")
    return rate


TINY = "20"


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "-v"]
    if all(word.isdigit() for word in words):
        main(*map(int, words))
    else:
        finds(words)
