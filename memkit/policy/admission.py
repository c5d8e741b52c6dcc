"""Admission: whether a text is worth saving (Memory v2, validation): length, question, command, secret."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from memkit.base.params import Moment, estimator, param
from memkit.documents import memory_v2_policy
from memkit.errors import ParameterError
from memkit.policy.base import (
    BLANK,
    END,
    END_OF_WORD,
    START,
    VERDICT,
    Policy,
    alternatives,
    document_param,
    needed,
    no_fact,
)
from memkit.schemas import tuples_of
from memkit.tables.statement import Pattern
from memkit.text.secrets import find, may_hold

_param = partial(document_param, "admission")
_V2: dict[str, Any] = memory_v2_policy["admission"]
_MORE_QUESTION_WORDS = (
    *("что", "где", "кто", "зачем", "какой", "какая", "какое", "какие", "сколько", "во сколько", "куда", "откуда"),
    *("чей", "чья", "чьё", "чьи", "where", "who", "which", "whose"),
)
# A question without a mark is most often a request: «Скажи, как меня зовут».
_REQUESTS = (
    *("скажи", "скажите", "подскажи", "подскажите", "напомни", "напомните", "расскажи", "расскажите", "ответь"),
    *("ответьте", "посоветуй", "посоветуйте", "найдите", "сделайте", "покажите", "объясните", "помнишь", "помните"),
    *("ты помнишь", "вы помните", "ты знаешь", "вы знаете", "не подскажешь", "не подскажете", "не помнишь", "можете"),
    *("можно ли", "есть ли", "знаешь ли", "tell me", "remind me", "give me", "can I", "can we", "could I", "may I"),
    *("am I", "did I", "was I", "any idea"),
)
_WITH_A = ("как", "что", "где", "кто", "когда", "почему", "зачем", "сколько", "какой", "какая", "какое", "какие")
# "When tired he drinks tea" is a statement; a question has its verb next.
_VERBS = "is are was were am do does did will would can could should shall may might must has have had"
_ENGLISH_QUESTIONS = (
    *(f"{word} {verb}" for word in ("when", "what") for verb in _VERBS.split()),
    *(f"{word}{s}" for word in ("what", "who", "where", "when", "how", "why") for s in ("'s", "’s")),
    *("whats my", "whats the", "what time", "what day", "what kind of"),
    *("do you", "do we", "do they", "do I", "did you", "are you", "have you", "will you", "would you", "should I"),
    *("should we", "is there", "is it"),
)
_QUESTION_WORDS = (
    *(word for word in _V2["question_words"] if word != "when"),
    *_MORE_QUESTION_WORDS,
    *_REQUESTS,
    *(f"а {word}" for word in _WITH_A),
    *_ENGLISH_QUESTIONS,
)
_MORE_SHELL_LINES = (
    *("yarn run", "yarn build", "yarn dev", "yarn start", "yarn test", "yarn remove", "yarn upgrade", "yarn dlx"),
    *(
        "yarn global",
        "yarn workspace",
        "yarn create",
        "yarn init",
        "npm i",
        "npm ci",
        "npm audit",
        "npm init",
        "npm uninstall",
        "npm publish",
        "npm update",
    ),
    *("pnpm add", "pnpm run", "pnpm dlx", "bun install", "bun add", "bun run", "poetry install", "poetry add"),
    *("poetry run", "uv pip", "uv run", "uv sync", "uv add", "pipx install", "gem install", "composer install"),
    *("composer require", "cargo install", "cargo test", "cargo add", "dnf install", "yum install", "apk add"),
    *("pacman -S", "brew update", "brew upgrade", "brew uninstall", "docker exec", "docker logs", "docker stop"),
    *("docker rm", "docker images", "docker push", "docker-compose up", "docker-compose down", "kubectl get"),
    *("kubectl apply", "kubectl delete", "kubectl logs", "kubectl exec", "systemctl start", "systemctl stop"),
    *("systemctl restart", "systemctl status", "systemctl enable", "systemctl disable", "systemctl daemon-reload"),
    *("python manage.py", "rm -rf", "rm -r", "rm -f", "mkdir -p", "chmod +x", "chmod -R"),
    *("chown -R", "git switch", "git restore", "git config", "git cherry-pick"),
)
_SHELL_LINES = (*_V2["shell_lines"], *_MORE_SHELL_LINES)
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
# `sudo` before a program, `yarn` with an option, and a download with an option or an address, or into a pipe.
_RUN = (
    r"(?m)(?:^|[;&|`])" + BLANK + r"*(?:[$>#]\s+)?(sudo\s+(?:-\S+\s+)*[a-z][a-z0-9._/-]+|yarn\s+--?[a-z]\S*"
    r"|(?:curl|wget)\s+(?:-|https?://|[^|\n]*\|)[^\s]*)"
)
_ALNUM = "A-Za-z0-9"
_FEW = 80
"""Texts that are read without a quick filter before, which costs as much as reading so many."""
_TOKEN = "list_filter(bearer, lambda token: regexp_matches(token, '[0-9]'))[1]"
# Trimming copies a text, and few have a blank at an end.
_BLANKS = (Pattern("blank_before", f"^({BLANK}+)", "first"), Pattern("blank_after", f"({BLANK}+)$", "first"))
_CHARS = "length(text) - coalesce(length(blank_before), 0) - coalesce(length(blank_after), 0)"


@estimator
class Admission(Policy):
    """Decides whether a text is saved. Reasons, in this order: ``length``, ``question``, ``command``, ``secret``; but
    a phrase of `commands` outranks the words that open a question.

    Adds ``keep`` (bool), ``reason`` (string) and ``matched_span`` (string, the part of the text that matched; null for
    ``length``). Lengths are Unicode code points of the trimmed text. The words of a list match as whole words, ignoring
    case, and е matches ё. Secrets are those of the document, and those that memkit masks when it shows a text
    (`known_secrets`). The policy is made for facts: memories of other declared kinds, such as notes, are kept, and a
    note says how many. The status of a memory does not count, as it says what became of a text later.

    Examples
    --------
    >>> table = pa.table({"text": ["Какао пьёт без сахара.", "Как настроить пул?", "Howard likes tea."]})
    >>> Admission().transform(table, as_of="2026-03-01").select(["reason", "matched_span"]).to_pylist()[1]
    {'reason': 'question', 'matched_span': 'Как'}
    >>> Admission().transform(table)["keep"].to_pylist()
    [True, False, True]
    """

    by_user = True
    for_facts = True
    needs: ClassVar[pa.Schema] = needed("text", "kind")
    required: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[dict[str, str]] = VERDICT | {"matched_span": "the part of the text that matched; null for length"}

    min_chars: int = _param("min_chars", "Minimum length of the trimmed text.", low=0, unit="characters")
    max_chars: int = _param("max_chars", "Maximum length of the trimmed text.", low=1, unit="characters")
    question_mark: bool = _param("question_mark", "Refuse a text that ends with a question mark.")
    question_words: tuple[str, ...] = _param(
        "question_words",
        'Words that open a question or a request. None: the document\'s and more; "when" only before a verb.',
        stands_for=_QUESTION_WORDS,
    )
    statement_words: tuple[str, ...] = param(
        None,
        kind="words",
        nullable=True,
        doc="Phrases that open a statement, though they begin like a question. None: memkit's.",
        stands_for=_STATEMENT_WORDS,
    )
    clauses: bool = param(True, doc="Keep «Когда …, …» as a statement, unless it ends with a question mark.")
    commands: tuple[str, ...] = _param("commands", "Phrases that make a text a command. None: the document's.")
    shell_lines: tuple[str, ...] = _param(
        "shell_lines",
        "Program names that open a shell line, case-sensitive. None: the preset's and more.",
        stands_for=_SHELL_LINES,
    )
    run: bool = param(
        True,
        doc="Refuse `sudo` before a program, `yarn` with an option, and a download, `curl` or `wget`.",
    )
    cd: bool = _param("cd", "Refuse `cd <path>` as a command.")
    sk_chars: int = _param("sk_chars", "Minimum length after `sk-`.", low=1, unit="characters")
    bearer_chars: int = _param("bearer_chars", "Minimum length of a token after `Bearer`.", low=1, unit="characters")
    token_chars: int = _param(
        "token_chars", "Minimum length of the long part of a bot token.", low=1, unit="characters"
    )
    hex_chars: int = _param("hex_chars", "Minimum length of a hexadecimal secret.", low=1, unit="characters")
    sha_words: tuple[str, ...] = _param(
        "sha_words", "Words after which 40 hexadecimal characters are a git SHA, not a secret. None: the preset's."
    )
    known_secrets: bool = param(
        True, doc="Also refuse the secrets that memkit masks when it shows a text, beyond the document's list."
    )

    def _sql(self) -> str:
        openings = {pattern.name: pattern.name for pattern in self._questions()}
        # "сделай промпт" opens as a request, and is a command all the same; "как правило" opens no question.
        exceptions = ["phrase is null"] * bool(self.commands) + ["not stated"] * ("stated" in openings)
        if openings.pop("stated", None) or "opening" in openings:
            openings["opening"] = f"case when {' and '.join(exceptions)} then opening end" if exceptions else "opening"
        secrets = [
            _TOKEN if pattern.name == "bearer" else pattern.name
            for pattern in self._secrets()
            if pattern.form != "replace"
        ]
        join = " left join (select row, span as known from secrets) using (row)" if self.known_secrets else ""
        columns = [pattern.name for pattern in self._patterns()] + ["known"] * self.known_secrets
        return f"""select * exclude (chars, question, command, secret),
    case
        when {no_fact()} then null
        when chars not between {int(self.min_chars)} and {int(self.max_chars)} then 'length'
        when question is not null then 'question'
        when command is not null then 'command'
        when secret is not null then 'secret'
    end as reason,
    reason is null as keep,
    case when reason <> 'length' then coalesce(question, command, secret) end as matched_span
from (
    select * exclude ({", ".join(columns)}),
        coalesce(greatest({_CHARS}, 0), 0) as chars,
        {_first(openings.values())} as question,
        {_first(pattern.name for pattern in self._commands())} as command,
        {_first([*secrets, *["known"] * self.known_secrets])} as secret
    from tested{join}
)"""  # noqa: S608  # declared parameters only, quoted

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]  # the document's own list needs none
        """The relation of known secrets, where `known_secrets` is on."""
        return ("secrets",) if self.known_secrets else ()

    def _relations(self, rows: pa.Table, moment: Moment) -> dict[str, pa.Table]:
        """The first known secret of each text that has one."""
        if not self.known_secrets:
            return {}
        spans: dict[str, list[Any]] = {"row": [], "span": []}
        candidates = rows.filter(may_hold(rows["text"])) if rows.num_rows > _FEW else rows
        for row, text in tuples_of(candidates, "row", "text"):
            for _, start, end in find(text or "")[:1]:
                spans["row"].append(row)
                spans["span"].append(text[start:end])
        return {"secrets": pa.table(spans, schema=pa.schema({"row": pa.int64(), "span": pa.string()}))}

    def check_params(self, **overrides: object) -> dict[str, object]:
        """The checked parameters; `min_chars` must not exceed `max_chars`.

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
        """All patterns; those of commands and secrets run only on texts that match a quick check for any of them."""
        others = [*self._commands(), *self._secrets()]
        any_of = "|".join(f"(?:{pattern.re2})" for pattern in others if pattern.form != "replace")
        quick_check = Pattern("suspicious", any_of)
        return (*_BLANKS, *self._questions(), quick_check, *(replace(pattern, after=quick_check) for pattern in others))

    def _questions(self) -> list[Pattern]:
        opening = rf"(?i)^[^\p{{L}}\p{{N}}]*({alternatives(self.question_words)}){END_OF_WORD}"
        expressions = {
            "opening": opening if self.question_words else "",
            "ending": _QUESTION_MARK if self.question_mark else "",
        }
        statements = [f"(?:{alternatives(self.statement_words)}){END_OF_WORD}"] * bool(self.statement_words)
        statements += [_CLAUSE] * self.clauses
        patterns = [Pattern(name, re2, "first") for name, re2 in expressions.items() if re2]
        if statements and self.question_words:
            patterns.append(Pattern("stated", rf"(?i)^[^\p{{L}}\p{{N}}]*(?:{'|'.join(statements)})"))
        return patterns

    def _commands(self) -> list[Pattern]:
        anywhere = f"(?i){START}({alternatives(self.commands)}){END}"
        lines = f"{_LINE_START}({alternatives(self.shell_lines)})(?:\\s|$)"
        expressions = (
            [("phrase", anywhere)] * bool(self.commands)
            + [("shell", lines)] * bool(self.shell_lines)
            + [("run_line", _RUN)] * self.run
            + [("cd", _LINE_START + _CD), ("cd_path", _CD_PATH)] * self.cd
        )
        return [Pattern(name, re2, "first") for name, re2 in expressions]

    def _secrets(self) -> list[Pattern]:
        min_length = int(self.token_chars)
        sk = rf"{START}(sk-[{_ALNUM}_-]{{{int(self.sk_chars)},}})"
        bearer = rf"(?i){START}bearer[\s:]+([{_ALNUM}._~+/=-]{{{int(self.bearer_chars)},}})"
        bot = rf"([{_ALNUM}_-]{{{min_length},}}:[^\s:]+|[0-9]{{6,}}:[{_ALNUM}_-]{{{min_length},}})"
        hexes = rf"(?:^|[^{_ALNUM}]|0[xX])([0-9A-Fa-f]{{{int(self.hex_chars)},}})(?:$|[^{_ALNUM}])"
        patterns = [Pattern("sk", sk, "first"), Pattern("bearer", bearer, "every"), Pattern("bot", bot, "first")]
        if not self.sha_words:
            return [*patterns, Pattern("hex", hexes, "first")]
        sha = rf"(?i)({START}(?:{alternatives(self.sha_words)})[^\p{{L}}\p{{N}}]{{0,4}})[0-9a-f]{{40}}($|[^{_ALNUM}])"
        no_sha = Pattern("no_sha", sha, "replace", instead=r"\1\2")
        return [*patterns, no_sha, Pattern("hex", hexes, "first", column=no_sha)]


def _first(columns: Iterable[str]) -> str:
    """SQL for the first column that is not null, one per line."""
    lines = ",\n            ".join((*columns, "null"))
    return f"coalesce(\n            {lines}\n        )"
