"""Classification: kind, importance and the end of a working fact, by keywords (Memory v2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

import pyarrow as pa

from memkit.duck import literal
from memkit.params import estimator, param
from memkit.policy.base import END, NOTHING, START, Policy, alternatives, kind_in, needed, of_document
from memkit.schemas import IMPORTANCE_WORDS, kinds_where
from memkit.tables.patterns import Pattern

# The word that memkit keeps for the one written; null for any other.
_CASES = (f"when {literal(word)} then {literal(kept)}" for word, kept in IMPORTANCE_WORDS.items())
_IMPORTANCE = f"case importance {' '.join(_CASES)} end"
_own = partial(of_document, "classifier")
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
_words = partial(param, None, kind="words", nullable=True)


@estimator
class Classifier(Policy):
    """Gives each text a kind, an importance and, for a working fact, its last day.

    Adds ``keep`` (bool, always true), ``reason`` (null), ``kind``, ``importance`` (strings) and ``expires_at``
    (timestamp). The profile words are asked before the working words, but not within a longer one of those («работает»
    in «работает над»); what holds neither is archive: normal where it says what somebody likes, else low. Only a
    working fact gets an end. A word matches as a whole word or phrase; with `beginnings`, as in the preset of the
    document, a Cyrillic one of more than a letter matches as the beginning of a word.

    With `use_given` a row's own kind and its own valid importance and date win. A kind that does not stand for a fact
    (``note``, ``entry``, one of your own) is never changed. The columns that were there are kept as ``given_…``.

    Examples
    --------
    >>> table = pa.table({"text": ["Меня зовут Анна.", "Currently fixing the bot.", "Обсуждали структуру."]})
    >>> Classifier().transform(table, as_of="2026-03-01").column("kind").to_pylist()
    ['profile', 'working', 'archive']
    """

    by_user = True
    needs: ClassVar[pa.Schema] = needed("text", "kind", "importance", "expires_at")
    required: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[dict[str, str]] = {
        "keep": "always true: nothing is refused for its kind",
        "reason": "always null",
        "kind": "profile, working or archive; any other kind stays",
        "importance": "high, normal or low",
        "expires_at": "last day of a working fact, UTC",
    }

    profile_words: tuple[str, ...] = _words(doc="Words of a profile fact; None: memkit's.", stands_for=_PROFILE)
    working_words: tuple[str, ...] = _words(doc="Words of a working fact; None: memkit's.", stands_for=_WORKING)
    lasting_words: tuple[str, ...] = _words(
        doc="Phrases within which no word makes a working fact; None: memkit's.", stands_for=_LASTING
    )
    liked_words: tuple[str, ...] = _words(
        doc="Words of a liking, which is archive and normal; None: memkit's.", stands_for=_LIKED
    )
    beginnings: bool = param(False, doc="A Cyrillic word matches as the beginning of a word, as the document has it.")
    working_days: int = _own("working_days", "How long a working fact lives.", low=0, unit="days")
    use_given: bool = _own("use_given", "A fact's own kind, importance and date win.")

    def _sql(self) -> str:
        facts, read = kind_in(kinds_where(fact=True)), [one.name for one in self._patterns()]
        return f"""select * exclude ({", ".join((*read, "found", "given"))})
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
            case when found = 'working' then ($as_of::date + {int(self.working_days)})::timestamptz end
        ) as expires_at
    ),
    true as keep,
    null::varchar as reason
from (
    select *,
        {str(self.use_given).lower()} or not {facts} and kind is not null as given,
        case
            when {self._stays()} then kind
            when profile_word and coalesce(profile_beside, true) then 'profile'
            when working_word then 'working'
            else 'archive'
        end as found
    from tested
)"""  # noqa: S608  # declared parameters only, quoted

    def _stays(self) -> str:
        return "kind is not null" if self.use_given else f"kind is not null and not {kind_in(kinds_where(fact=True))}"

    def _patterns(self) -> tuple[Pattern, ...]:
        """A profile word, the longest match first: none counts within a longer working word; and a working word."""
        profile, working = (
            [" ".join(word.casefold().split()) for word in words] for words in (self.profile_words, self.working_words)
        )
        said = partial(keywords, beginnings=self.beginnings)
        longer = said([word for word in working if any(own in word and own != word for own in profile)])
        judged = f"not ({self._stays()})"
        word = Pattern("profile_word", said(self.profile_words), after=judged)
        within = Pattern("longer_word", longer, after=word)
        rest = Pattern("beside", longer, "rest", instead=" ", after=within)
        return (
            *(word, within, rest, replace(word, name="profile_beside", column=rest, after=within)),
            passing := Pattern("passing", said(self.lasting_words), "rest", instead=" ", after=judged),
            Pattern("working_word", said(self.working_words), column=passing, after=judged),
            Pattern("liked_word", said(self.liked_words), after=judged),
        )


def keywords(words: tuple[str, ...] | list[str], beginnings: bool = True) -> str:
    """One RE2 pattern of whole words; with `beginnings` Cyrillic ones of more than a letter are beginnings of words.

    >>> keywords(("план", "я"))
    '(?i)(?:^|[^\\\\p{L}\\\\p{N}_])(?:план|(?:я)(?:$|[^\\\\p{L}\\\\p{N}_]))'
    """
    prefixes = [word for word in words if beginnings and _is_prefix(word)]
    whole = [word for word in words if word not in prefixes]
    parts = [alternatives(prefixes)] * bool(prefixes) + [f"(?:{alternatives(whole)}){END}"] * bool(whole)
    return f"(?i){START}(?:{'|'.join(parts)})" if parts else NOTHING


def _is_prefix(word: str) -> bool:
    return len(word) > 1 and "а" <= word[-1].lower().replace("ё", "е") <= "я"
