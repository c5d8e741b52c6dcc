"""What no memory should hold: keys, tokens, passwords, cards. One list as data, `SECRETS`, for all who ask.

`find` and `mask` read it, and through them every door: what is shown, what is checked, what admission refuses. Every
pattern ends in bounded repetitions or in one that nothing follows, so the time is linear in the text.
"""

from __future__ import annotations

import functools
import html
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.parallel import bar
from memkit.text.languages import FUNCTION_WORDS

try:
    import re2
except ImportError:  # no wheel for this machine: every text is read
    re2 = None

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
        Regular expression of Python; what is secret is its group ``secret``.
    examples : tuple of str
        An English and a Russian one, the secret within ⟦ and ⟧.
    hints : tuple of str
        Lower-case words, one of which a text must hold to be looked at; none: every text is.
    test : callable
        Whether a match is one; a pattern cannot count or add up.
    look : str
        Regular expression of RE2 that every text with such a secret matches, quick to ask of many; ``HINT`` stands for
        any of the hints, in either case.
    """

    name: str
    meaning: str
    pattern: str
    examples: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    test: Test = bool  # every match is true
    look: str = "HINT"

    @property
    def quick(self) -> str:
        """`look` with the hints in their place."""
        hints = "|".join(re.escape(hint).replace("i", "[iİı]") for hint in self.hints)  # which Python folds and RE2 not
        return f"(?:{self.look.replace('HINT', f'(?i:{hints})')})"


class Finding(NamedTuple):
    """A secret within a text: its name in the list, and its first and last place, as of a slice."""

    name: str
    start: int
    end: int


def find(text: str, secrets: Iterable[Secret] | None = None) -> list[Finding]:
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
    [Finding(name='password', start=8, end=17)]
    """
    kinds = SECRETS if secrets is None else secrets
    if kinds is SECRETS and re2:  # a twentieth of the time, for most texts
        data = text.encode(errors="replace")
        kinds = [secret for look, group in _looks() if look.search(data) for secret in group]
    lower, findings = text.lower(), list[Finding]()
    for secret in kinds:
        for hint in secret.hints:  # a third of the time of any(), and most texts are done here
            if hint in lower:
                break
        else:
            if secret.hints:
                continue
        findings += _findings(secret, text)
    return _apart(findings)


def may_hold(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which of many texts can hold a secret at all, of which `find` needs to be asked of few.

    >>> may_hold(pa.chunked_array([["пароль: sova-2026", "Пароль знает Мира.", None]])).to_pylist()
    [True, False, False]
    """
    looks = (pc.match_substring_regex(texts, _look_of(group)) for group in _groups())
    return pc.fill_null(functools.reduce(pc.or_, looks), False)


def kinds_in(texts: pa.ChunkedArray) -> dict[int, list[Secret]]:
    """By the rows of many texts the kinds of secrets that they can hold, for `find`; a few looks at all of them.

    >>> kinds = kinds_in(pa.chunked_array([["пароль: sova-2026", "Пароль знает Мира.", None]]))
    >>> {row: {secret.name for secret in of_row} for row, of_row in kinds.items()}
    {0: {'password'}}
    """
    kinds = defaultdict[int, list[Secret]](list)
    # A part at a time: of all texts at once, those that are looked at again would be a second copy.
    for start in bar("secrets", range(0, len(texts), _MANY), silent=len(texts) <= _MANY, leave=False):
        part = texts.slice(start, _MANY)
        for group in _groups():
            rows = np.flatnonzero(mask := _matching(part, _look_of(group)))
            few = part.filter(mask)
            for secret, row in ((one, row) for one in group for row in rows[_matching(few, one.quick)].tolist()):
                kinds[start + row].append(secret)
    return kinds


def _groups() -> Iterator[Sequence[Secret]]:
    """Few kinds at a time: all at once are too large for RE2's automaton; one after the other takes twice as long."""
    return (SECRETS[start : start + _AT_ONCE] for start in range(0, len(SECRETS), _AT_ONCE))


def _matching(texts: pa.ChunkedArray, pattern: str) -> NDArray[np.bool_]:
    """Which of the texts the pattern is found in."""
    return np.asarray(pc.fill_null(pc.match_substring_regex(texts, pattern), False), bool)


def _look_of(secrets: Iterable[Secret]) -> str:
    return "|".join(secret.quick for secret in secrets)


@functools.cache
def _looks() -> list[tuple[Any, Sequence[Secret]]]:
    return [(re2.compile(_look_of(group).encode()), group) for group in _groups()]


def _findings(secret: Secret, text: str) -> list[Finding]:
    """The secrets of one kind. What fails the test may be a label: the search goes on within it."""
    findings, search, position = list[Finding](), re.compile(secret.pattern).search, 0
    while match := search(text, position):
        start, end = match.span("secret")
        if secret.test(match):
            end = _whole(text, start, end)
            findings.append(Finding(secret.name, start, end))
            position = end
        else:
            position = max(start, match.start() + 1)
    return findings


def _whole(text: str, start: int, end: int) -> int:
    """Where a secret ends that was cut by the bound of its pattern."""
    rest = _REST.match(text, end) if end - start >= _BOUND else None
    return rest.end() if rest else end


def _apart(findings: list[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    for each in sorted(findings, key=lambda one: one.start):  # stable, so the list's order decides between equals
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
        elif each.end > kept[-1].end:
            kept[-1] = kept[-1]._replace(end=each.end)
    return kept


def mask(text: str, secrets: Iterable[Secret] | None = None) -> str:
    """`text` with a word in place of each secret, wherever in it the secret stands again.

    >>> mask("Bearer of bad news; Bearer not0a0real0token0at0all00")
    'Bearer of bad news; Bearer [bearer hidden]'
    >>> mask("пароль: sova-2026; вход: root / sova-2026")
    'пароль: [password hidden]; вход: root / [password hidden]'
    """
    return Mask(secrets=secrets)(text)


def without_secrets(text: str) -> str:
    """`text` with a blank in place of each secret, for who takes words from it.

    >>> without_secrets("пароль: sova-2026, чай")
    'пароль:  , чай'
    """
    return _without(text, find(text), " ")


class Mask:
    """`mask` for texts that are shown together: a secret that one of them says is hidden in all.

    Only a value that no ordinary word is, of eight characters and more, letters and digits, or a phrase of three words
    and more, is hidden where nothing says what it is.

    Parameters
    ----------
    texts : iterable of str
        Of the same result, whether or not all of each is shown.
    secrets : sequence of Secret, optional
        `SECRETS` unless given.

    Attributes
    ----------
    lengths : dict of str to list of int
        By how the values begin that are known, how long they are.

    Examples
    --------
    >>> hide = Mask(["пароль: sova-2026"])
    >>> hide("root / sova-2026, sova")
    'root / [password hidden], sova'
    """

    def __init__(self, texts: Iterable[str] = (), secrets: Iterable[Secret] | None = None) -> None:
        self._secrets = SECRETS if secrets is None else tuple(secrets)
        self._names: dict[str, str] = {}
        self.lengths: dict[str, list[int]] = {}
        for text in texts:
            self.learn(text)

    def learn(self, text: str, kinds: Iterable[Secret] | None = None) -> list[Finding]:
        """The secrets of a text, which are hidden from now on; of these `kinds`, where `kinds_in` told them."""
        is_kept = kinds is None and self._secrets is SECRETS and len(text) <= _KEPT
        findings = [*_found(text)] if is_kept else find(text, self._secrets if kinds is None else kinds)
        for name, start, end in findings:
            self._keep(text[start:end], name)
        return findings

    def _keep(self, value: str, name: str) -> None:
        is_known_again = is_mixed(value) or _WORDS.fullmatch(value) is not None
        if value not in self._names and LEAST <= len(value) <= _MOST and is_known_again:
            self._names[value] = name
            lengths = self.lengths.setdefault(value[:LEAST], [])
            if len(value) not in lengths:
                lengths.append(len(value))
                lengths.sort(reverse=True)

    def __call__(self, text: str, kinds: Iterable[Secret] | None = None, said: str = "[{} hidden]") -> str:
        return self.again(text, said, self.learn(text, kinds))

    def again(self, text: str, said: str = "[{} hidden]", found: list[Finding] | None = None) -> str:
        """`text` without the values that are known already, and what was `found` in it; no others are looked for."""
        return _without(text, _apart([*(found or ()), *self._equals(text)]), said)

    def _equals(self, text: str) -> list[Finding]:
        findings, done = list[Finding](), 0
        for place in _STARTS.finditer(text) if self._names else ():
            start = place.start()
            for length in self.lengths.get(text[start : start + LEAST], ()) if start >= done else ():
                value = text[start : start + length]  # shorter at the end of the text
                name, end = self._names.get(value), start + len(value)
                if name and not (text[end - 1].isalnum() and text[end : end + 1].isalnum()):
                    findings.append(Finding(name, start, end))
                    done = end
                    break
        return findings

    def __or__(self, other: Mask) -> Mask:
        """What hides the values of both."""
        return self._of({**self._names, **other._names})

    def _of(self, names: dict[str, str]) -> Mask:
        mask = Mask(secrets=self._secrets)
        for value, name in names.items():
            mask._keep(value, name)
        return mask

    def in_html(self, page: str) -> str:
        """HTML without the values that are known."""
        return self._of({html.escape(value): name for value, name in self._names.items()}).again(page)


# A round bound.
@functools.lru_cache(8192)
def _found(text: str) -> tuple[Finding, ...]:
    """As `find`: a panel looks at the same texts at each move of a slider."""
    return tuple(find(text))


def _without(text: str, findings: list[Finding], said: str = "[{} hidden]") -> str:
    parts, done = [], 0
    for name, start, end in findings:
        parts += [text[done:start], said.format(name)]
        done = end
    return "".join([*parts, text[done:]])


def is_mixed(value: str) -> bool:
    """Whether it is no ordinary word: letters and digits.

    >>> is_mixed("sova-2026"), is_mixed("correct-horse"), is_mixed("2026-03-01")
    (True, False, False)
    """
    return bool(_DIGIT.search(value) and _LETTER.search(value))


# Guesses: shorter values stand within words by chance, and longer ones are data.
LEAST, _MOST, _BOUND = 8, 1024, 60
"""Characters of a value that is known again, least and most, and those after which a pattern may have cut it."""
_AT_ONCE, _MANY = 5, 10_000  # kinds, and texts
# Names and cells, which recur; a long text is looked through once.
_KEPT = 500
"""Characters of a text whose secrets are remembered, at most."""
_STARTS = re.compile(r"(?<![^\W_])[^\W_]|[^\w\s]|_")
_REST = re.compile(r"[^\s\"'`«»“”,;)]*")
_WORDS = re.compile(r"[^\W\d_]+(?: [^\W\d_]+){2,}")
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")
_NOT_SECRET = re.compile(
    r"(?i)[${<\[]|%(?:\w+%|[sd(])|\*{2}|your[_-]|.*?(?:\(\)|\(\"|getenv|environ)"  # a variable
    r"|(?:.{0,3}/)|.*?://"  # a path, an address
    r"|v?\d+(?:\.\d+)+|\d{4}-\d\d-\d\d"  # a version, a date
    r"|(?:sha|md|base|utf|rsa|aes|argon|ed|bcrypt|hs)-?\d+(?![^\W_])"  # how it is kept
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$|(.)\1*$"  # a UUID, one sign again and again
)
_SLUG = re.compile(r"(?:[^\W\d_]+|\d+)(?:[-_./:#+~=](?:[^\W\d_]+|\d+)?)*$")
_REVISION = re.compile(
    r"(?i)commit|\bsha|\brev|\bmd5|коммит|ревизи|hash|хеш|хэш|checksum|digest|дайджест|fingerprint|отпечат|сумм"
)
_PUBLIC = re.compile(r"(?i)public|публичн|открыт")
_HEX = re.compile(r"(?:0x)?[0-9A-Fa-f]+$")
_WHOLE_LINE = re.compile(r"(?=.*[A-Z])(?=.*[a-z])(?=.*\d).{64}(?:.{6})?$")
_DOTTED = re.compile(r"(?:[^\W\d]\w*\.)+[^\W\d]\w*(?:$|\()")
_NUMBERED = re.compile(r"[^\W\d_]+\d+$")
_PLACE = re.compile(r".*/|\S+@\S+\.\w+$|.*\.[A-Za-z]\w{0,4}$")
_PORT = re.compile(r"[\d:.]+(?:/\w+)?$|rotocol\b|ort\b|rint-")
_EXAMPLE = re.compile(r"(?i)(?:(?:your|my|some)?[_-]?(?:pass(?:word|wd)?|pwd|secret|token)|парол\w+|x+|\.+)$")
_ABOUT_PASSWORDS = re.compile(
    r"use|ask|see|check|stor|ke(?:ep|pt)|rotat|chang|reset|shar|requir|minim|maxim|expir|manag|polic|charact|letter"
    r"|symbol|length|word|pass|vault|same|known?|unknown|forg|lost|never|always|every|need|hash|crypt|encrypt|plain"
    r"|default|bcrypt|argon|login|user|set|not|send|give|mail|write|read"
    r"|смотр|см$|спрос|узна|хран|леж|зна[еют]|меня|смен|сброс|помен|нельзя|нужн|надо|долж|минимум|максимум|символ|букв"
    r"|знак|слов|цифр|парол|прежн|стар|нов|одинак|забы|утер|потер|отсут|нет$|невер|общ|кажд|никогда|всегда|требу|хеш"
    r"|шифр|запис|бумаж|сейф|менедж|напис|прис|отправ|выда|получ|дать|скаж"
)
"""How words begin that tell of passwords, and stand in none."""
_CLASSES = tuple(map(re.compile, (r"[a-zа-яё]", r"[A-ZА-ЯЁ]", r"\d", r"[^\w\s.:-]")))
_TURN = re.compile(r"[^\W\d_](?=\d)|\d(?=[^\W\d_])")
_LOGIN = re.compile(r"[ \t]*+(?::?[ \t]*+[^\s@]++@\S+|:[ \t]*+\S+)?$")
_NETWORK = re.compile(r"(?i)w[iy]-?fi|вай-?фа|роутер|router|network|сет[ия]")
_BEFORE = 40  # characters that are looked at for a word that says what follows


def _is_piece_of_key(match: re.Match[str]) -> bool:
    """Whether it says that it is one, or is lines of base64, one of them whole."""
    if "-----" in match["secret"]:
        return True
    lines = re.split(r"(?:[…\s]|\\n)+", match["secret"].strip("…\n "))
    return len(lines) > 1 and any(_WHOLE_LINE.match(line) and not _HEX.match(line) for line in lines)


def _is_password(match: re.Match[str]) -> bool:
    secret = match["secret"]
    if not _is_written(match):
        return False
    if match["quote"]:
        return is_mixed(secret) or match["label"].lower() != "pass"  # which is a verb as well
    return is_mixed(secret) or (not match["gap"].strip() and len(_DIGIT.findall(secret)) >= 6)


def _is_phrase(match: re.Match[str]) -> bool:
    """Whether the words are no sentence, which has function words, or says what is done with passwords."""
    secret = match["secret"].lower().replace("ё", "е")
    if not _is_written(match):
        return False
    words = re.split("[ -]", secret)
    if len(words) < (2 if match["quote"] else 3):
        return False
    is_said = any(word in FUNCTION_WORDS for word in words) and " " in secret
    return not (is_said or any(map(_ABOUT_PASSWORDS.match, words)))


def _is_mixed(match: re.Match[str]) -> bool:
    return is_mixed(match["secret"]) and not _NOT_SECRET.match(match["secret"])


def _is_typed(match: re.Match[str]) -> bool:
    return _is_written(match) and not _PORT.match(match["secret"])


def _is_written(match: re.Match[str]) -> bool:
    """Whether it stands for itself: no variable, call, path, date or example."""
    secret = match["secret"]
    is_called = match.string[match.end("secret") : match.end("secret") + 1] == "("
    # In a key with a dot letters and digits take turns; other parts with dots between are names within names.
    is_key = any(len(_TURN.findall(part)) >= 3 or len(_DIGIT.findall(part)) >= 5 for part in secret.split("."))
    is_named = bool(_DOTTED.match(secret)) and not is_key
    return not (is_called or _NOT_SECRET.match(secret) or _EXAMPLE.match(secret) or is_named)


def _is_value(match: re.Match[str]) -> bool:
    return is_mixed(match["secret"]) and _is_written(match)


def _is_token(match: re.Match[str]) -> bool:
    secret = match["secret"]
    if not _is_value(match) or _SLUG.match(secret) or _REVISION.search(match["gap"]):
        return False
    return not (_HEX.match(secret) and _REVISION.search(_before(match)))


def _before(match: re.Match[str]) -> str:
    """What the line says before the secret."""
    start = match.start("secret")
    return match.string[max(0, start - _BEFORE) : start].rpartition("\n")[2]


def _is_hex_key(match: re.Match[str]) -> bool:
    before = _before(match)
    return is_mixed(match["secret"]) and not (_REVISION.search(before) or _PUBLIC.search(before))


def _is_beside_login(match: re.Match[str]) -> bool:
    """Signs of several classes, which names of systems with a number, files and mail addresses are not."""
    secret, gap = match["secret"], match["gap"]
    if not _is_value(match) or len(gap.split()) > 4 or _NUMBERED.match(secret) or _PLACE.match(secret):
        return False
    if _SLUG.match(secret):
        return len(secret) >= 12 and bool(_LOGIN.match(gap))
    # Borders that the examples of `SECRETS` hold; nothing was measured.
    return sum(bool(kind.search(secret)) for kind in _CLASSES) >= 3 or len(_TURN.findall(secret)) >= 2


def _is_for_that(match: re.Match[str]) -> bool:
    """A value that no name with a number is, unless the clause ends with it or it opens a network."""
    after = match.string[match.end("secret") :][:3].lstrip("*`\"'»”")
    is_last = not after.strip(" \t")[:1].isalnum()
    return _is_value(match) and (is_last or bool(_NETWORK.search(match[0])) or not _NUMBERED.match(match["secret"]))


def _has_digit(match: re.Match[str]) -> bool:
    return bool(_DIGIT.search(match["secret"]))


def _is_of_host(match: re.Match[str]) -> bool:
    """Whether what follows the prefix has a digit, and is no chain of words and numbers or one word with a number."""
    key = match["key"] or match["plain"]
    return bool(_DIGIT.search(key)) and not _SLUG.match(key) and len(_TURN.findall(key)) > (1 if match["plain"] else 0)


def _is_card(match: re.Match[str]) -> bool:
    """Digits of an issuer's length whose sum is right (Luhn)."""
    digits = [int(digit) for digit in match["secret"] if digit.isdecimal()]
    # The sum of the digits of the double, as of 14 it is 5.
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, words))


_OPEN = r"(?<![A-Za-z0-9_-])"
_WORD, _WORD_END = r"(?:(?<![^\W_])|(?<=[a-z])(?=[A-Z]))", r"(?![^\W_])"
_PASSWORDS = (
    r"passwords?|passwd|passphrase|pwd|psw|pw|(?<!com)(?<!by)(?<!sur)(?<!tres)(?<!er)pass"
    r"|парол(?:ь|я|ю|е|ем|и|ей)|кодов(?:ое|ого|ым) слов(?:о|а|ом)"
    r"|логин[ \t]?(?:и|/)[ \t]?пароль"
)
_LOGINS = r"ssh|root|log[ -]?in|user(?:name)?|admin|логин|пользовател[ьяюе]м?|юзер|админ|рут"
_TOKENS = (
    r"(?:api|access|auth|secret|private|service|account|client|signing|encryption|webhook)[ _-]?(?:access[ _-]?)?"
    r"(?:keys?|tokens?|secrets?)|apikey|secrets?|tokens?|keys?|credentials?|authorization"
    r"|токен(?:а|у|ом|е|ы)?|ключ(?:а|у|ом|е|и)?|секрет(?:а|у|ом|е|ы)?"
)
# Between the word and the value: a few words of the same sentence, and a sign that says "is".
_SAYS = (
    r"[\"'`]?(?P<gap>(?:[^\n:=.!?;]|\.(?=\w)){0,40}?)"
    r"(?:[ \t]{0,3}(?:=>|[:=]|[ \t][—–-])"
    r"|[ \t]{1,3}(?:is|это|теперь|changed to|set to|(?:по|с)мен[а-я]{1,6} на)(?=[ \t]))"
    r"[ \t*]{0,4}(?P<quote>[\"'`«“])?"
)
# Six to 128 signs: shorter ones are words and numbers, and a longer one is data.
_BARE = r"(?=\S{0,127}?\d)[^\s\"'`«“]{5,127}[^\s\"'`»”.,;:)!?|]"
_PHRASE_LABELS = (
    r"password|passwd|pass ?phrase|pwd|парол(?:ь|я|ю|ем)|парольн(?:ая|ую|ой) фраз(?:а|у|ы|ой)|кодовое слово"
)
# Between the word and a phrase: what it is for.
_FOR_THAT = r"(?:[ \t]{1,3}(?i:от|к|для|на|в|у|for|to|of|on)(?:[ \t]{1,3}[\w.-]{1,20}){1,4})?"
_LETTERS = r"[^\W\d_]{2,20}"
_HEX_KEY = r"(?<![0-9A-Za-z])(?P<secret>(?:0x)?[0-9A-Fa-f]{64})(?![0-9A-Za-z])"
# For a look: `_SAYS` and the end of the word, wider and for RE2.
_INTRODUCED = r"(?:[^\n:=.!?;]|\.\S)*(?:=>|[:=—–-]|is|это|теперь|to|на)[ \t*]{0,4}"
_REST_OF_WORD = r"\S*(?: (?i:слов)\S*)?[ \t]{1,3}"
OF_PASSWORD = ("pass", "pwd", "psw", "pw", "парол", "кодов")

PREFIXES = {
    "models": "gsk_ xai- pplx- r8_ nvapi- csk- tgp_v1_ jina_ AQ.Ab api_org_ ABSK bedrock-api-key- vck_ esecret_ crsr_",
    "memories, agents": "m0- bmc_ pcsk_ tvly- lsv2_pt_ lsv2_sk_ wandb_v1_ bb_live_ apify_api_ ctx7sk- dtn_ mdb_sa_sk_",
    "registries": "dckr_pat_ dckr_oat_ rubygems_ CLOJARS_ AKCp pnu_ rdme_ CFPAT-",
    "code": "gldt- glft- glrt- glptt- glagent- glcbt- gloas- glsoat- glimt- glffct- GR1348941 ATBB ATCTT3 sgp_ squ_"
    " sqp_ sqa_ PMAK- pul- CCIPAT_ CCIPRJ_ bkua_",
    "trackers and desks": "lin_api_ lin_oauth_ ntn_ ATATT3 ATTA figd_ figor_ sntrys_ sntryu_ NRAK- NRII- pat-na1-"
    " pat-eu1- xkeysib- xsmtpsib- mlsn. tfp_ cal_live_ fio-u-",
    "clouds": "hvs. hvb. dp.pt. dp.st. ops_eyJ AGE-SECRET-KEY-1 LTAI t1.9eu HRKU- dt0c01. pscale_tkn_ pscale_pw_"
    " pscale_oauth_ sbp_ sb_secret_ glsa_ glc_ fo1_ fm2_ tk-us- vcp_ vci_ vca_ vcr_ cfut_ cfat_ cfk_ ddp_ ddw_ rpa_",
    "chats, measures, networks": "xapp- phx_ tskey- dnkey-",
    "accounts and shops": "ya29. 1//0 vk1.a. shpat_ shpca_ shppa_ shpss_ sq0atp- sq0csp- EZAK EZTK duffel_live_"
    " duffel_test_ shippo_live_ shippo_test_ FLWSECK- FLWSECK_TEST- rzp_live_ rzp_test_ polar_oat_ polar_pat_ p8e-",
}
"""What the keys of services open with, by what they serve; at least `_LEAST_KEY` signs follow."""
SHORT_PREFIXES = (
    "key- sm_ pa- fw_ flp_ up_ fc- e2b_ cio oy2 dapi nfp_ rnd_ napi_ secret_ secret- ico- live_ pat_ API- EAAA EAAC"
    " EAAM BSA da2- 4b1d cmVmd s."
)
"""Those that words may open with too: at least `_LEAST_PLAIN` letters and digits follow, without another sign."""
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
SHAPES = {
    r"pat[A-Za-z0-9]{14}\.": r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}",  # Airtable
    r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}": (
        r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,45}"  # Discord
    ),
    r"(?:SK|AC)[0-9a-f]{32}": r"(?:SK|AC)[0-9a-f]{32}",  # Twilio
    r"pk_[0-9]{6}": r"pk_[0-9]{6,10}_[0-9A-Z]{32}",  # ClickUp
    r"re_[A-Za-z0-9]{8}_": r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,40}",  # Resend
    r"z_1dWlkIjoi": r"z_1dWlkIjoi[A-Za-z0-9_-]{9,100}(?:\.[A-Za-z0-9_-]{20,200})?",  # Zep
    r"sm_[A-Za-z0-9]{22}_": r"sm_[A-Za-z0-9]{22}_[A-Za-z0-9]{40,80}",  # Supermemory
    r"a[ks]-[A-Za-z0-9]{22}": r"a[ks]-[A-Za-z0-9]{22}",  # Modal
    r"[12]/[0-9]{15}": r"[12]/[0-9]{15,20}(?:/[0-9]{15,20})?:[0-9a-f]{32}",  # Asana
    r"(?:api|sdk|mob)-[0-9a-f]{8}-": rf"(?:api|sdk|mob)-{_UUID}",  # LaunchDarkly
    r"-[0-9a-f]{12}:": rf"{_UUID}:[0-9a-f]{{32}}",  # fal
    r"\.atlasv1\.": r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}",  # Terraform
    r"[0-9]Q~": r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",  # Azure
    r"[ps]at\.[A-Za-z0-9_-]{22}\.": r"[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",  # Harness
    r"sk\.eyJ": r"sk\.eyJ[A-Za-z0-9_-]{20,200}\.[A-Za-z0-9_-]{18,40}",  # Mapbox
    r"[0-9a-f]-us[0-9]": r"[0-9a-f]{32}-us[0-9]{1,2}",  # Mailchimp
    r"v1\.0-[0-9a-f]{24}": r"v1\.0-[0-9a-f]{24}-[0-9a-f]{140,150}",  # Cloudflare's origin
    r"A3-[A-Z0-9]{6}-": r"A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5}",  # 1Password
    r"sha256~": r"sha256~[A-Za-z0-9_-]{43}",  # OpenShift
    r"amzn\.mws\.": rf"amzn\.mws\.{_UUID}",  # Amazon's shops
    r"access_token\$": r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",  # Braintree
    r"perm[:-][A-Za-z0-9=]{4}": r"perm[:-][A-Za-z0-9=]{4,40}\.[A-Za-z0-9=-]{4,40}\.[A-Za-z0-9]{20,40}",  # YouTrack
    r"_mmk": r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk",  # MaxMind
    r"sl\.[A-Za-z0-9_=-]{60}": r"sl\.[A-Za-z0-9_=-]{60,900}",  # Dropbox
}
"""Keys that are known by the whole of them: a part that is quickly found, and all; each has a digit."""
# Guesses, above the length of most names of files and branches that begin alike.
_LEAST_KEY, _LEAST_PLAIN = 20, 24
_LONG, _SHORT = " ".join(PREFIXES.values()).split(), SHORT_PREFIXES.split()
_KEYS_ALONE = (
    r"(?:api|access|auth|secret|private|client)[ _-]?(?:key|token|secret)|apikey|secret|password|(?<=[_-])tokens?"
    r"|секрет|пароль|токен[ \t]доступа|(?:api|апи)[ -]?ключ|ключ[ \t](?:api|апи|доступа)"
)
"""Names of values that are secret whatever they look like; a key of a table or a queue is none."""
_IS_NAMED = r"[\"'`]?(?:[ \t]{0,3}(?:=>|[:=])[ \t]{0,3}|[ \t]{1,3}(?:(?:is|это|[—–-])[ \t]{1,3})?)[\"'`]?"
"""Between such a name and its value."""

SECRETS: tuple[Secret, ...] = (
    Secret(
        "private_key",
        "a private key in PEM or PGP armour",
        r"(?P<secret>-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"[\s\S]*?(?:-----END [A-Z0-9 ]{1,60}-----|\Z))",
        (
            "deploy key:\n⟦-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----⟧",
            "ключ деплоя:\n⟦-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----⟧, сменить",
        ),
        ("private key",),
        look="HINT(?: BLOCK)?-----",
    ),
    Secret(
        "private_key",
        "a piece of a private key, as search and snippets cut texts: its end, or nothing but whole lines of it",
        r"(?P<secret>(?:\A[…\s]{0,8}[A-Za-z0-9+/=][A-Za-z0-9+/=\s\\]*+|"
        r"(?<![A-Za-z0-9+/=])(?:[A-Za-z0-9+/=]{16,}(?:\s|\\n){1,4}){1,64}(?:[A-Za-z0-9+/=]{1,15}(?:\s|\\n){1,4})?)"
        r"-----END (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"|\A[…\s]{0,8}[A-Za-z0-9+/=]{1,70}(?:\s|\\n){1,4}(?:[A-Za-z0-9+/=]{64}(?:[A-Za-z0-9+/=]{6})?"
        r"(?:\s|\\n){1,4})*[A-Za-z0-9+/=]{0,70}[…\s]{0,8}\Z)",
        (
            "⟦b3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----⟧\nremove it later",
            "⟦b3BlbnNzaC1rZXktdjEA\n-----END PRIVATE KEY-----⟧\nсменить",
        ),
        test=_is_piece_of_key,
        look=r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=]{64}",
    ),
    Secret(
        "model_key",
        "a key of a model's service",
        _OPEN + r"(?P<secret>sk-[A-Za-z0-9_-]{20,})",
        ("`⟦sk-notarealkeyonlyanexamplefordocs⟧`", "нашёл ⟦sk-notarealkeyonlyanexamplefordocs⟧ в истории"),
        ("sk-",),
        look=r"HINT[A-Za-z0-9_-]{20}",
    ),
    Secret(
        "payment_key",
        "a key of a payment service",
        _OPEN + r"(?P<secret>(?:[sr]k|whsec)_(?:(?:live|test)_)?[A-Za-z0-9]{16,})",
        ("use ⟦sk_test_notarealkey00000000⟧.", "платежи: ⟦rk_live_notarealkey00000000⟧"),
        ("sk_", "rk_", "whsec_"),
        look=r"HINT[A-Za-z0-9_]{16}",
    ),
    Secret(
        "git_token",
        "a token of GitHub or GitLab",
        _OPEN + r"(?P<secret>gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,})",
        ("push with ⟦ghp_notarealtokennotarealtokennotarea0⟧", "раннер: ⟦glpat-notarealtokennotareal⟧"),
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
        look=r"HINT[A-Za-z0-9_-]{20}",
    ),
    Secret(
        "chat_token",
        "a token or hook of a chat or telephone service",
        _OPEN + r"(?P<secret>xox[abeoprs]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"
        r"|discord(?:app)?\.com/api/webhooks/\d{5,25}/[A-Za-z0-9_-]{20,}|webhookb2/[0-9a-f@-]{70,80}/[A-Za-z0-9/-]{20,})",
        (
            "it posts as ⟦xoxb-000000000000-notreal⟧",
            "хук https://⟦discord.com/api/webhooks/00000/not-a-real-webhook-at-all⟧",
        ),
        ("xox", "hooks.slack", "api/webhooks", "webhookb2/"),
    ),
    Secret(
        "chat_token",
        "the token of an account of Twilio",
        r"(?i:twilio)[^\n]{0,80}?(?<![0-9A-Za-z])(?P<secret>[0-9a-f]{32})(?![0-9A-Za-z])",
        ("Twilio auth ⟦0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a⟧", "токен twilio: ⟦0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a⟧"),
        ("twilio",),
    ),
    Secret(
        "bot_token",
        "a Telegram bot",
        r"(?<![\w-])(?P<secret>[0-9]{6,12}:[A-Za-z0-9_-]{30,})",
        (
            "it runs as ⟦0000000000:FAKE-owl-token-for-docs-not-a-real⟧",
            "токен ⟦0000000000:FAKE-owl-token-for-docs-not-a-real⟧ бота",
        ),
        (":",),
        look=r"[0-9]HINT[A-Za-z0-9_-]{30}",
    ),
    Secret(
        "cloud_key",
        "a key of a cloud",
        _OPEN + r"(?P<secret>(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|AQVN[A-Za-z0-9_-]{30,}"
        r"|y0_[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{50,}"
        r"|SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{20,}|do[opr]_v1_[a-f0-9]{32,})",
        ("id ⟦AKIAIOSFODNN7EXAMPLE⟧", "клиент входа: ⟦GOCSPX-not-a-real-secret-at-all⟧"),
        ("akia", "asia", "aiza", "aqvn", "y0_", "hf_", "npm_", "pypi-", "sg.", "gocspx-", "_v1_"),
        look=r"HINT[A-Za-z0-9_.-]{16}",
    ),
    Secret(
        "service_key",
        "a key of a service, by what it opens with",
        _OPEN + rf"(?P<secret>(?:{_any_of(_LONG)})(?P<key>[A-Za-z0-9_=-]{{{_LEAST_KEY},}})"
        rf"|(?:{_any_of(_SHORT)})(?P<plain>[A-Za-z0-9]{{{_LEAST_PLAIN},}})(?![\w-]))",
        ("it calls with ⟦gsk_0not0a0real0key0at0all0⟧", "доступ: ⟦vk1.a.0not0a0real0key0at0all0⟧, на год"),
        tuple(prefix.lower() for prefix in (*_LONG, *_SHORT)),
        _is_of_host,
        look=r"HINT[A-Za-z0-9_=-]{8}",
    ),
    Secret(
        "service_key",
        "a key of a service, by its shape",
        rf"(?<![A-Za-z0-9_./-])(?P<secret>{'|'.join(SHAPES.values())})(?![A-Za-z0-9_-])",
        ("call with ⟦ak-0not0a0real0key0at0all⟧", "доступ: ⟦as-0not0a0real0key0at0all⟧, на год"),
        test=_has_digit,
        look="|".join(SHAPES),
    ),
    Secret(
        "token",
        "a UUID that is named as a key",
        rf"(?i:{_WORD}(?:{_KEYS_ALONE}){_WORD_END}){_IS_NAMED}(?P<secret>{_UUID})(?![\w-])",
        ('"api_key": "⟦0a0a0a0a-0000-4000-8000-0a0a0a0a0a0a⟧"', "секрет: ⟦0a0a0a0a-0000-4000-8000-0a0a0a0a0a0a⟧"),
        ("key", "token", "secret", "password", "токен", "секрет", "пароль", "ключ"),
        look=r"HINT[^\n]*[0-9A-Fa-f]{8}-",
    ),
    Secret(
        "session_token",
        "a signed token (JWT)",
        _OPEN + r"(?P<secret>eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{4,})",
        (
            "it answers ⟦eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl⟧",
            "в ответе ⟦eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl⟧, живёт час",
        ),
        ("eyj",),
        look=r"HINT[A-Za-z0-9_-]{8}",
    ),
    Secret(
        "session_token",
        "a session in a cookie",
        r"(?i:cookies?|кук[аиуе])[\"']?[ \t]{0,2}[:=]?[^\n]{0,200}?(?i:sess|sid|auth|token|jwt)[\w.-]{0,24}="
        r"[\"']?(?P<secret>[^\s;,\"']{8,512})",
        ("Cookie: lang=en; session=⟦not0a0real0session⟧; Path=/", "кука sessionid=⟦not0a0real0session⟧"),
        ("cookie", "кук"),
        _is_mixed,
        look=r"HINT[^\n]*=",
    ),
    Secret(
        "bearer",
        "a token after Bearer or Basic",
        r"(?i:(?<![^\W_])(?:bearer|basic))[\s:]{1,8}(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        ("Bearer ⟦not0a0real0token0at0all00⟧ here", "шлём `Bearer ⟦not0a0real0token0at0all00⟧` в заголовке"),
        ("bearer", "basic"),
        _has_digit,
        look=r"HINT[^A-Za-z]{1,8}[A-Za-z0-9._~+/=-]{16}",
    ),
    Secret(
        "url_password",
        "the password within an address",
        r"://[^\s:/@]{0,64}:(?P<secret>[^\s@/]{3,128})@",
        ("postgres://filin:⟦p4ss⟧@birch/filin", "строка: amqp://bot:⟦p4ss⟧@elm/ , не коммитить"),
        ("://",),
        _is_written,
        look=r"HINT[^/@ \n]*:[^/@ \n]*@",
    ),
    Secret(
        "url_password",
        "a key that stands alone before the host of an address, as in a DSN; a user's name is shorter, or has no digit",
        r"://(?P<secret>(?=[^\d\s]*\d)(?=[^a-z\s]*[a-z])[\w-]{20,128})@",
        (
            "DSN: https://⟦0000not0a0real0key0at0all0000000⟧@birch/12",
            "ошибки шлём в https://⟦0000not0a0real0key0at0all0000000⟧@elm/7",
        ),
        ("://",),
        look=r"HINT[\w-]{20,128}@",
    ),
    Secret(
        "card",
        "the number of a bank card",
        r"(?<![\w.-])(?P<secret>(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6\d{3})(?:[ -]?\d{4}){3}|3[47]\d\d[ -]?\d{6}[ -]?\d{5})"
        r"(?![\w-]|\.\d)",
        ("card ⟦4111 1111 1111 1111⟧, exp 04/28", "карта ⟦4111-1111-1111-1111⟧"),
        test=_is_card,
        look=r"[2-6](?:[ -]?\p{Nd}){14}",
    ),
    Secret(
        "pin",
        "a PIN or the code of a card",
        r"(?i:(?<![^\W_])(?:pin|пин|cvv|cvc)(?:[ -]?(?:code|код)[а-яё]{0,2})?)"
        r"(?: (?:от|for|to|of) (?:the )?[\w-]{1,20})?(?:[ \t]{0,2}[:=—–][ \t]?| is | )"
        r"[`\"']?(?P<secret>\d{3,8})(?![\w-]|\.\d)",
        ("The PIN is ⟦4321⟧.", "пин-код от карты: ⟦4321⟧."),
        ("pin", "пин", "cvv", "cvc"),
        look=r"HINT[^\n]*\p{Nd}{3}",
    ),
    Secret(
        "password",
        "a password that is named as one",
        f"(?i:{_WORD}(?P<label>{_PASSWORDS}){_WORD_END}){_SAYS}(?P<secret>(?(quote)[^\\s\"'`»”]{{6,128}}|{_BARE}))",
        (
            "The password of the staging database is ⟦sova-ne-spit-2026⟧, ask Mira",
            "Пароль от вайфая там новый: ⟦sova-ne-spit-2026⟧, старый больше не подходит",
        ),
        OF_PASSWORD,
        _is_password,
        look=f"HINT{_INTRODUCED}(?:[\"'`«“]\\S{{6}}|\\S*\\p{{Nd}})",
    ),
    Secret(
        "password",
        "a pass phrase: words after the word for it that are no sentence",
        f"(?i:{_WORD}(?P<label>{_PHRASE_LABELS}){_WORD_END})[\"'`]?(?P<gap>{_FOR_THAT})"
        r"(?:[ \t]{0,3}(?:=>|[:=]|[ \t][—–-])[ \t*]{0,4}|[ \t]{1,3}(?:(?:is|это|теперь)[ \t]{1,3})?(?=[\"'`«“])"
        r"|[ \t]{1,3}(?:is|это|теперь)[ \t]{1,3})(?P<quote>[\"'`«“])?"
        rf"(?P<secret>{_LETTERS}(?:[ -]{_LETTERS}){{1,15}})(?=[\"'`»”]|[ \t*]{{0,4}}(?:[.,;!)|\n]|\Z))",
        (
            "Wifi password: ⟦correct horse battery staple⟧, on the fridge too",
            "Пароль от сейфа: ⟦верная лошадь батарея скрепка⟧.",
        ),
        OF_PASSWORD,
        _is_phrase,
        look=r"HINT[^\n]*(?:[:=>—–-]|is|это|теперь|[\"'`«“])[ \t*]{0,4}[\"'`«“]?[\p{L}\p{N}]+[ -][\p{L}\p{N}]",
    ),
    Secret(
        "password",
        "a password that follows the word at once",
        f"(?i:{_WORD}(?:{_PASSWORDS}){_WORD_END})[ \\t]{{1,3}}(?P<secret>{_BARE})",
        ("login boris, password ⟦qwerty-123x⟧", "логин anna пароль ⟦qwerty-123x⟧"),
        OF_PASSWORD,
        _is_value,
        look=f"HINT{_REST_OF_WORD}\\S*\\p{{Nd}}",
    ),
    Secret(
        "password",
        "a password that follows what it is for",
        f"(?i:{_WORD}(?:{_PASSWORDS}){_WORD_END})"
        r"[ \t]{1,3}(?i:от|к|ко|для|на|в|во|у|for|to|of|on|at)[ \t]{1,3}(?:[^\s:=\d]{1,30}[ \t]{1,3}){1,3}[\"'`«“]?"
        rf"(?=\S{{0,127}}?\d)(?P<secret>{_BARE.replace('5,127', '7,127')})",
        ("Password for the guest network ⟦sova2026⟧", "Пароль от вайфая ⟦sova2026⟧, у гостей другой"),
        OF_PASSWORD,
        _is_for_that,
        look=f"HINT{_REST_OF_WORD}(?i:от|ко?|для|на|во?|у|for|to|of|on|at)[ \\t][^\\n]*\\p{{Nd}}",
    ),
    Secret(
        "password",
        "a password beside a login",
        f"(?i:{_WORD}(?:{_LOGINS}|password|парол[ья]){_WORD_END})"
        r"(?P<gap>[^\n/;!?]{0,60}?)[ \t]{1,2}/[ \t]{1,2}[\"'`«“]?"
        rf"(?P<secret>{_BARE.replace('5,127', '5,63')})",
        ("ssh root@birch / ⟦Sova2026!x⟧", "вход: root / ⟦sova-ne-spit-2026⟧"),
        ("/",),
        _is_beside_login,
        look=r"HINT[ \t]{1,2}[\"'`«“]?\S*\p{Nd}",
    ),
    Secret(
        "password",
        "a password in a command",
        r"(?:(?i:(?<![^\W_])curl)(?![^\W_])[^\n]{0,200}?[ \t](?:-u|--(?:proxy-)?user)[ \t=]{0,2}[\"']?[^\s:\"'$]{1,64}:"
        r"|(?i:(?<![^\W_])(?:mysql|mariadb))[\w-]{0,16}[ \t][^\n]{0,200}?(?<=[ \t])-p"
        r"|(?i:(?<![^\W_])sshpass)[ \t]{1,3}-p[ \t]?|(?i:(?<![^\W_])redis-cli)[^\n]{0,200}?[ \t]-a[ \t]{1,3}"
        r"|(?i:(?<![^\W_])docker login)[^\n]{0,200}?[ \t]-p[ \t]?)"
        r"[\"']?(?P<secret>[^\s\"'@]{2,127}[^\s\"'`@,;)])",
        ("curl -s -u boris:⟦p4ss⟧ https://birch/", "база: `mysql -u filin -p⟦qwerty⟧ filin`"),
        ("curl", "mysql", "mariadb", "sshpass", "redis-cli", "docker login"),
        _is_typed,
        look=r"HINT[^\n]*[ \t]-",
    ),
    Secret(
        "token",
        "a key or token that is named as one",
        f"(?i:{_WORD}(?:{_TOKENS}){_WORD_END}){_SAYS}(?P<secret>(?=[^\\s\\d]{{0,511}}\\d)[A-Za-z0-9_./+=~-]{{12,512}})",
        ("client_secret: ⟦fake0secret0of0the0docs⟧", "ключ для 2гис: `⟦fake-2gis-key-0000-owl7x⟧`"),
        ("key", "token", "secret", "credential", "authorization", "токен", "ключ", "секрет"),
        _is_token,
        look=f"HINT{_INTRODUCED}[\"'`«“]?[A-Za-z0-9_./+=~-]{{12}}",
    ),
    Secret(
        "token",
        "a key of 64 hexadecimal digits",
        f"(?i:{_WORD}(?:keys?|private|priv|seed|ключ[а-я]{{0,3}}|приватн[а-я]{{0,4}})){_WORD_END}[^\\n]{{0,40}}?{_HEX_KEY}",
        (f"private ⟦{'0a' * 32}⟧", f"ключ кошелька 0 ⟦0x{'0a' * 32}⟧"),
        ("key", "priv", "seed", "ключ", "приват"),
        _is_hex_key,
        look=r"HINT[^\n]*[0-9A-Fa-f]{64}",
    ),
    Secret(
        "token",
        "64 hexadecimal digits that are called a key afterwards",
        _HEX_KEY + r"[\"'`]?[ \t]{0,2}(?:[—–(,-]|is\b|это(?=[ \t]))[^\n]{0,20}?(?i:key|private|ключ|приватн)",
        (f"⟦{'0a' * 32}⟧ is the private key", f"⟦{'0a' * 32}⟧ — ключ кошелька"),
        ("key", "private", "ключ", "приват"),
        _is_hex_key,
        look=r"[0-9A-Fa-f]{64}[^\n]*HINT",
    ),
)
"""Every kind; add a row, and whatever hides, counts or refuses secrets knows it."""
