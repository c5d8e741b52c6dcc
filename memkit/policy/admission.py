"""Admission: what is worth keeping at all (Memory v2, validation): length, no question, no command, no secret."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from memkit.documents import memory_v2_policy
from memkit.errors import ParameterError
from memkit.params import estimator, param
from memkit.policy.base import (
    BLANK,
    END,
    END_OF_WORD,
    START,
    VERDICT,
    Policy,
    alternatives,
    needed,
    of_document,
    only_kept,
)
from memkit.tables.patterns import Pattern
from memkit.text.secrets import find, may_hold

_own = partial(of_document, "admission")
_V2: dict[str, Any] = memory_v2_policy["admission"]
_MORE_QUESTION_WORDS = ("что", "где", "кто", "зачем", "какой", "сколько", "where", "who", "which")
# "When tired he drinks tea" is a statement; a question has its verb next.
_VERBS = "is are was were am do does did will would can could should shall may might must has have had"
_ENGLISH_QUESTIONS = (
    *(f"when {verb}" for verb in _VERBS.split()),
    *("do you", "do we", "do they", "do I", "did you", "are you", "have you", "will you", "would you", "should I"),
    *("should we", "is there", "is it"),
)
_QUESTION_WORDS = (
    *(word for word in _V2["question_words"] if word != "when"),
    *_MORE_QUESTION_WORDS,
    *_ENGLISH_QUESTIONS,
)
_STATEMENT_WORDS = (
    *("как правило", "как обычно", "как всегда", "как известно", "как минимум", "как и", "как только", "как раз"),
    *("как будто", "как бы ни", "как говорит", "что касается", "что до", "что бы ни", "кто бы ни", "где бы ни"),
    *("когда бы ни", "how ever", "which is why"),
)
_CLAUSE = r"когда\s+[^\s,.;:!?][^,.;:!?]*,\s*[\p{L}\p{N}]"

_QUESTION_MARK = r"([?？][!?！？]*)" + BLANK + "*$"
# A line may open with a prompt, and further commands follow an operator.
_LINE_START = r"(?m)(?:^|[;&|`])" + BLANK + r"*(?:[$>#]\s+)?(?:sudo\s+)?"
# `cd simple-bot` is a command, `CD Projekt делает игры` is not: a bare name must end its line or its command.
_CD = r"(cd\s+[^\s;&|`]+)[\s`]*(?:$|[;&|])"
_CD_PATH = START + r"(cd\s+(?:[~/]|\.\.?(?:/|\s|$)|[\p{L}\p{N}_.-]+/)[^\s;&|`]*)"
_ALNUM = "A-Za-z0-9"
_FEW = 80
_TOKEN = "list_filter(bearer, lambda token: regexp_matches(token, '[0-9]'))[1]"
# Trimming copies a text, and few have a blank at an end.
_BLANKS = (Pattern("blank_before", f"^({BLANK}+)", "first"), Pattern("blank_after", f"({BLANK}+)$", "first"))
_CHARS = "length(text) - coalesce(length(blank_before), 0) - coalesce(length(blank_after), 0)"


@estimator
class Admission(Policy):
    """Judges a text before it is kept. Reasons, in this order: ``length``, ``question``, ``command``, ``secret``;
    but one of `commands` outranks the words that open a question.

    Adds ``keep`` (bool), ``reason`` (string) and ``matched_span`` (string, what gave the reason away; null for
    ``length``). Lengths are Unicode code points of the trimmed text. A word of a list is matched as a whole word,
    case-folded, е and ё alike. A secret is what the document lists, and what memkit hides on a screen
    (`known_secrets`), so that nothing is kept that would not be shown.

    Examples
    --------
    >>> table = pa.table({"text": ["Какао пьёт без сахара.", "Как настроить пул?", "Howard likes tea."]})
    >>> Admission().transform(table, as_of="2026-03-01").select(["reason", "matched_span"]).to_pylist()[1]
    {'reason': 'question', 'matched_span': 'Как'}
    >>> Admission().transform(table)["keep"].to_pylist()
    [True, False, True]
    """

    by_user = True
    needs: ClassVar[pa.Schema] = needed("text", "kind")
    required: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[dict[str, str]] = VERDICT | {"matched_span": "what gave the reason away"}

    min_chars: int = _own("min_chars", "Least length of the trimmed text.", low=0, unit="characters")
    max_chars: int = _own("max_chars", "Greatest length of the trimmed text.", low=1, unit="characters")
    question_mark: bool = _own("question_mark", "A text that ends with a question mark is a question.")
    question_words: tuple[str, ...] = _own(
        "question_words",
        'Words that open a question or a request; None: the document\'s and more, but "when" with its verb alone.',
        stands_for=_QUESTION_WORDS,
    )
    statement_words: tuple[str, ...] = param(
        None,
        kind="words",
        nullable=True,
        doc="What opens a statement although it begins as a question does; None: memkit's.",
        stands_for=_STATEMENT_WORDS,
    )
    clauses: bool = param(True, doc="«Когда …, …» is a statement, unless a question mark ends it.")
    commands: tuple[str, ...] = _own("commands", "Phrases that make a text a command; None: the document's.")
    shell_lines: tuple[str, ...] = _own("shell_lines", "What opens a shell line, case as written; None: the preset's.")
    cd: bool = _own("cd", "`cd <path>` is a command.")
    sk_chars: int = _own("sk_chars", "Least length after `sk-`.", low=1, unit="characters")
    bearer_chars: int = _own("bearer_chars", "Least length of a token after `Bearer`.", low=1, unit="characters")
    token_chars: int = _own("token_chars", "Least length of a bot token's part.", low=1, unit="characters")
    hex_chars: int = _own("hex_chars", "Least length of a hexadecimal secret.", low=1, unit="characters")
    sha_words: tuple[str, ...] = _own("sha_words", "Words before a git SHA of 40 hex characters; None: the preset's.")
    known_secrets: bool = param(True, doc="What memkit hides on a screen is a secret, beside the document's own list.")

    def _sql(self) -> str:
        asked = {one.name: one.name for one in self._questions()}
        # "сделай промпт" opens as a request, and is a command all the same; "как правило" opens no question.
        but = ["phrase is null"] * bool(self.commands) + ["not stated"] * ("stated" in asked)
        if asked.pop("stated", None) or "opening" in asked:
            asked["opening"] = f"case when {' and '.join(but)} then opening end" if but else "opening"
        secrets = [_TOKEN if one.name == "bearer" else one.name for one in self._secrets() if one.says != "rest"]
        known = " left join (select row, span as known from secrets) using (row)" if self.known_secrets else ""
        read = [one.name for one in self._patterns()] + ["known"] * self.known_secrets
        return f"""select * exclude (chars, question, command, secret),
    case
        when {only_kept()} then null
        when chars not between {int(self.min_chars)} and {int(self.max_chars)} then 'length'
        when question is not null then 'question'
        when command is not null then 'command'
        when secret is not null then 'secret'
    end as reason,
    reason is null as keep,
    case when reason <> 'length' then coalesce(question, command, secret) end as matched_span
from (
    select * exclude ({", ".join(read)}),
        coalesce(greatest({_CHARS}, 0), 0) as chars,
        {_first(asked.values())} as question,
        {_first(one.name for one in self._commands())} as command,
        {_first([*secrets, *["known"] * self.known_secrets])} as secret
    from tested{known}
)"""  # noqa: S608  # declared parameters only, quoted

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]  # the document's own list needs none
        """The known secrets, unless the document's own list is all."""
        return ("secrets",) if self.known_secrets else ()

    def _relations(self, rows: pa.Table, moment: datetime) -> dict[str, pa.Table]:
        """The first of the known secrets of each text that has one."""
        if not self.known_secrets:
            return {}
        found: dict[str, list[Any]] = {"row": [], "span": []}
        # To make the look ready takes as long as to read some eighty texts.
        looked = rows.filter(may_hold(rows["text"])) if rows.num_rows > _FEW else rows
        for row, text in zip(looked["row"].to_pylist(), looked["text"].to_pylist(), strict=True):
            for _, start, end in find(text or "")[:1]:
                found["row"].append(row)
                found["span"].append(text[start:end])
        return {"secrets": pa.table(found, schema=pa.schema({"row": pa.int64(), "span": pa.string()}))}

    def check_params(self, **overrides: object) -> dict[str, object]:
        """The parameters, each checked; the lengths must leave room between them.

        Raises
        ------
        ParameterError
            For a value outside of its declaration, or `min_chars` above `max_chars`.
        """
        values = super().check_params(**overrides)
        if values["min_chars"] > values["max_chars"]:
            raise ParameterError(
                f"Admission: 'min_chars' must be at most 'max_chars', {values['max_chars']}. Got {values['min_chars']}."
            )
        return values

    def _patterns(self) -> tuple[Pattern, ...]:
        """A pattern with a fixed end is a quick look as it is; one look for all others settles most texts."""
        others = [*self._commands(), *self._secrets()]
        inside = "|".join(f"(?:{one.re2})" for one in others if one.says != "rest")
        look = Pattern("suspicious", inside)
        return (*_BLANKS, *self._questions(), look, *(replace(one, after=look) for one in others))

    def _questions(self) -> list[Pattern]:
        opening = rf"(?i)^[^\p{{L}}\p{{N}}]*({alternatives(self.question_words)}){END_OF_WORD}"
        found = {
            "opening": opening if self.question_words else "",
            "ending": _QUESTION_MARK if self.question_mark else "",
        }
        stated = [f"(?:{alternatives(self.statement_words)}){END_OF_WORD}"] * bool(self.statement_words)
        stated += [_CLAUSE] * self.clauses
        patterns = [Pattern(name, re2, "first") for name, re2 in found.items() if re2]
        if stated and self.question_words:
            patterns.append(Pattern("stated", rf"(?i)^[^\p{{L}}\p{{N}}]*(?:{'|'.join(stated)})"))
        return patterns

    def _commands(self) -> list[Pattern]:
        anywhere = f"(?i){START}({alternatives(self.commands)}){END}"
        lines = f"{_LINE_START}({alternatives(self.shell_lines)})(?:\\s|$)"
        found = (
            [("phrase", anywhere)] * bool(self.commands)
            + [("shell", lines)] * bool(self.shell_lines)
            + [("cd", _LINE_START + _CD), ("cd_path", _CD_PATH)] * self.cd
        )
        return [Pattern(name, re2, "first") for name, re2 in found]

    def _secrets(self) -> list[Pattern]:
        least = int(self.token_chars)
        sk = rf"{START}(sk-[{_ALNUM}_-]{{{int(self.sk_chars)},}})"
        bearer = rf"(?i){START}bearer[\s:]+([{_ALNUM}._~+/=-]{{{int(self.bearer_chars)},}})"
        bot = rf"([{_ALNUM}_-]{{{least},}}:[^\s:]+|[0-9]{{6,}}:[{_ALNUM}_-]{{{least},}})"
        hexes = rf"(?:^|[^{_ALNUM}]|0[xX])([0-9A-Fa-f]{{{int(self.hex_chars)},}})(?:$|[^{_ALNUM}])"
        found = [Pattern("sk", sk, "first"), Pattern("bearer", bearer, "every"), Pattern("bot", bot, "first")]
        if not self.sha_words:
            return [*found, Pattern("hex", hexes, "first")]
        sha = rf"(?i)({START}(?:{alternatives(self.sha_words)})[^\p{{L}}\p{{N}}]{{0,4}})[0-9a-f]{{40}}($|[^{_ALNUM}])"
        no_sha = Pattern("no_sha", sha, "rest", instead=r"\1\2")
        return [*found, no_sha, Pattern("hex", hexes, "first", column=no_sha)]


def _first(found: Iterable[str]) -> str:
    """SQL for the first of these that is not null, a line each."""
    lines = ",\n            ".join((*found, "null"))
    return f"coalesce(\n            {lines}\n        )"
