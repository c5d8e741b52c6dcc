"""A profile in the words of the systems that the documents describe: their settings, units, and what has none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from memkit.documents import DOCUMENTS

_BOT, _WORKSPACE, _INDEX = (DOCUMENTS[name].name for name in ("memory_v2", "workspace", "index_standard"))
# Which setting of which system a parameter is: section, parameter, document, setting, unit, what it means there.
_SAME = (
    ("context", "top_k", _BOT, "topK", "facts", "hits that may enter [RELEVANT MEMORY FOR THIS TURN]"),
    (
        "context",
        "profile_chars",
        _BOT,
        "profileLimit",
        "characters",
        "of [PROFILE MEMORY]; the document names no variable",
    ),
    (
        "context",
        "working_chars",
        _BOT,
        "workingLimit",
        "characters",
        "of [WORKING MEMORY]; the document names no variable",
    ),
    (
        "context",
        "relevant_chars",
        _BOT,
        "relevantLimit",
        "characters",
        "of [RELEVANT MEMORY]; the document names no variable",
    ),
    ("quota", "max_facts", _BOT, "maxFactsPerUser", "facts", "over it the oldest of archive go, low before normal"),
    ("quota", "max_profile", _BOT, "maxProfileFacts", "facts", "a further one is refused"),
    ("quota", "max_working", _BOT, "maxWorkingFacts", "facts", "that have not expired; a further one is refused"),
    ("admission", "min_chars", _BOT, "minLength", "characters", "of a fact; the document names no variable"),
    ("admission", "max_chars", _BOT, "maxLength", "characters", "of a fact; the document names no variable"),
    (
        "classifier",
        "working_days",
        _BOT,
        "workingDays",
        "days",
        "until a working fact expires; the document names none",
    ),
    (
        "retriever",
        "chunk_tokens",
        _WORKSPACE,
        "CHUNK_SIZE",
        "tokens",
        "of about 4 characters; index again after a change",
    ),
    ("retriever", "overlap_tokens", _WORKSPACE, "CHUNK_OVERLAP", "tokens", "that two chunks share"),
    (
        "split_plan",
        "max_tokens_per_file",
        _INDEX,
        "memory_settings.max_tokens_per_file",
        "tokens",
        "a longer file is split",
    ),
    ("index_check", "auto_clean_invalid", _INDEX, "auto_clean_invalid", "", "whether invalid entries are removed"),
    (
        "index_check",
        "auto_clean_missing",
        _INDEX,
        "auto_clean_missing",
        "",
        "whether entries without a file are removed",
    ),
)


def settings_of(profile: Any) -> list[dict[str, str]]:
    """document, setting, value, unit, note of what a `Profile` holds, by document."""
    sections = {"retriever": profile.retriever, "context": profile.context, **profile.policies}
    rows = [*_decay(profile.retriever), *_threshold(profile.dedup), *_weights(profile)]
    rows += [
        (document, setting, _spelled(sections[section][name]), unit, note)
        for section, name, document, setting, unit, note in _SAME
        if sections.get(section, {}).get(name) is not None
    ]
    order = [document.name for document in DOCUMENTS.values()]
    rows.sort(key=lambda row: order.index(row[0]))
    return [dict(zip(("document", "setting", "value", "unit", "note"), row, strict=True)) for row in rows]


_Row = tuple[str, str, str, str, str]


def _decay(retriever: Any) -> Iterator[_Row]:
    """The bot multiplies by exp(−ageDays / halfLifeDays), which it calls a half-life."""
    if "decay_days" not in retriever and "decay" not in retriever:
        return
    form, days = retriever.get("decay", "e_folding"), retriever.get("decay_days", 60.0)
    if form in ("linear", "gauss"):
        yield (
            _BOT,
            "halfLifeDays",
            "",
            "",
            f"the decay {form} of {days:g} days is not an exponential: it has no halfLifeDays",
        )
    elif form == "none":
        yield _BOT, "halfLifeDays", "Infinity", "days", "nothing decays: exp(−ageDays / Infinity) is 1"
    else:
        own = days if form == "e_folding" else days / math.log(2)
        half = own * math.log(2)
        note = f"score × exp(−ageDays / halfLifeDays): half is left after {half:.4g} days, 0.368 after {own:.4g}"
        yield _BOT, "halfLifeDays", _spelled(own), "days", note
    if retriever.get("decay_floor"):
        yield _BOT, "decayFloor", "", "", f"a floor of {retriever['decay_floor']:g} under the factor has no setting"


def _threshold(dedup: Any) -> Iterator[_Row]:
    if dedup.get("threshold") is not None:
        note = "least cosine of two facts that are one; the document names no variable"
        if dedup.get("centre", "corpus") == "corpus":
            note += ". Measured with the corpus's mean taken off: plain cosines are higher"
        yield _BOT, "dedupThreshold", _spelled(dedup["threshold"]), "cosine, 0 to 1", note


def _weights(profile: Any) -> Iterator[_Row]:
    """Vector and BM25 as shares of what the two have: the document says 70 % and 30 %."""
    told = {arm: profile.retriever.get(f"{arm}_weight") for arm in ("vector", "bm25", "gram")}
    arms = {arm: told[arm] if told[arm] is not None else profile.evidence.get("arms", {}).get(arm) for arm in told}
    vector, words = arms["vector"], arms["bm25"]
    if vector is None or words is None or not vector + words:
        return
    share = vector / (vector + words)
    scale = profile.retriever.get("normalise", "calibrated")
    note = f"of the score; measured with scores normalised by {scale!r}"
    if arms["gram"]:
        note += f", and letters with a weight of {arms['gram']:g}, which have no place there"
    yield _WORKSPACE, "VECTOR_WEIGHT", _spelled(share), "share, 0 to 1", f"{note}; the document says 70 %"
    yield _WORKSPACE, "BM25_WEIGHT", _spelled(1 - share), "share, 0 to 1", "the rest; the document says 30 %"


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
