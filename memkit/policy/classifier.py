"""Classification: kind, importance and the last day of a working fact, by keywords (Memory v2); and by them what each
fact of the old layout becomes, whose lines have no types, where it is read or migrated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from memkit.base.duck import literal
from memkit.base.params import estimator, param
from memkit.documents import memory_v2_policy
from memkit.policy.admission import Admission
from memkit.policy.base import END, NOTHING, START, Policy, alternatives, document_param, kind_in, needed
from memkit.schemas import IMPORTANCE_WORDS, kinds_where
from memkit.tables.age import day_end_sql
from memkit.tables.statement import Pattern

# The word that memkit keeps for the one written; null for any other.
_CASES = (f"when {literal(word)} then {literal(kept)}" for word, kept in IMPORTANCE_WORDS.items())
_IMPORTANCE = f"case importance {' '.join(_CASES)} end"
_param = partial(document_param, "classifier")
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
    working_days: int = _param("working_days", "Days from saving until a working fact expires.", low=0, unit="days")
    use_given: bool = _param("use_given", "Keep a fact's own kind, importance and date where it has them.")

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
    prefixes = [word for word in words if beginnings and _is_prefix(word)]
    whole = [word for word in words if word not in prefixes]
    parts = [alternatives(prefixes)] * bool(prefixes) + [f"(?:{alternatives(whole)}){END}"] * bool(whole)
    return f"(?i){START}(?:{'|'.join(parts)})" if parts else NOTHING


def _is_prefix(word: str) -> bool:
    return len(word) > 1 and "а" <= word[-1].lower().replace("ё", "е") <= "я"


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
