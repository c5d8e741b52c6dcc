"""What no memory should hold: keys, tokens, passwords, cards. One list as data, `SECRETS`; `find` and `mask` read it.

Every pattern ends in bounded repetitions or in one that nothing follows, so the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

Test = Callable[[re.Match[str]], bool]


@dataclass(frozen=True)
class Secret:
    """One kind of secret.

    Attributes
    ----------
    name : str
        What problems and masks call it.
    meaning : str
        What it opens, in words.
    pattern : str
        Regular expression; what is secret is its group ``secret``.
    hints : tuple of str
        Lower-case words, one of which a text must hold to be looked at; none: every text is.
    test : callable
        Whether a match is one; a pattern cannot count or add up.
    """

    name: str
    meaning: str
    pattern: str
    hints: tuple[str, ...] = ()
    test: Test = lambda match: True


class Found(NamedTuple):
    """A secret within a text: its name in the list, and its first and last place, as of a slice."""

    name: str
    start: int
    end: int


def find(text: str, secrets: Iterable[Secret] | None = None) -> list[Found]:
    """The secrets in `text`, in order; where two overlap, the one that is earlier in the list.

    Parameters
    ----------
    text : str
        Of any length.
    secrets : sequence of Secret, optional
        `SECRETS` unless given.

    Examples
    --------
    >>> find("пароль: sova-2026, UUID 550e8400-e29b-41d4-a716-446655440000")
    [Found(name='password', start=8, end=17)]
    """
    lower, found = text.lower(), list[Found]()
    for secret in SECRETS if secrets is None else secrets:
        for hint in secret.hints:  # a third of the time of any(), and most texts are done here
            if hint in lower:
                break
        else:
            if secret.hints:
                continue
        for match in re.finditer(secret.pattern, text):
            if secret.test(match):
                found.append(Found(secret.name, *match.span("secret")))
    kept: list[Found] = []
    for each in sorted(found, key=lambda one: one.start):  # stable, so the list's order decides between equals
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
        elif each.end > kept[-1].end:
            kept[-1] = kept[-1]._replace(end=each.end)
    return kept


def mask(text: str, secrets: Iterable[Secret] | None = None) -> str:
    """`text` with a word in place of each secret.

    >>> mask("Bearer of bad news; Bearer not0a0real0token0at0all00")
    'Bearer of bad news; Bearer [bearer hidden]'
    """
    parts, done = [], 0
    for name, start, end in find(text, secrets):
        parts += [text[done:start], f"[{name} hidden]"]
        done = end
    return "".join([*parts, text[done:]])


_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")
_NOT_SECRET = re.compile(
    r"(?i)[$%{<*\[]|(?:.{0,3}/)|.*?(?:://|\(\)|\(\"|getenv|environ)|your[_-]"  # a variable, a path, an address
    r"|v?\d+(?:\.\d+)+|\d{4}-\d\d-\d\d"  # a version, a date
    r"|(?:sha|md|base|utf|rsa|aes|argon|ed|bcrypt|hs)-?\d+"  # how it is kept
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$|(.)\1*$"  # a UUID, one sign again and again
)
_SLUG = re.compile(r"(?:[^\W\d_]+|\d+)(?:[-_./:#+~=](?:[^\W\d_]+|\d+)?)*$")
_REVISION = re.compile(r"(?i)commit|\bsha|\brev|коммит|ревизи|hash|хеш|хэш|checksum|сумм")


def _is_password(match: re.Match[str]) -> bool:
    secret = match["secret"]
    if _NOT_SECRET.match(secret):
        return False
    if match["quote"] or (_DIGIT.search(secret) and _LETTER.search(secret)):
        return True
    return not match["gap"].strip() and len(_DIGIT.findall(secret)) >= 6


def _is_mixed(match: re.Match[str]) -> bool:
    secret = match["secret"]
    return bool(_DIGIT.search(secret) and _LETTER.search(secret)) and not _NOT_SECRET.match(secret)


def _is_token(match: re.Match[str]) -> bool:
    secret = match["secret"]
    return _is_mixed(match) and not (_SLUG.match(secret) or _REVISION.search(match["gap"]))


def _has_digit(match: re.Match[str]) -> bool:
    return bool(_DIGIT.search(match["secret"]))


def _is_no_variable(match: re.Match[str]) -> bool:
    return not _NOT_SECRET.match(match["secret"])


def _is_card(match: re.Match[str]) -> bool:
    """Digits of an issuer's length whose sum is right (Luhn)."""
    digits = [int(digit) for digit in match["secret"] if digit.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_OPEN = r"(?<![A-Za-z0-9_-])"
_WORD, _WORD_END = r"(?:(?<![^\W_])|(?<=[a-z])(?=[A-Z]))", r"(?![^\W_])"
_PASSWORDS = (
    r"passwords?|passwd|passphrase|pwd|pass|парол(?:ь|я|ю|е|ем|и|ей)|кодов(?:ое|ого|ым) слов(?:о|а|ом)"
    r"|логин[ \t]?(?:и|/)[ \t]?пароль"
)
_TOKENS = (
    r"(?:api|access|auth|secret|private|service|account|client|signing|encryption|webhook)[ _-]?(?:access[ _-]?)?"
    r"(?:keys?|tokens?|secrets?)|apikey|secrets?|tokens?|keys?|credentials?|authorization"
    r"|токен(?:а|у|ом|е|ы)?|ключ(?:а|у|ом|е|и)?|секрет(?:а|у|ом|е|ы)?"
)
# Between the word and the value: a few words of the same sentence, and a sign that says "is".
_SAYS = (
    r"[\"'`]?(?P<gap>(?:[^\n:=.!?;]|\.(?=\w)){0,40}?)"
    r"(?:[ \t]{0,3}(?:=>|[:=]|[ \t][—–-])|[ \t]{1,3}(?:is|это|теперь)(?=[ \t]))[ \t*]{0,4}(?P<quote>[\"'`«“])?"
)
_BARE = r"[^\s\"'`«“]{5,127}[^\s\"'`»”.,;:)!?|]"

SECRETS: tuple[Secret, ...] = (
    Secret(
        "private_key",
        "a private key in PEM or PGP armour",
        r"(?P<secret>-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"[\s\S]*?(?:-----END [A-Z0-9 ]{1,60}-----|\Z))",
        ("private key",),
    ),
    Secret("model_key", "a key of a model's service", _OPEN + r"(?P<secret>sk-[A-Za-z0-9_-]{20,})", ("sk-",)),
    Secret(
        "payment_key",
        "a key of a payment service",
        _OPEN + r"(?P<secret>(?:[sr]k|whsec)_(?:(?:live|test)_)?[A-Za-z0-9]{16,})",
        ("sk_", "rk_", "whsec_"),
    ),
    Secret(
        "git_token",
        "a token of GitHub or GitLab",
        _OPEN + r"(?P<secret>gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,})",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    ),
    Secret(
        "chat_token",
        "a token or hook of a chat service",
        _OPEN + r"(?P<secret>xox[abeoprs]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/[A-Za-z0-9/]{20,})",
        ("xox", "hooks.slack"),
    ),
    Secret("bot_token", "a Telegram bot", r"(?<![\w-])(?P<secret>[0-9]{6,12}:[A-Za-z0-9_-]{30,})", (":",)),
    Secret(
        "cloud_key",
        "a key of a cloud",
        _OPEN + r"(?P<secret>(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|AQVN[A-Za-z0-9_-]{30,}"
        r"|y0_[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{50,}"
        r"|SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,})",
        ("akia", "asia", "aiza", "aqvn", "y0_", "hf_", "npm_", "pypi-", "sg."),
    ),
    Secret(
        "session_token",
        "a signed token (JWT)",
        _OPEN + r"(?P<secret>eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{4,})",
        ("eyj",),
    ),
    Secret(
        "bearer",
        "a token after Bearer or Basic",
        r"(?i:(?<![^\W_])(?:bearer|basic))[\s:]{1,8}(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        ("bearer", "basic"),
        _has_digit,
    ),
    Secret(
        "url_password",
        "the password within an address",
        r"://[^\s:/@]{0,64}:(?P<secret>[^\s@/]{3,128})@",
        ("://",),
        _is_no_variable,
    ),
    Secret(
        "card",
        "the number of a bank card",
        r"(?<![\w.-])(?P<secret>(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6\d{3})(?:[ -]?\d{4}){3}|3[47]\d\d[ -]?\d{6}[ -]?\d{5})"
        r"(?![\w-]|\.\d)",
        test=_is_card,
    ),
    Secret(
        "pin",
        "a PIN or the code of a card",
        r"(?i:(?<![^\W_])(?:pin|пин|cvv|cvc)(?:[ -]?(?:code|код)[а-яё]{0,2})?)"
        r"(?: (?:от|for|to|of) (?:the )?[\w-]{1,20})?(?:[ \t]{0,2}[:=—–][ \t]?| is | )"
        r"[`\"']?(?P<secret>\d{3,8})(?![\w-]|\.\d)",
        ("pin", "пин", "cvv", "cvc"),
    ),
    Secret(
        "password",
        "a password that is named as one",
        f"(?i:{_WORD}(?:{_PASSWORDS}){_WORD_END}){_SAYS}(?P<secret>(?(quote)[^\\s\"'`»”]{{6,128}}|{_BARE}))",
        ("pass", "pwd", "парол", "кодов"),
        _is_password,
    ),
    Secret(
        "password",
        "a password that follows the word at once",
        f"(?i:{_WORD}(?:{_PASSWORDS}){_WORD_END})[ \\t]{{1,3}}(?P<secret>{_BARE})",
        ("pass", "pwd", "парол", "кодов"),
        _is_mixed,
    ),
    Secret(
        "token",
        "a key or token that is named as one",
        f"(?i:{_WORD}(?:{_TOKENS}){_WORD_END}){_SAYS}(?P<secret>[A-Za-z0-9_./+=~-]{{12,}})",
        ("key", "token", "secret", "credential", "authorization", "токен", "ключ", "секрет"),
        _is_token,
    ),
)
"""Every kind; add a row, and `find`, `mask` and the rule ``secret`` know it. Admission keeps to its document's four."""
