from __future__ import annotations

import contextlib
import copy
import importlib
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import DamagedIndexError, FormatError, MemkitError, NotFittedError, ParameterError, StaleIndexError
from memkit.index.cache import shared_cache
from memkit.index.encoders.without_model import HashEncoder
from memkit.search.fitted import index
from memkit.search.fitted.store import MANIFEST, saved_arm
from memkit.search.retriever import Retriever
from memkit.tables.owners import Owners
from memkit.tables.samples import write_files

ROWS = ["Пул соединений: десять", "The deploy runs on Friday", "кот спит"]
DAY = "2026-03-01"
QUERIES = ["пулы", "friday deploy", "коты"]


@pytest.mark.quick
@pytest.mark.parametrize("lexical", ["bm25", "char"])
def test_what_was_saved_answers_the_same_without_encoding(corpus_of: Any, tmp_path: Path, lexical: str) -> None:
    search = Retriever(
        encoder="hash", index=mk.Index(lexical=lexical), vector_weight=0.3, kinds_hidden=("note", "line")
    ).fit(corpus_of(*ROWS))
    search.save(tmp_path)
    expected = search.search(QUERIES, as_of=DAY)
    encoded = search.arms_["vector"].cache_.encoded
    corpus = corpus_of(*ROWS)
    loaded = Retriever.load(tmp_path, corpus)
    assert all(loaded.value_of(name) == search.value_of(name) for name in Retriever.all_params())
    assert loaded.search(QUERIES, as_of=DAY).equals(expected)
    assert loaded.arms_["vector"].cache_.encoded == encoded
    assert loaded.corpus_.tables["chunks"].equals(search.chunks_)
    assert "chunks" not in corpus.tables


@pytest.mark.quick
def test_bm25_alone_is_saved_and_loaded_as_such(corpus_of: Any, tmp_path: Path) -> None:
    search = Retriever(encoder=None).fit(corpus_of(*ROWS))
    search.save(tmp_path)
    assert list(Retriever.load(tmp_path, corpus_of(*ROWS)).arms_) == ["bm25", "gram"]


@pytest.mark.quick
@pytest.mark.parametrize("rows", [ROWS[:2], [*ROWS, "новое"], ["Пул соединений: десять!", *ROWS[1:]], []])
def test_other_memories_than_those_saved_are_refused(corpus_of: Any, tmp_path: Path, rows: list[str]) -> None:
    Retriever(encoder="hash").fit(corpus_of(*ROWS)).save(tmp_path)
    with pytest.raises(StaleIndexError, match="expected the memories that the saved index was made from"):
        Retriever.load(tmp_path, corpus_of(*rows))


def test_another_encoder_is_refused_and_the_index_stays(corpus_of: Any, tmp_path: Path) -> None:
    search = Retriever(encoder="hash").fit(corpus_of(*ROWS))
    search.save(tmp_path)
    with pytest.raises(StaleIndexError, match="the vectors were made by encoder hash"):
        Retriever.load(tmp_path, corpus_of(*ROWS), encoder="lsa")
    again = Retriever.load(tmp_path, corpus_of(*ROWS))
    assert again.search(QUERIES, as_of=DAY).equals(search.search(QUERIES, as_of=DAY))


def test_an_encoder_object_has_to_be_given_again(corpus_of: Any, tmp_path: Path) -> None:
    search = Retriever(encoder=HashEncoder()).fit(corpus_of(*ROWS))
    search.save(tmp_path)
    with pytest.raises(ParameterError, match="fitted with an encoder object"):
        Retriever.load(tmp_path, corpus_of(*ROWS))
    loaded = Retriever.load(tmp_path, corpus_of(*ROWS), encoder=HashEncoder())
    assert loaded.search(QUERIES, as_of=DAY).equals(search.search(QUERIES, as_of=DAY))


@pytest.mark.parametrize("content", [None, "{", "[]", json.dumps({"version": 99}), json.dumps({"version": 1})])
def test_a_folder_that_holds_no_saved_index_is_refused(corpus_of: Any, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        place = tmp_path / f"saved-{'0' * 32}"
        write_files(tmp_path, {"memkit.json": json.dumps({"save": place.name}), f"{place.name}/{MANIFEST}": content})
    with pytest.raises(DamagedIndexError, match="memkit.json" if content is None else MANIFEST):
        Retriever.load(tmp_path, corpus_of(*ROWS))


def forge(folder: Path, **changes: Any) -> None:
    """Set values of the manifest by their path, ``__`` between its parts."""
    (manifest,) = folder.glob(f"saved-*/{MANIFEST}")
    document = json.loads(manifest.read_text(encoding="utf-8"))
    for path, value in changes.items():
        *above, last = path.split("__")
        node = document
        for name in above:
            node = node[name]
        node[last] = value
    manifest.write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [
        {"version": True},
        {"version": 1.0},
        {"params": []},
        {"params": {}},
        {"params__encoder": 5},
        {"params__encoder": {"openai": "x"}},
        {"params__unknown": 1},
        {"params__chunk_tokens": 0},
        {"params__chunk_tokens": "400"},
        {"params__chunk_tokens": [400]},
        {"params__lexical": "pickle"},
        {"params__pool": -1},
        {"params__kinds_hidden": 5},
        {"params__kinds_hidden": [["a"]]},
        {"encoder_is_object": 1},
        {"rows": []},
        {"arms": {}},
        {"arms": ["../bm25"]},
        {"arms": [["bm25"]]},
        {"arms": [5]},
        {"files": []},
        {"files": {}},
        {"files": {"../bm25/bm25_terms.parquet": "0"}},
        {"files": {"bm25/a/b": 5, "gram/a": 5}},
        {"more": 1},
    ],
    ids=str,
)
def test_an_odd_manifest_is_one_error_and_a_lake_with_it_is_fitted_anew(
    sound: tuple[Path, pa.Table], tmp_path: Path, change: dict[str, Any]
) -> None:
    folder, expected = sound
    lake = Path(shutil.copytree(folder, tmp_path / "lake"))
    (vectors,) = lake.glob("saved-*/vectors")
    forge(vectors, **change)
    with pytest.raises(FormatError, match=r"retriever\.json: expected"):
        Retriever.load(vectors, table_of(*ROWS))
    assert Retriever(encoder="hash").fit(mk.open(lake)).search(QUERIES, as_of=DAY).equals(expected)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """A lake with the arms of a search, and what that search answers."""
    folder = tmp_path_factory.mktemp("sound")
    search = Retriever(encoder="hash").fit(table_of(*ROWS))
    search.corpus_.save(folder)
    return folder, search.search(QUERIES, as_of=DAY)


def test_rows_that_are_odd_are_other_rows(corpus_of: Any, tmp_path: Path) -> None:
    Retriever(encoder="hash").fit(corpus_of(*ROWS)).save(tmp_path)
    forge(tmp_path, rows={"chunks": "3"})
    with pytest.raises(StaleIndexError, match="expected the memories that the saved index was made from"):
        Retriever.load(tmp_path, corpus_of(*ROWS))


def test_an_address_that_nobody_gave_gets_no_text(corpus_of: Any, tmp_path: Path) -> None:
    Retriever(encoder=None).fit(corpus_of(*ROWS)).save(tmp_path)
    forge(tmp_path, params__encoder="openai:m@http://127.0.0.1:9/v1")
    with pytest.raises(ParameterError, match=r"nobody gave in this process\. Pass it as encoder=, or trust=True"):
        Retriever.load(tmp_path, corpus_of(*ROWS))
    assert Retriever.load(tmp_path, corpus_of(*ROWS), encoder="hash").search(QUERIES).num_rows
    assert Retriever.load(tmp_path, corpus_of(*ROWS), trust=True).encoder == "openai:m@http://127.0.0.1:9/v1"


@pytest.mark.parametrize("name", ["", "/saved-*/bm25", "/saved-*/bm25/bm25_terms.parquet"])
def test_arms_behind_a_link_are_not_taken(tmp_path: Path, name: str) -> None:
    corpus = table_of(*ROWS)
    Retriever(encoder=None).fit(corpus).corpus_.save(tmp_path / "lake")
    search = Retriever(encoder=None).fit(mk.open(tmp_path / "lake"))
    assert saved_arm(search._index(), "bm25") is not None
    (path,) = (tmp_path / "lake").glob(f"saved-*/vectors{name}")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert saved_arm(search._index(), "bm25") is None


@pytest.mark.parametrize("other", [ROWS[:2], ["один", "два", "три"]], ids=["fewer", "as many"])
def test_an_arm_of_other_texts_is_refused(corpus_of: Any, tmp_path: Path, other: list[str]) -> None:
    for name, rows in (("own", ROWS), ("other", other)):
        Retriever(encoder=None).fit(corpus_of(*rows)).save(tmp_path / name)
    (folder,), (other_folder,) = ((tmp_path / name).glob("saved-*") for name in ("own", "other"))
    shutil.copytree(other_folder / "bm25", folder / "bm25", dirs_exist_ok=True)
    with pytest.raises(DamagedIndexError, match="not the file that was saved"):
        Retriever.load(tmp_path / "own", corpus_of(*ROWS))


class Cut(BaseException):
    """What a power cut is to a program."""


@pytest.mark.parametrize(
    "step", ["memkit.index.lexical.save_postings", "memkit.index.store.put", "memkit.index.store.replace"]
)
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_save_that_is_cut_off_leaves_the_former_one(
    corpus_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, nth: int
) -> None:
    search = Retriever(encoder="hash").fit(corpus_of(*ROWS))
    search.save(tmp_path)
    expected, other_texts = search.search(QUERIES, as_of=DAY), ["чужой пул", "another deploy", "соединений коты"]
    room, name = step.rsplit(".", 1)
    steps, whole = [], getattr(importlib.import_module(room), name)

    def cut(*args: Any, **more: Any) -> Any:
        steps.append(args)
        if len(steps) == nth:
            raise Cut
        return whole(*args, **more)

    monkeypatch.setattr(step, cut)
    with contextlib.suppress(Cut):
        Retriever(encoder="hash").fit(corpus_of(*other_texts)).save(tmp_path)
    monkeypatch.undo()
    if len(steps) == nth:
        assert Retriever.load(tmp_path, corpus_of(*ROWS)).search(QUERIES, as_of=DAY).equals(expected)
    again = Retriever(encoder="hash").fit(corpus_of(*other_texts))
    again.save(tmp_path)
    loaded = Retriever.load(tmp_path, corpus_of(*other_texts))
    assert loaded.search(QUERIES, as_of=DAY).equals(again.search(QUERIES, as_of=DAY))
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


def test_two_retrievers_of_one_corpus_each_answer_save_and_load_their_own(tmp_path: Path) -> None:
    rows = ["\n".join(f"слово{i} соединений" for i in range(60)), *ROWS]
    corpus = table_of(*rows)
    fine, coarse = (
        Retriever(encoder="hash", index=mk.Index(chunk_tokens=n, overlap_tokens=0)).fit(corpus) for n in (40, 400)
    )
    assert fine.chunks_.num_rows > coarse.chunks_.num_rows
    assert "chunks" not in corpus.tables
    corpus.save(tmp_path / "plain")
    assert not (tmp_path / "plain" / "vectors").exists()
    for name, search in (("fine", fine), ("coarse", coarse)):
        alone = Retriever(**search.get_params()).fit(table_of(*rows)).trace(QUERIES, as_of=DAY)
        assert search.trace(QUERIES, as_of=DAY).equals(alone)
        search.save(tmp_path / name)
        assert Retriever.load(tmp_path / name, table_of(*rows)).trace(QUERIES, as_of=DAY).equals(alone)
        query = "select count(*) from chunks join memories using (memory_id)"
        assert search.corpus_.sql(query).fetchall() == [(search.chunks_.num_rows,)]
        search.corpus_.save(tmp_path / f"lake {name}")
        opened = mk.open(tmp_path / f"lake {name}")
        assert opened.tables["chunks"].equals(search.chunks_)
        assert saved_arm(Retriever(**search.get_params()).fit(opened)._index(), "vector") is not None


def test_a_damaged_arm_is_refused(corpus_of: Any, tmp_path: Path) -> None:
    Retriever(encoder="hash").fit(corpus_of(*ROWS)).save(tmp_path)
    vectors = next(tmp_path.glob("saved-*/vector/*.npy"))
    vectors.write_bytes(vectors.read_bytes()[:-4])
    with pytest.raises(StaleIndexError, match="not the file that was saved"):
        Retriever.load(tmp_path, corpus_of(*ROWS))


def test_only_what_was_fitted_can_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="expected fit"):
        Retriever().save(tmp_path)


def table_of(*rows: str) -> mk.Corpus:
    return mk.from_table({"text": rows})


def encoded(search: Retriever) -> int:
    return int(search.arms_["vector"].cache_.encoded)


def test_a_saved_corpus_keeps_the_arms_and_a_fit_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Retriever(encoder="hash").fit(table_of(*ROWS, " ", ROWS[0]))
    search.corpus_.save(tmp_path)
    arms = ["bm25", "gram", "vector"]
    assert sorted(path.name for path in tmp_path.glob("saved-*/vectors/saved-*/*") if path.is_dir()) == arms
    expected, before = search.search(QUERIES, as_of=DAY), encoded(search)
    own, others = mk.open(tmp_path, trust=True), mk.open(tmp_path)
    assert Retriever(encoder="hash").fit(others).search(QUERIES, as_of=DAY).equals(expected)
    monkeypatch.setattr(index, "make_chunks", None)  # nor are texts of one's own cut anew, or terms added up
    monkeypatch.setattr("memkit.index.postings.Postings.sums", None)
    again = Retriever(encoder="hash").fit(own)
    assert again.search(QUERIES, as_of=DAY).equals(expected)
    assert (encoded(again), repr(again.index_.rows)) == (before, repr(search.index_.rows))
    table_of("кот").save(tmp_path)  # as another process may, so that the chunks are of others
    for corpus, size in ((others, 100), (mk.open(tmp_path, trust=True), 100), (own, 99), (own, 100)):
        with pytest.raises(TypeError, match="not callable"):
            Retriever(encoder="hash", index__chunk_tokens=size).fit(corpus)


def test_whose_memories_are_is_asked_anew_where_another_memkit_saved_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_files(tmp_path / "in", {"Анна.md": "пьёт чай\n", "Павел.md": "пьёт чай\n"})
    whose = Owners.of
    with monkeypatch.context() as former:  # which told no titles apart
        former.setattr(index, "stamp", lambda: "of a former memkit")
        former.setattr(Owners, "of", lambda memories: whose(memories.select(["text"])))
        search = Retriever(encoder=None).fit(mk.read(folder))
        assert len({*search.index_.rows.twin.tolist()}) == 1
        search.corpus_.save(tmp_path / "lake")
    again = Retriever(encoder=None).fit(mk.open(tmp_path / "lake", trust=True))
    assert again.search("чай").num_rows == 2


def test_an_arm_without_weight_is_not_loaded_from_there_either(tmp_path: Path) -> None:
    Retriever(encoder="hash").fit(table_of(*ROWS)).corpus_.save(tmp_path)
    search = Retriever(encoder="hash", vector_weight=0.0).fit(mk.open(tmp_path))
    assert list(search.arms_) == ["bm25", "gram"]
    before = encoded(Retriever(encoder="hash").fit(table_of(*ROWS)))
    later = search.with_params(vector_weight=0.5)
    assert len(later.search(QUERIES, as_of=DAY))
    assert encoded(later) == before


@pytest.mark.parametrize(
    "change", [{"index__chunk_tokens": 5, "index__overlap_tokens": 0}, {"index__lexical": "char"}, {"encoder": "lsa"}]
)
def test_arms_of_other_settings_are_made_anew(tmp_path: Path, change: dict[str, object]) -> None:
    Retriever(encoder="hash").fit(table_of(*ROWS)).corpus_.save(tmp_path)
    values = {"encoder": "hash", **change}
    expected = Retriever(**values).fit(table_of(*ROWS)).search(QUERIES, as_of=DAY)
    assert Retriever(**values).fit(mk.open(tmp_path)).search(QUERIES, as_of=DAY).equals(expected)


@pytest.mark.parametrize("spoil", ["other memories", "damaged", "no manifest"])
def test_kept_arms_that_do_not_fit_are_never_answered_from(tmp_path: Path, spoil: str) -> None:
    Retriever(encoder="hash").fit(table_of(*ROWS)).corpus_.save(tmp_path)
    if spoil == "other memories":
        table_of("совсем другое", "кот").save(tmp_path)
    elif spoil == "damaged":
        vectors = next(tmp_path.glob("saved-*/vectors/saved-*/vector/*.npy"))
        vectors.write_bytes(vectors.read_bytes()[:-4])
    else:
        next(tmp_path.glob(f"saved-*/vectors/saved-*/{MANIFEST}")).unlink()
    opened = mk.open(tmp_path)
    texts = opened.memories["text"].to_pylist()
    expected = Retriever(encoder="hash").fit(table_of(*texts)).search(QUERIES, as_of=DAY)
    assert Retriever(encoder="hash").fit(opened).search(QUERIES, as_of=DAY).equals(expected)


def test_after_loading_only_new_texts_are_encoded(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {f"notes/{n}.md": f"# {n}\n{text}\n" for n, text in enumerate(ROWS)})
    corpus = mk.read(folder)
    Retriever(encoder=HashEncoder()).fit(corpus).save(tmp_path / "kept")
    shared_cache.cache_clear()
    search = Retriever.load(tmp_path / "kept", corpus, encoder=HashEncoder(), trust=True)
    write_files(folder, {"notes/9.md": "# 9\nновая заметка\n"})
    search.refresh()
    assert encoded(search) == 1


def test_a_refresh_that_finds_nothing_new_keeps_the_arms_at_hand(tmp_path: Path) -> None:
    corpus = mk.read(
        write_files(tmp_path / "in", {f"notes/{n}.md": f"# note\n{text}\n" for n, text in enumerate(ROWS)})
    )
    Retriever(encoder="hash").fit(corpus).corpus_.refresh().save(tmp_path / "lake")
    shared_cache.cache_clear()
    search = Retriever(encoder="hash").fit(mk.open(tmp_path / "lake", trust=True).refresh())
    assert encoded(search) == 0


def test_a_fitted_retriever_says_how_it_is_kept_instead_of_pickled() -> None:
    search = Retriever(encoder="hash")
    assert pickle.dumps(search)
    with pytest.raises(MemkitError, match=r"Retriever.save"):
        pickle.dumps(search.fit(table_of(*ROWS)))
    assert copy.copy(search).search(QUERIES, as_of=DAY).equals(search.search(QUERIES, as_of=DAY))
