"""A profile as settings of the systems that the five documents describe, with their names and units."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from memkit.documents import DOCUMENTS

_BOT, _WORKSPACE, _INDEX = (DOCUMENTS[name].name for name in ("memory_v2", "workspace", "index_standard"))
_UNNAMED = "; the document names no variable"
_EQUIVALENTS = {
    ("context", _BOT): {
        "k": ("topK", "facts", "most hits in [RELEVANT MEMORY FOR THIS TURN]"),
        "profile_chars": ("profileLimit", "characters", "of [PROFILE MEMORY]" + _UNNAMED),
        "working_chars": ("workingLimit", "characters", "of [WORKING MEMORY]" + _UNNAMED),
        "relevant_chars": ("relevantLimit", "characters", "of [RELEVANT MEMORY]" + _UNNAMED),
    },
    ("quota", _BOT): {
        "max_facts": ("maxFactsPerUser", "facts", "above this the oldest of archive are evicted, low before normal"),
        "max_profile": ("maxProfileFacts", "facts", "a further one is refused"),
        "max_working": ("maxWorkingFacts", "facts", "that have not expired; a further one is refused"),
    },
    ("admission", _BOT): {
        "min_chars": ("minLength", "characters", "of a fact" + _UNNAMED),
        "max_chars": ("maxLength", "characters", "of a fact" + _UNNAMED),
    },
    ("classifier", _BOT): {
        "working_days": ("workingDays", "days", "until a working fact expires; the document names none"),
    },
    ("retriever", _WORKSPACE): {
        "chunk_tokens": ("CHUNK_SIZE", "tokens", "of about 4 characters; index again after a change"),
        "overlap_tokens": ("CHUNK_OVERLAP", "tokens", "that two chunks share"),
    },
    ("split_plan", _INDEX): {
        "max_tokens_per_file": ("memory_settings.max_tokens_per_file", "tokens", "a longer file is split"),
    },
    ("index_check", _INDEX): {
        "auto_clean_invalid": ("auto_clean_invalid", "", "whether invalid entries are removed"),
        "auto_clean_missing": ("auto_clean_missing", "", "whether entries without a file are removed"),
    },
}
"""The setting that a parameter has in a document's system: its name there, its unit, and what it means."""


def settings_of(profile: Any) -> list[dict[str, str]]:
    """document, setting, value, unit, note of what a `Profile` holds, by document."""
    sections = {"retriever": profile.retriever, "context": profile.context, **profile.policies}
    rows = [*_decay(profile.retriever), *_threshold(profile.dedup), *_weights(profile)]
    rows += [
        (document, setting, _spelled(sections[section][name]), unit, note)
        for (section, document), settings in _EQUIVALENTS.items()
        for name, (setting, unit, note) in settings.items()
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
        e_folding_days = days if form == "e_folding" else days / math.log(2)
        half = e_folding_days * math.log(2)
        after = f"half is left after {half:.4g} days, 0.368 after {e_folding_days:.4g}"
        note = f"score × exp(−ageDays / halfLifeDays): {after}"
        yield _BOT, "halfLifeDays", _spelled(e_folding_days), "days", note
    if retriever.get("decay_floor"):
        yield (
            _BOT,
            "decayFloor",
            "",
            "",
            f"the floor of {retriever['decay_floor']:g} under the factor has no setting",
        )


def _threshold(dedup: Any) -> Iterator[_Row]:
    if dedup.get("threshold") is not None:
        note = "lowest cosine at which two facts count as one; the document names no variable"
        if dedup.get("centre", "corpus") == "corpus":
            note += ". Measured after mean-centering: plain cosines are higher"
        yield _BOT, "dedupThreshold", _spelled(dedup["threshold"]), "cosine, 0 to 1", note


def _weights(profile: Any) -> Iterator[_Row]:
    """The weights of meaning and words as shares of their sum: the document says 70 % and 30 %."""
    written = {arm: profile.retriever.get(f"{arm}_weight") for arm in ("vector", "bm25", "gram")}
    arms = {
        arm: written[arm] if written[arm] is not None else profile.evidence.get("arms", {}).get(arm) for arm in written
    }
    vector, words = arms["vector"], arms["bm25"]
    if vector is None or words is None or not vector + words:
        return
    share = vector / (vector + words)
    scale = profile.retriever.get("normalise", "calibrated")
    note = f"of the score; measured with scores normalised by {scale!r}"
    if arms["gram"]:
        note += f", beside letters with the weight {arms['gram']:g}, which that system lacks"
    yield _WORKSPACE, "VECTOR_WEIGHT", _spelled(share), "share, 0 to 1", f"{note}; the document says 70 %"
    yield _WORKSPACE, "BM25_WEIGHT", _spelled(1 - share), "share, 0 to 1", "the rest; the document says 30 %"


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
