"""memkit beside its peers on the corpus like life (`life.py`): ratios of processor time, all in one run.

    python tests/benchmarks/bench_life.py [--notes 10000] [--texts FOLDER] [--only read index ask change save peak]

memkit searches by words and letters, as it does without an encoder. Peers are left out where they are not installed:
bm25s, tantivy and python-frontmatter; SQLite and DuckDB bring their full text. They get the memories' texts; words are
lower case and stemmed where they have stemmers. The floor of reading is to read bytes and decode them, load the front
matter with the C YAML loader, and find headings and links by a pattern each. One thread.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import generate
import life

GROUPS = ("read", "index", "ask", "change", "save", "peak")
_HEADING, _LINK = re.compile(r"^#{1,6} .*$", re.MULTILINE), re.compile(r"\[\[[^\]\n]+\]\]|\]\([^)\n]+\)")
_WORD = re.compile(r"\w+")


def cost(act: Callable[..., Any], *args: Any, repeat: int = 1) -> tuple[float, Any]:
    """Seconds of the processor, the least of `repeat` runs, and what the last gave."""
    seconds, result = [], None
    for _ in range(repeat):
        result = None
        started = time.process_time()
        result = act(*args)
        seconds.append(time.process_time() - started)
    return min(seconds), result


def show(work: str, unit: float, costs: dict[str, float]) -> None:
    """A line a side: its cost in thousandths of a second for one of `unit`, and its ratio to memkit's."""
    own = costs["memkit"]
    for name, seconds in costs.items():
        ratio = f"memkit takes {own / max(seconds, 1e-9):.2f} times that" if name != "memkit" else ""
        print(f"{work:<24}{name:<22}{1e3 * seconds / unit:>12.3f} ms   {ratio}", flush=True)


def installed(*names: str) -> Iterator[str]:
    for name in names:
        with suppress(ImportError):
            import_module(name)
            yield name


# Reading.


def markdown(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.md"))


def floor(folder: Path) -> list[Any]:
    """Bytes, front matter, headings and links of each file."""
    import yaml

    kept = []
    for path in markdown(folder):
        text = path.read_bytes().decode()
        front: Any = None
        if text.startswith("---\n"):
            head, _, text = text[4:].partition("\n---\n")
            front = yaml.load(head, yaml.CSafeLoader)
        kept.append((front, _HEADING.findall(text), _LINK.findall(text)))
    return kept


def by_frontmatter(folder: Path) -> Any:
    import frontmatter
    import pandas as pd

    posts = ((path, frontmatter.load(str(path))) for path in markdown(folder))
    return pd.DataFrame([{"path": str(path), "text": post.content, **post.metadata} for path, post in posts])


def read_memkit(folder: Path) -> Any:
    import memkit as mk

    return mk.read(folder, n_jobs=1)


def measure_read(target: Path, repeat: int) -> None:
    sides: dict[str, Callable[[Path], Any]] = {"memkit": read_memkit, "floor": floor}
    sides |= {f"{name} + pandas": by_frontmatter for name in installed("frontmatter")}
    for folder in (target / sort for sort in life.SORTS):
        n_files = len(markdown(folder))
        costs = {name: cost(act, folder, repeat=repeat)[0] for name, act in sides.items()}
        show(f"read {folder.name}, a file", n_files, costs)


# Searching.


class Peer:
    """An index of texts: what makes it, answers one question, and adds a text."""

    def __init__(self, texts: list[str]) -> None:
        self.fit(texts)

    def fit(self, texts: list[str]) -> None:
        raise NotImplementedError

    def ask(self, question: str) -> Any:
        raise NotImplementedError


class Bm25s(Peer):
    """With both stemmers: the Russian one leaves Latin words alone, and the other way round."""

    def fit(self, texts: list[str]) -> None:
        import bm25s

        self.index = bm25s.BM25(method="lucene")
        self.index.index(self._tokens(texts), show_progress=False)

    def _tokens(self, texts: list[str], **options: Any) -> Any:
        import bm25s

        return bm25s.tokenize(texts, stopwords=None, stemmer=self._stems, show_progress=False, **options)

    def _stems(self, words: list[str]) -> list[str]:
        import Stemmer

        for language in ("russian", "english"):
            words = Stemmer.Stemmer(language).stemWords(words)
        return words

    def ask(self, question: str) -> Any:
        return self.ask_all([question])

    def ask_all(self, questions: list[str]) -> Any:
        return self.index.retrieve(self._tokens(questions, return_ids=False), k=10, show_progress=False)


class Tantivy(Peer):
    def fit(self, texts: list[str]) -> None:
        import tantivy

        schema = tantivy.SchemaBuilder().add_text_field("text", stored=False).add_integer_field("row", stored=True)
        self.index = tantivy.Index(schema.build())
        self.writer = self.index.writer(num_threads=1)
        self.add(texts)

    def add(self, texts: list[str]) -> None:
        import tantivy

        for row, text in enumerate(texts):
            self.writer.add_document(tantivy.Document(text=text, row=row))
        self.writer.commit()
        self.index.reload()

    def ask(self, question: str) -> Any:
        words = " ".join(_WORD.findall(question))
        return self.index.searcher().search(self.index.parse_query(words, ["text"]), 10).hits


class Sqlite(Peer):
    def fit(self, texts: list[str]) -> None:
        import sqlite3

        self.con = sqlite3.connect(":memory:")
        self.con.execute("create virtual table texts using fts5(text)")
        self.add(texts)

    def add(self, texts: list[str]) -> None:
        self.con.executemany("insert into texts values (?)", ((text,) for text in texts))
        self.con.commit()

    def ask(self, question: str) -> Any:
        words = " OR ".join(f'"{word}"' for word in _WORD.findall(question))
        found = "select rowid from texts where texts match ? order by rank limit 10"
        return self.con.execute(found, [words]).fetchall()


class DuckDb(Peer):
    def fit(self, texts: list[str]) -> None:
        import memkit as mk

        self.corpus = mk.from_table({"text": texts})
        self.ask("чай")  # which makes its full text

    def ask(self, question: str) -> Any:
        words = " ".join(_WORD.findall(question))
        return self.corpus.sql(f"from fts('{words}') limit 10").fetchall()


PEERS: dict[str, type[Peer]] = {"bm25s": Bm25s, "tantivy": Tantivy, "sqlite3": Sqlite, "duckdb": DuckDb}


class Fitted:
    """What later groups need: a corpus, its retriever, its peers, and the seconds that each took."""

    def __init__(self, target: Path) -> None:
        import memkit as mk

        self.target, self.costs = target, dict[str, float]()
        self.corpus = read_memkit(target)
        self.texts = self.corpus.memories["text"].to_pylist()
        self.costs["memkit"], self.search = cost(mk.Retriever(encoder=None).fit, self.corpus)
        self.peers: dict[str, Any] = {}
        for name in installed(*PEERS):
            self.costs[name], self.peers[name] = cost(PEERS[name], self.texts)


def measure_ask(fitted: Fitted) -> None:
    questions = generate.queries(fitted.texts, 140)
    asks = {"memkit": fitted.search.search} | {name: peer.ask for name, peer in fitted.peers.items()}
    for turn in ("new", "again"):
        costs = {}
        for name, ask in asks.items():
            ask("чай tea")
            costs[name] = statistics.median(cost(ask, text)[0] for text in questions[: 10 if name == "duckdb" else 40])
        show(f"a question, {turn}", 1, costs)
    costs = {"memkit": cost(fitted.search.search, questions[40:])[0]}
    costs |= {name: cost(peer.ask_all, questions[40:])[0] for name, peer in fitted.peers.items() if name == "bm25s"}
    show("a batch, a question", len(questions) - 40, costs)


def measure_change(fitted: Fitted) -> None:
    path = markdown(fitted.target)[len(markdown(fitted.target)) // 2]
    corpus, search, before = fitted.corpus, fitted.search, path.read_bytes()
    for turn in range(2):
        line = f"Одна строка больше, {turn}."
        path.write_bytes(before + f"\n{line}\n".encode())
        steps = {}
        steps["refresh"], corpus = cost(corpus.refresh)
        steps["fit"], search = cost(search.fit, corpus)
        steps["first question"], _ = cost(search.search, line)
        costs = {"memkit": sum(steps.values())}
        costs |= {name: cost(peer.add, [line])[0] for name, peer in fitted.peers.items() if hasattr(peer, "add")}
        show("one file changed", 1, costs)
        print("    " + ", ".join(f"{name} {1e3 * seconds:.0f} ms" for name, seconds in steps.items()))
    path.write_bytes(before)


def open_saved(folder: Path) -> Any:
    import memkit as mk

    return mk.Retriever(encoder=None).fit(mk.open(folder, trust=True)).search("чай")


def save(fitted: Fitted, folder: Path) -> None:
    fitted.search.corpus_.save(folder)


def measure_save(fitted: Fitted) -> None:
    with tempfile.TemporaryDirectory() as name:
        saved, peer, costs, opens = Path(name) / "saved", Path(name) / "peer", dict[str, float](), dict[str, float]()
        costs["memkit"], _ = cost(save, fitted, saved)
        opens["memkit"], _ = cost(open_saved, saved, repeat=3)
        if "bm25s" in fitted.peers:
            import bm25s

            costs["bm25s"], _ = cost(fitted.peers["bm25s"].index.save, str(peer))
            opens["bm25s"], _ = cost(bm25s.BM25.load, str(peer), repeat=3)
        show("save with arms", 1, costs)
        show("open, first question", 1, opens)


# Peaks, each in a process of its own.

_PEAK = """
import resource, sys
import memkit as mk
corpus = mk.read(sys.argv[1], n_jobs=1)
search = mk.Retriever(encoder=None).fit(corpus)
if len(sys.argv) > 2:
    search.corpus_.save(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def measure_peak(target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        for what, more in (("read and fit", []), ("read, fit and save", [f"{name}/saved"])):
            command = [sys.executable, "-c", _PEAK, str(target), *more]
            peak = int(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
            print(f"peak of {what:<22}{peak * (1 if sys.platform == 'darwin' else 1024) / 1e6:.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--texts", type=Path, help="a folder of texts, besides those of data/")
    parser.add_argument("--folder", type=Path, help="where the corpus is, or is made and kept")
    parser.add_argument("--only", nargs="*", choices=GROUPS, default=GROUPS)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        target = options.folder or Path(name)
        if not markdown(target):
            life.write(target, options.notes, options.texts)
        if "read" in options.only:
            measure_read(target, options.repeat)
        if "peak" in options.only:
            measure_peak(target)
        if not {"index", "ask", "change", "save"}.isdisjoint(options.only):
            fitted = Fitted(target)
            show("index", 1, fitted.costs)
            for group, measure in (("ask", measure_ask), ("save", measure_save), ("change", measure_change)):
                if group in options.only:
                    measure(fitted)


TINY = "--notes 40 --repeat 1"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
