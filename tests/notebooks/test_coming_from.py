"""Every row of the table "Coming from pandas, scikit-learn …" runs as it is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import ir_measures
import nbformat
import numpy as np
import optuna
import pandas as pd
import polars
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV

import memkit as mk

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "30_measuring.ipynb"
TEXTS = ["зелёный чай с мёдом", "пул соединений базы", "coffee without sugar"]


@dataclass
class Document:
    """As LangChain's."""

    page_content: str
    metadata: dict[str, Any]


class Embeddings:
    """As LangChain's."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return np.bincount([ord(sign) % 32 for sign in text], minlength=32).astype(float).tolist()


def rows() -> dict[str, list[list[str]]]:
    """The snippets of each row of the table, those of a cell together."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    (source,) = (cell.source for cell in cells if cell.source.startswith("## Coming from"))
    table = [line.strip("|").split(" | ") for line in source.splitlines() if line.startswith("| ")][1:]
    return {name.strip(): [re.findall(r"`([^`]+)`", cell) for cell in (theirs, ours)] for name, theirs, ours in table}


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the snippets find: the search of three texts, its hits and labels, and files in the folder."""
    monkeypatch.chdir(tmp_path)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    frame = pd.DataFrame({"memory_id": ["a", "b", "c"], "text": TEXTS})
    corpus = mk.from_table(frame)
    search = mk.Retriever(encoder=None).fit(corpus)
    queries = mk.labels.read_queries({"query_id": ["q1", "q2"], "text": ["чай", "coffee sugar"]})
    judged = mk.labels.read_qrels({"query_id": ["q1", "q2"], "memory_id": ["a", "c"], "relevance": [1, 1]})
    mk.labels.write(judged, "qrels.json")
    mk.labels.write(judged, "all.qrels")
    modules = {"mk": mk, "polars": polars, "GridSearchCV": GridSearchCV, "Document": Document}
    return modules | {
        "frame": frame,
        "corpus": corpus,
        "search": search,
        "asked": queries,
        "judged": judged,
        "hits": search.search(queries),
        "con": duckdb.connect(),
        "documents": [Document(text, {}) for text in TEXTS],
        "embeddings": Embeddings(),
        "study": optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0)),
    }


@pytest.mark.quick
def test_each_row_runs_and_gives_what_it_says(names: dict[str, Any], subtests) -> None:
    results: dict[str, list[Any]] = {}
    for name, cells in rows().items():
        with subtests.test(name):
            for snippet in (snippet for cell in cells for snippet in cell if "ranx." not in snippet):
                if re.match(r"[\w, ]+ = ", snippet):
                    exec(snippet, names)  # noqa: S102  # the notebook's own text
                else:
                    results.setdefault(name, []).append(eval(snippet, names))  # noqa: S307  # as above
    texts, hits = names["frame"]["text"].tolist(), names["hits"]
    ids = hits["memory_id"].to_pylist()
    assert results["pandas"][0].memories["text"].to_pylist() == texts
    assert results["pandas"][1]["memory_id"].tolist() == ids
    assert results["Polars"][0].memories["text"].to_pylist() == texts
    assert results["Polars"][1]["score"].to_list() == hits["score"].to_pylist()
    assert [table["memory_id"].to_list() for table in results["Polars, by SQL"][1:]] == [ids]
    assert results["Polars, by SQL"][0].rows() == [(None, 3)]
    assert results["DuckDB"][0].memories["text"].to_pylist() == texts
    assert results["DuckDB"][1].fetchall() == list(zip(ids, hits["score"].to_pylist(), strict=True))
    assert results["scikit-learn"][0]["bm25_weight"] in (0.3, 0.7)
    assert len(names["study"].trials) == 3
    assert names["study"].best_value == 1.0
    assert results["ranx"][0].equals(names["judged"])
    assert results["trec_eval, ir-measures"][0].equals(names["judged"])
    written = {(hit.query_id, hit.doc_id): hit.score for hit in ir_measures.read_trec_run(str(Path("all.run")))}
    scores = dict(zip(zip(hits["query_id"].to_pylist(), ids, strict=True), hits["score"].to_pylist(), strict=True))
    assert written == pytest.approx(scores)
    assert np.shape(names["vectors"]) == (3, 32)
    by_vectors = results["LangChain, embeddings"][0].fit(names["corpus"]).search(texts[1], k=1)
    assert by_vectors["memory_id"].to_pylist() == ["b"]
    assert isinstance(by_vectors, pa.Table)
    documents = results["LangChain, documents"]
    assert documents[0].memories["text"].to_pylist() == texts
    assert [document.metadata["memory_id"] for document in documents[1]] == ids
