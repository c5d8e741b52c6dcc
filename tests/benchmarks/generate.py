"""Corpora for the benchmarks: half Russian, half English, Zipf-distributed words with inflections, or real sentences.

>>> texts(2, seed=0) == texts(2, seed=0)
True
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

_SYLLABLES = {
    "ru": ["ба", "во", "го", "де", "жи", "за", "ки", "ло", "ма", "не", "по", "ре", "со", "ту", "фе", "хо", "че", "ши"],
    "en": ["ba", "con", "de", "fi", "gro", "hu", "ja", "ker", "lo", "mi", "nap", "o", "per", "qui", "ra", "sto", "ve"],
}
_ENDINGS = {
    "ru": ["", "а", "ы", "ами", "ость", "ение", "ить", "ый", "ого", "ал"],
    "en": ["", "s", "ing", "ed", "er", "ation", "ly", "able", "ness", "ment"],
}


def vocabulary(language: str, stems: int, seed: int = 0) -> np.ndarray:
    """Distinct inflected words of `language` ("ru" or "en"), ten to a stem, in random order."""
    rng = np.random.default_rng([seed, len(language), ord(language[0])])
    syllables = np.array(_SYLLABLES[language])
    length = rng.integers(2, 5, stems)
    drawn = {"".join(syllables[rng.integers(0, len(syllables), n)]) for n in length}
    words = np.array(sorted({stem + ending for stem in drawn for ending in _ENDINGS[language]}))
    rng.shuffle(words)
    return words


def texts(count: int, tokens: int = 60, stems: int = 8_000, seed: int = 0) -> list[str]:
    """`count` texts of about `tokens` words each (half to one and a half times that); even ones are Russian."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(max(1, tokens // 2), tokens + tokens // 2 + 1, count)
    drawn_texts: list[str] = [""] * count
    for offset, language in enumerate(("ru", "en")):
        words = vocabulary(language, stems, seed)
        of_language = lengths[offset::2]
        drawn = words[_zipf(rng, len(words), int(of_language.sum()))]
        starts = np.concatenate(([0], np.cumsum(of_language)))
        pairs = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        drawn_texts[offset::2] = [" ".join(drawn[a:b]) for a, b in pairs]
    return drawn_texts


def _zipf(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Ranks drawn with a probability in proportion to 1 / (rank + 2.7) (Mandelbrot's form)."""
    cumulative = np.cumsum(1.0 / (np.arange(size) + 2.7))
    return np.searchsorted(cumulative, rng.random(count) * cumulative[-1])


def notes(count: int, chars: int = 800, copies: float = 0.1, seed: int = 0) -> list[str]:
    """`count` notes of about `chars` characters, of the sentences of data/; the last ones are edited copies of others.

    A note is in the language of its first sentence or of both, as the sentences come. Of the copies, every second has a
    word less, the others another number.
    """
    from memkit.tables.corpus import read
    from memkit.tables.samples import sample_data

    rng = np.random.default_rng(seed)
    texts = read(sample_data()).memories["text"].to_pylist()
    pieces = {piece.strip() for text in texts for piece in re.split(r"(?<=[.!?])\s|\n+", text)}
    known = sorted(piece for piece in pieces if len(piece) > 20)
    n_new = count - int(copies * count)
    drawn = []
    for _ in range(n_new):
        note = ""
        while len(note) < chars:
            note += known[int(rng.integers(len(known)))] + (" " if rng.random() < 0.7 else "\n\n")
        drawn.append(note[: chars + 100].strip())
    for place in range(count - n_new):
        words = drawn[place].split(" ")
        position = int(rng.integers(len(words)))
        words[position] = "" if place % 2 else str(rng.integers(10, 999))
        drawn.append(" ".join(words))
    return drawn


def queries(corpus: list[str], count: int, words: int = 6, seed: int = 1) -> list[str]:
    """`count` queries, each `words` words that stand together in one text of `corpus`."""
    rng = np.random.default_rng(seed)
    drawn = []
    for row in rng.integers(0, len(corpus), count).tolist():
        tokens = corpus[row].split()
        start = int(rng.integers(0, max(1, len(tokens) - words)))
        drawn.append(" ".join(tokens[start : start + words]))
    return drawn


def chunks(corpus: list[str]) -> pa.Table:
    """`corpus` as a table of chunks (`memkit.schemas.CHUNKS`), one a memory."""
    from memkit.schemas import CHUNKS

    count = len(corpus)
    ids = [f"table:#{row}" for row in range(count)]
    columns = {
        "chunk_id": [f"{name}@0" for name in ids],
        "memory_id": ids,
        "ordinal": np.zeros(count, np.int64),
        "text": corpus,
        "path": pa.nulls(count, pa.string()),
        "line_start": np.ones(count, np.int64),
        "line_end": np.ones(count, np.int64),
    }
    return pa.table(columns, schema=CHUNKS)
