"""What a text is to the policies of Memory v2. Admission: whether it is worth saving, by length, question, command and
secret. Classification: its kind, importance and last day as a fact, by keywords; by them facts of the old layout get
their types, where they are read or migrated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from memkit.base.duck import literal
from memkit.base.params import Moment, estimator, param
from memkit.documents import memory_v2_policy
from memkit.errors import ParameterError
from memkit.policy.base import (
    BLANK,
    END,
    END_OF_WORD,
    NOTHING,
    START,
    VERDICT,
    Policy,
    alternatives,
    document_param,
    kind_in,
    needed,
    no_fact,
)
from memkit.schemas import IMPORTANCE_WORDS, kinds_where, tuples_of
from memkit.tables.age import day_end_sql
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


# The word that memkit keeps for the one written; null for any other.
_CASES = (f"when {literal(word)} then {literal(kept)}" for word, kept in IMPORTANCE_WORDS.items())
_IMPORTANCE = f"case importance {' '.join(_CASES)} end"
_of_classifier = partial(document_param, "classifier")
# Whole words in a present sense, where the document's list has beginnings: «планшет» and «плановые» are no plans.
_PROFILE_FORMS = """
имя имени именем зовут меня я предпочитаю предпочитает русский русского русском английский английского английском
по-русски по-английски язык языка языке языки языков языках языком работа работаю работает профессия профессии живу
живёт живут аллергия аллергии аллергию аллергией аллергик женат замужем жена жены жене жену женой муж мужа мужу мужем
сын сына сыну дочь дочери дочерью дочка дети детей
prefer prefers language languages live allergic allergy allergies married wife husband son daughter children kids
"""
_PROFILE = (*_PROFILE_FORMS.split(), "my name", "name is", "I am", "I'm", "lives in", "work as", "works as")
_WORKING_FORMS = """
сейчас ставим ставлю чиним чиню чинит задача задачи задачу задачей план плана плану планом планы планов планирую
планируем планирует планируют делаем делаю текущий текущая текущее текущие текущего текущей текущую текущих
currently now task plan planning
"""
_WORKING = (*_WORKING_FORMS.split(), "работаю над", "работаем над", "работает над", "работают над", "working on")
_LASTING = (
    *("task force", "task-force", "now and then", "by now", "pension plan", "retirement plan", "insurance plan"),
    *("data plan", "floor plan", "тарифный план", "тарифного плана", "план этажа", "первый план", "задний план"),
)
_LIKED_FORMS = "любит люблю любят нравится нравятся обожает обожаю likes loves enjoys"
_LIKED = (*_LIKED_FORMS.split(), "I like", "I love")
# What a user does not eat or bear is told as often without a subject, and says nothing of a cat that does not eat.
_SELF_FORMS = (
    *("не ест", "не ем", "не едят", "не пьёт", "не пью", "не переносит", "не переношу", "не выносит", "не выношу"),
    *("не терпит", "не терплю", "терпеть не может", "терпеть не могу", "ненавидит", "не употребляет"),
    *("не употребляю", "аллергия", "аллергии", "аллергик", "вегетарианец", "вегетарианка", "веган", "веганка"),
    *("allergic", "cannot stand", "can't stand", "can’t stand", "can not stand", "does not eat", "doesn't eat"),
    *("doesn’t eat", "do not eat", "don't eat", "don’t eat", "never eats", "never eat", "does not drink"),
    *("doesn't drink", "doesn’t drink", "do not drink", "don't drink", "don’t drink", "cannot eat", "can't eat"),
    *("can’t eat", "hates", "is vegan", "is vegetarian", "is intolerant"),
)
_SELF_SUBJECTS = (
    *("я", "мы", "он", "она", "пользователь", "пользовательница", "клиент", "клиентка", "у меня", "у пользователя"),
    *("I", "we", "he", "she", "user", "the user", "client", "the client"),
)
_ADVERBS = (
    *("совсем", "вообще", "никогда", "почти", "больше", "совершенно", "really", "absolutely", "simply", "just", "also"),
    *("is", "am", "are", "сильная", "сильно"),
)
_words = partial(param, None, kind="words", nullable=True)


@estimator
class Classifier(Policy):
    """Gives each text a kind, an importance and, for a working fact, its last day.

    Adds ``keep`` (bool, always true), ``reason`` (null), ``kind``, ``importance`` (strings) and ``expires_at``
    (timestamp). A text with a profile word is profile, unless the word is part of a longer working phrase («работает»
    in «работает над»); else a text with a working word is working; any other text is archive, of normal importance
    where it has a word of liking, else low. `self_words`, such as «не ест», make a profile fact only where the user
    speaks of themself: «Не ест мяса», «Пользователь не ест мяса», and not «Кошка не ест второй день». Only working
    facts get a last day. Words match as whole words or phrases; with `beginnings`, as in the document's preset, a
    Cyrillic word of two letters or more matches as a prefix.

    With `use_given`, the kind, the valid importance and the date that a row has already are kept. Kinds that are not
    facts (``note``, ``entry``, kinds of your own) never change. The former values of these columns are in ``given_…``.

    Examples
    --------
    >>> table = pa.table({"text": ["Меня зовут Анна.", "Currently fixing the bot.", "Обсуждали структуру."]})
    >>> Classifier().transform(table, as_of="2026-03-01").column("kind").to_pylist()
    ['profile', 'working', 'archive']
    """

    by_user = True
    for_facts = True
    told_by = "the columns kind, importance and expires_at of its transform show what it changes."
    needs: ClassVar[pa.Schema] = needed("text", "kind", "importance", "expires_at")
    required: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[dict[str, str]] = {
        "keep": "always true: classification refuses nothing",
        "reason": "always null",
        "kind": "profile, working or archive; any other kind stays",
        "importance": "high, normal or low",
        "expires_at": "last day of a working fact, UTC",
    }

    profile_words: tuple[str, ...] = _words(doc="Words that make a profile fact. None: memkit's.", stands_for=_PROFILE)
    working_words: tuple[str, ...] = _words(doc="Words that make a working fact. None: memkit's.", stands_for=_WORKING)
    lasting_words: tuple[str, ...] = _words(
        doc="Phrases whose words do not make a working fact. None: memkit's.", stands_for=_LASTING
    )
    liked_words: tuple[str, ...] = _words(
        doc="Words of liking, which give an archive fact normal importance. None: memkit's.", stands_for=_LIKED
    )
    self_words: tuple[str, ...] = _words(
        doc="Words that make a profile fact at the start of a text or after one of `self_subjects`. None: memkit's.",
        stands_for=_SELF_FORMS,
    )
    self_subjects: tuple[str, ...] = _words(
        doc="Words for the user, after which `self_words` make a profile fact. None: memkit's.",
        stands_for=_SELF_SUBJECTS,
    )
    beginnings: bool = param(False, doc="Match Cyrillic words as prefixes, as the document does.")
    working_days: int = _of_classifier(
        "working_days", "Days from saving until a working fact expires.", low=0, unit="days"
    )
    use_given: bool = _of_classifier("use_given", "Keep a fact's own kind, importance and date where it has them.")

    def _sql(self) -> str:
        facts, columns = kind_in(kinds_where(fact=True)), [pattern.name for pattern in self._patterns()]
        return f"""select * exclude ({", ".join((*columns, "found", "given"))})
    replace (
        found as kind,
        case
            when given and {_IMPORTANCE} is not null then {_IMPORTANCE}
            when found = 'profile' then 'high'
            when found = 'working' then 'normal'
            when found = 'archive' then case when liked_word then 'normal' else 'low' end
        end as importance,
        coalesce(
            case when given then expires_at end,
            case when found = 'working' then {day_end_sql(f"($as_of::date + {int(self.working_days)})")} end
        ) as expires_at
    ),
    true as keep,
    null::varchar as reason
from (
    select *,
        {str(self.use_given).lower()} or not {facts} and kind is not null as given,
        case
            when {self._stays()} then kind
            when profile_word and coalesce(profile_beside, true) or self_word then 'profile'
            when working_word then 'working'
            else 'archive'
        end as found
    from tested
)"""  # noqa: S608  # declared parameters only, quoted

    def _stays(self) -> str:
        return "kind is not null" if self.use_given else f"kind is not null and not {kind_in(kinds_where(fact=True))}"

    def _patterns(self) -> tuple[Pattern, ...]:
        """A profile word that is not part of a longer working phrase, a working word, and a word of liking."""
        profile, working = (
            [" ".join(word.casefold().split()) for word in words] for words in (self.profile_words, self.working_words)
        )
        pattern_of = partial(keywords, beginnings=self.beginnings)
        longer = pattern_of([word for word in working if any(part in word and part != word for part in profile)])
        condition = f"not ({self._stays()})"
        word = Pattern("profile_word", pattern_of(self.profile_words), after=condition)
        within = Pattern("longer_word", longer, after=word)
        outside = Pattern("beside", longer, "replace", instead=" ", after=within)
        return (
            *(word, within, outside, replace(word, name="profile_beside", column=outside, after=within)),
            without_lasting := Pattern(
                "passing", pattern_of(self.lasting_words), "replace", instead=" ", after=condition
            ),
            Pattern("working_word", pattern_of(self.working_words), column=without_lasting, after=condition),
            Pattern("liked_word", pattern_of(self.liked_words), after=condition),
            Pattern("self_word", self._of_oneself(), after=condition),
        )

    def _of_oneself(self) -> str:
        """One RE2 pattern of `self_words` that open a text, or follow a word for the user and perhaps an adverb."""
        if not self.self_words:
            return NOTHING
        subjects = rf"|{START}(?:{alternatives(self.self_subjects)})\s+" if self.self_subjects else ""
        adverbs = alternatives(_ADVERBS)
        return rf"(?i)(?:^[^\p{{L}}\p{{N}}]*{subjects})(?:(?:{adverbs})\s+)?(?:{alternatives(self.self_words)}){END}"


def keywords(words: tuple[str, ...] | list[str], beginnings: bool = True) -> str:
    """One RE2 pattern of whole words; with `beginnings` Cyrillic words of two letters or more match as prefixes.

    >>> keywords(("план", "я"))
    '(?i)(?:^|[^\\\\p{L}\\\\p{N}_])(?:план|(?:я)(?:$|[^\\\\p{L}\\\\p{N}_]))'
    """
    prefixes = [word for word in words if beginnings and word[1:] and "а" <= word[-1].lower().replace("ё", "е") <= "я"]
    whole = [word for word in words if word not in prefixes]
    parts = [alternatives(prefixes)] * bool(prefixes) + [f"(?:{alternatives(whole)}){END}"] * bool(whole)
    return f"(?i){START}(?:{'|'.join(parts)})" if parts else NOTHING


Row = dict[str, Any]
_LIMITS: dict[str, Any] = {kind: memory_v2_policy["quota"][f"max_{kind}"] for kind in ("profile", "working")}


def typed(files: Iterable[Sequence[Row]], untyped: Collection[str]) -> list[Row]:
    """The rows of old files, those whose ids are in `untyped` with a kind, an importance, and ``why`` they have it.

    A profile fact is one by its words. A current task of an old file is none today: it becomes an archive fact, and so
    does what would be refused on saving, or is over a limit. A line with an end of its own is a working fact.

    Examples
    --------
    >>> texts = ["Меня зовут Анна", "Сейчас ставим simple-bot...", "Как меня зовут?"]
    >>> file = [{"memory_id": str(n), "text": text, "importance": None, "expires_at": None, "kind": "archive"}
    ...         for n, text in enumerate(texts)]
    >>> [(row["kind"], row["importance"]) for row in typed([file], {"0", "1", "2"})]
    [('profile', 'high'), ('archive', 'normal'), ('archive', 'low')]
    """
    groups = [list(file) for file in files]
    chosen = [row for rows in groups for row in rows if row["memory_id"] in untyped]
    table = pa.table({"text": pa.array([row["text"] for row in chosen], pa.string())})
    refusals = Admission().transform(table)["reason"].to_pylist()
    classes = Classifier().transform(table).select(["kind", "importance"]).to_pylist()
    new = {
        row["memory_id"]: row | _as_kept(row, refusal, found["kind"], found["importance"])
        for row, refusal, found in zip(chosen, refusals, classes, strict=True)
    }
    return [row for rows in groups for row in _within_limits(rows, new)]


def _as_kept(row: Row, refusal: str | None, kind: str, importance: str) -> Row:
    given = row["importance"]
    if row["expires_at"] is not None:
        return {"kind": "working", "importance": given or "normal", "why": "it has an end"}
    if refusal is not None:
        importance = importance if kind == "archive" else "low"
        return {"kind": "archive", "importance": given or importance, "why": f"saving would refuse it ({refusal})"}
    if kind == "working":
        return {"kind": "archive", "importance": given or "normal", "why": "an old task is no current one"}
    return {"kind": kind, "importance": given or importance, "why": "by its words"}


def _within_limits(rows: Sequence[Row], new: dict[str, Row]) -> list[Row]:
    """The rows of one file; what is over the limit of its kind becomes an archive fact of its importance."""
    counts = Counter(row["kind"] for row in rows if row["memory_id"] not in new)
    kept: list[Row] = []
    for row in rows:
        fact = new.get(row["memory_id"], row)
        if fact is not row:
            counts[fact["kind"]] += 1
            if counts[fact["kind"]] > (limit := _LIMITS.get(fact["kind"], len(rows))):
                why = f"over the limit of {limit} {fact['kind']} facts"
                fact = fact | {"kind": "archive", "expires_at": None, "why": why}
        kept.append(fact)
    return kept
