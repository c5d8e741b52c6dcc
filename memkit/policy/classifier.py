"""Classification: kind, importance and the end of a working fact, by keywords (Memory v2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

import pyarrow as pa

from memkit.duck import literal
from memkit.params import estimator
from memkit.policy.base import END, NOTHING, START, Policy, alternatives, kind_in, needed, of_document
from memkit.schemas import IMPORTANCE_WORDS, kinds_where
from memkit.tables.patterns import Pattern

# The word that memkit keeps for the one written; null for any other.
_CASES = (f"when {literal(word)} then {literal(kept)}" for word, kept in IMPORTANCE_WORDS.items())
_IMPORTANCE = f"case importance {' '.join(_CASES)} end"
_own = partial(of_document, "classifier")


@estimator
class Classifier(Policy):
    """Gives each text a kind, an importance and, for a working fact, its last day.

    Adds ``keep`` (bool, always true), ``reason`` (null), ``kind``, ``importance`` (strings) and ``expires_at``
    (timestamp). The profile words are asked before the working words, but not within a longer one of those («работа»
    in «работаем над»); what holds neither is archive and low. A
    Cyrillic word matches as the beginning of a word (one letter: as the word), any other as a whole word or phrase.

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

    profile_words: tuple[str, ...] = _own("profile_words", "Words of a profile fact; None: the document's.")
    working_words: tuple[str, ...] = _own("working_words", "Words of a working fact; None: the document's.")
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
            when found = 'archive' then 'low'
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
        longer = keywords([word for word in working if any(own in word and own != word for own in profile)])
        judged = f"not ({self._stays()})"
        word = Pattern("profile_word", keywords(self.profile_words), after=judged)
        within = Pattern("longer_word", longer, after=word)
        rest = Pattern("beside", longer, "rest", instead=" ", after=within)
        return (
            *(word, within, rest, replace(word, name="profile_beside", column=rest, after=within)),
            Pattern("working_word", keywords(self.working_words), after=judged),
        )


def keywords(words: tuple[str, ...] | list[str]) -> str:
    """One RE2 pattern: Cyrillic words as prefixes, others and single letters as whole words; of no words, nothing.

    >>> keywords(("план", "я"))
    '(?i)(?:^|[^\\\\p{L}\\\\p{N}_])(?:план|(?:я)(?:$|[^\\\\p{L}\\\\p{N}_]))'
    """
    prefixes = [word for word in words if _is_prefix(word)]
    whole = [word for word in words if not _is_prefix(word)]
    parts = [alternatives(prefixes)] * bool(prefixes) + [f"(?:{alternatives(whole)}){END}"] * bool(whole)
    return f"(?i){START}(?:{'|'.join(parts)})" if parts else NOTHING


def _is_prefix(word: str) -> bool:
    return len(word) > 1 and "а" <= word[-1].lower().replace("ё", "е") <= "я"
