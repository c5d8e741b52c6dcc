"""The documents' own operations: each names its document and section; each is one step that can be shown and undone."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memkit as mk
from memkit.change.facts import FactStore, Saved
from memkit.change.users import Parsed
from memkit.errors import ChangeRefusedError, FormatError, NotFoundError, ParameterError, PolicyRefusal
from memkit.index.cache import FILE, FOLDER
from memkit.index.encoders.base import ROLES, content_key
from tests.folders import tree

NOW = "2026-03-01T10:00:00"


@pytest.fixture
def facts(tmp_path: Path) -> FactStore:
    return mk.store(tmp_path).facts


def meta(root: Path, user: str = "anna") -> dict[str, Any]:
    counters: dict[str, Any] = json.loads((root / f"users/{user}/meta.json").read_text())
    return counters


@pytest.mark.quick
def test_a_link_beside_the_users_is_left_alone_and_bars_nothing(tmp_path: Path) -> None:
    root = mk.testing.write_files(tmp_path / "root", {"memory/2026-01-01.md": "чай\n", "out.md": "- кофе\n"})
    (root / "memory/anna.md").symlink_to(root / "out.md")
    saved = mk.store(root).facts.save("boris", "Меня зовут Борис, я из Омска.", now=NOW)
    assert isinstance(saved, Saved)
    assert (saved.id, (root / "out.md").read_text()) == ("pf_001", "- кофе\n")


def test_what_means_the_same_is_refused_and_what_differs_in_a_number_is_not(tmp_path: Path) -> None:
    """Memory v2, semantic dedup at 0.9, among more texts than the mean is taken off of."""
    chance = np.random.default_rng(0)
    vectors: dict[str, Any] = {}

    def encode(texts: list[str]) -> Any:
        for text in texts:
            vectors.setdefault(text, chance.normal(size=32))
        return np.array([vectors[text] for text in texts])

    lines = [f"- [id:ar_{n:03d}] [t:archive] [imp:low] Обсуждали предмет {n} подробно.\n" for n in range(1, 61)]
    mk.testing.write_files(tmp_path, {"users/anna/archive.md": "".join(lines)})
    facts = mk.store(tmp_path, encoder=encode).facts
    encode(["Обсуждали предмет 7 подробно."])
    for paraphrase in ("Говорили про тему 7 детально.", "Говорили про тему 8 детально."):
        vectors[paraphrase] = vectors["Обсуждали предмет 7 подробно."] + 0.01
    with pytest.raises(PolicyRefusal, match="ar_007 says it already") as caught:
        facts.save("anna", "Говорили про тему 7 детально.", now=NOW)
    assert caught.value.reason == "semantic_duplicate"
    saved = facts.save("anna", "Говорили про тему 8 детально.", now=NOW)
    assert isinstance(saved, Saved)
    assert saved.id == "ar_061"


def test_what_others_write_beside_a_store_is_seen(facts: FactStore, tmp_path: Path) -> None:
    """The store keeps what it read; a file that grew, shrank or says another thing is read again."""
    facts.save("anna", "Обсуждали погоду на море.", now=NOW)
    path = tmp_path / "users/anna/archive.md"
    first = path.read_text()
    path.write_text(f"{first}- [id:ar_009] [t:archive] [imp:low] Обсуждали музыку барокко.\nпросто строка\n")
    with pytest.raises(PolicyRefusal, match="ar_009 says it already"):
        facts.save("anna", "обсуждали МУЗЫКУ барокко.", now=NOW)
    assert facts.read("anna", as_of=NOW)["line"].to_pylist() == [1, 2]
    path.write_text(f"{first}- [id:ar_001] [t:archive] [imp:low] Обсуждали театр кукол.\n")
    fresh = mk.store(tmp_path).facts.read("anna", as_of=NOW).to_pylist()
    assert facts.read("anna", as_of=NOW).to_pylist() == fresh
    path.write_text("")
    assert facts.read("anna", as_of=NOW).num_rows == 0
    saved = facts.save("anna", "Обсуждали погоду на море.", now=NOW)
    assert isinstance(saved, Saved)
    assert saved.id == "ar_002"


def test_limits_refuse_and_evict(facts: FactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory v2, limits: profile has its own; over the total archive facts go, low first, oldest first."""
    quota = {"max_facts": 4, "max_profile": 1}
    monkeypatch.setattr("memkit.change.facts._POLICY_PARAMS", {**mk.presets.POLICY["memory_v2"], "quota": quota})
    for day, text in enumerate(["Обсуждали погоду.", "Обсуждали музыку.", "Обсуждали кино.", "Меня зовут Анна."], 1):
        facts.save("anna", text, now=f"2026-01-0{day}")
    with pytest.raises(PolicyRefusal) as caught:
        facts.save("anna", "Предпочитает письма звонкам.", now="2026-01-05")
    assert caught.value.reason == "limit"
    saved = facts.save("anna", "Сейчас чиним пул соединений.", now="2026-01-06")
    assert isinstance(saved, Saved)
    assert saved.evicted == ("ar_001",)
    assert meta(tmp_path)["archiveCount"] == 2
    assert "погоду" not in (tmp_path / "users/anna/archive.md").read_text()
    mk.undo(tmp_path)
    assert "погоду" in (tmp_path / "users/anna/archive.md").read_text()


def test_an_id_is_never_given_twice(facts: FactStore, tmp_path: Path) -> None:
    facts.save("anna", "Обсуждали погоду на море.", now=NOW)
    facts.forget("anna", "ar_001", now=NOW)
    saved = facts.save("anna", "Обсуждали музыку барокко.", now=NOW)
    assert isinstance(saved, Saved)
    assert saved.id == "ar_002"
    mk.testing.write_files(
        tmp_path, {"users/boris/archive.md": "- [id:ar_120] [t:archive] [imp:low] Обсуждали структуру."}
    )
    saved = facts.save("boris", "Обсуждали музыку барокко.", now=NOW)
    assert isinstance(saved, Saved)
    assert saved.id == "ar_121"
    lines = (tmp_path / "users/boris/archive.md").read_text().split("\n")
    assert lines[0] == "- [id:ar_120] [t:archive] [imp:low] Обсуждали структуру."
    assert lines[1].startswith("- [id:ar_121]")


def test_a_file_that_is_no_utf8_is_read_and_holds_up_no_other(facts: FactStore, tmp_path: Path) -> None:
    line = "- [id:{id}] [t:{kind}] [imp:normal] {text}\n"
    files = {
        "users/win/archive.md": line.format(id="ar_001", kind="archive", text="Сканер на складе.").encode("utf-16"),
        "users/old/working.md": b"\xcf\xf3\xeb\n" + line.format(id="wk_001", kind="working", text="cup").encode(),
        "memory/2026-03-01.md": "# День\nЗаписали чай.\n".encode("utf-16"),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    facts.save("anna", "Сейчас чиним пул соединений.", now=NOW)
    assert facts.read("win", as_of=NOW)["text"].to_pylist() == ["Сканер на складе."]
    assert facts.search("win", "сканер", as_of=NOW)["source_id"].to_pylist() == ["ar_001"]
    assert "Сканер на складе." in facts.blocks("win", "сканер", as_of=NOW)
    assert "Записали чай." in mk.store(tmp_path).workspace.get_recent_context(1, as_of=NOW)
    with pytest.raises(ChangeRefusedError, match="Save it as UTF-8 first"):
        facts.save("win", "Принтер стоит в коридоре.", now=NOW)
    edits = facts.cleanup(now="2026-04-01", dry_run=True)
    assert isinstance(edits, mk.Edits)
    assert edits.refused["path"].to_pylist() == ["users/old", "users/win"]
    assert facts.cleanup(now="2026-04-01") == ["wk_001"]
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    with pytest.raises(ChangeRefusedError, match="no UTF-8"):
        facts.cleanup("win", now="2026-04-01")


def test_a_link_holds_up_no_other_user_and_is_told_once(facts: FactStore, tmp_path: Path) -> None:
    for user in ("anna", "boris"):
        facts.save(user, "Сейчас чиним пул соединений.", now=NOW)
    for name in ("anna.md", "vera.md", "users/win"):
        (tmp_path / name).symlink_to("/nowhere")
    edits = facts.cleanup(now="2026-04-01", dry_run=True)
    assert isinstance(edits, mk.Edits)
    assert edits.refused["reason"].to_pylist() == [
        "anna.md: it is a link, and links are not followed.",
        "vera.md: it is a link, and links are not followed.",
        "users/win/profile.md: users/win is a link, and links are not followed.",
    ]
    assert facts.cleanup(now="2026-04-01") == ["wk_001"], "of boris: anna has a file that is not read"
    assert "пул" in (tmp_path / "users/anna/working.md").read_text()
    assert "пул" not in (tmp_path / "users/boris/working.md").read_text()


def test_an_id_that_two_facts_have_changes_neither(facts: FactStore, tmp_path: Path) -> None:
    path = tmp_path / "users/anna/archive.md"
    path.parent.mkdir(parents=True)
    path.write_text("- [id:ar_001] [t:archive] [imp:low] чай\n- [id:ar_001] [t:archive] [imp:low] кофе\n")
    before = tree(tmp_path)
    with pytest.raises(ChangeRefusedError, match=r"2 facts have the id ar_001: .*archive.md:1 and .*archive.md:2"):
        facts.forget("anna", "ar_001", now=NOW)
    with pytest.raises(ChangeRefusedError, match="2 facts have the id ar_001"):
        facts.update("anna", query="кофе", text="Анна пьёт кофе по утрам.", confirm=True, now=NOW)
    assert tree(tmp_path) == before


def test_an_unknown_id_names_those_near_it(facts: FactStore) -> None:
    facts.save("anna", "Обсуждали структуру памяти.", now=NOW)
    for call in (lambda: facts.forget("anna", "ar_01"), lambda: facts.get("anna", ["ar_01"])):
        with pytest.raises(NotFoundError, match=r"no fact 'ar_01'. Near it: ar_001"):
            call()


@pytest.mark.parametrize("user", ["", "..", "../anna", "a/b", ".hidden", "анна", "a b", "a\x00"])
def test_a_user_is_the_name_of_a_folder(user: str, facts: FactStore) -> None:
    with pytest.raises(ParameterError, match="user: expected letters"):
        facts.save(user, "Обсуждали структуру памяти.")


def holding(word: str, *places: Path) -> set[str]:
    """The files below some folders that hold a word: as bytes, or within the columns of Parquet."""
    names = set()
    for path in (path for place in places for path in place.rglob("*") if path.is_file()):
        parts = [path.read_bytes()]
        if path.suffix == ".parquet":
            parts.append(str(pq.read_table(path, partitioning=None).to_pylist()).encode())
        if any(word.encode() in part for part in parts):
            names.add(path.name)
    return names


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """The process's cache of vectors, elsewhere for a while."""
    shared = mk.vector_cache()
    folder, moved = shared._folder, shared.moved  # type: ignore[attr-defined]  # put back as it was
    yield mk.vector_cache(tmp_path / "cache").folder or tmp_path
    shared.clear()
    shared._folder, shared.moved, shared._shards = folder, moved, {}  # type: ignore[attr-defined]


class Chance:
    """An encoder whose vectors are kept; no two texts are near."""

    dim, fingerprint = 64, "chance-1"

    def get_config(self) -> dict[str, Any]:
        return {}

    def encode_query(self, texts: list[str]) -> Any:
        return np.array([np.random.default_rng(crc32(text.encode())).normal(size=self.dim) for text in texts])

    encode_document = encode_query


def test_forgetting_is_real_once_the_journal_is_cleared(cache: Path, tmp_path: Path) -> None:
    """No byte of the text, no row of its hash, no neighbour: under the root, in the lake, in the cache."""
    text, word = "Обсуждали тайное слово кукумбер.", "кукумбер"
    (root := tmp_path / "root").mkdir()
    facts = mk.store(root, encoder=Chance()).facts
    facts.save("anna", "Обсуждали погоду на море.", now=NOW)
    facts.save("anna", text, now=NOW)
    facts.save("anna", "Слушали оперу весной.", now=NOW)
    corpus, lake = mk.read(root), tmp_path / "lake"
    search = mk.Retriever(encoder=Chance()).fit(corpus)
    assert word in search.search(word, k=1)["text"][0].as_py()
    search.corpus_.save(lake)
    keys = {
        content_key(encoded, role) for encoded in (text, *search.chunks_["text"].to_pylist()[1:2]) for role in ROLES
    }
    assert keys & keys_in(cache)
    assert "bm25_terms.parquet" in holding(word, *lake.glob("saved-*/vectors"))

    facts.forget("anna", "ar_002", now=NOW)
    assert not keys & keys_in(cache)
    assert {name.rpartition(".")[2] for name in holding(word, root)} == {"done"}
    searched = search.refresh()
    assert word not in str(searched.trace(word).to_pylist())
    mk.undo(root, clear=True, lake=lake)
    assert holding(word, root, lake, cache) == set()
    assert not keys & keys_in(cache)
    assert facts.read("anna", as_of=NOW)["id"].to_pylist() == ["ar_001", "ar_003"]
    assert word not in facts.blocks("anna", "тайное слово", as_of=NOW)
    assert mk.open(lake, source=root).memories["text"].to_pylist() == mk.read(root).memories["text"].to_pylist()


class Counting(Chance):
    """Says how many texts it was asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def encode_query(self, texts: list[str]) -> Any:
        self.asked += len(texts)
        return super().encode_query(texts)

    encode_document = encode_query


def begin_anew() -> None:
    """As a new process does: what vectors there are lie on the disk."""
    shared = mk.vector_cache()
    shared._memory.clear()  # type: ignore[attr-defined]  # what a process has, and another has not
    shared._bytes, shared._shards = 0, {}  # type: ignore[attr-defined]


def test_a_fresh_store_encodes_only_what_is_new_and_forgets_for_all(cache: Path, tmp_path: Path) -> None:
    """Memory v2, memory_forget: the vectors of a store stand in the user's cache, by their texts."""
    (root := tmp_path / "root").mkdir()
    texts = [f"Обсуждали {topic} долго." for topic in ("погоду", "оперу", "футбол", "кино", "ремонт", "рыбалку")]
    encoder = Counting()
    facts = mk.store(root, encoder=encoder).facts
    for text in texts:
        facts.save("anna", text, now=NOW)
    assert facts.search("anna", "опера", k=1, as_of=NOW).num_rows == 1
    in_all = encoder.asked
    begin_anew()
    encoder.asked = 0
    fresh = mk.store(root, encoder=encoder).facts
    fresh.save("anna", "Слушали джаз вчера.", now=NOW)
    assert encoder.asked == 1  # of seven texts
    fresh.search("anna", "опера", k=1, as_of=NOW)
    assert encoder.asked <= 3 < in_all  # the new one as a document, and the question

    wanted = {content_key(texts[1], role) for role in ROLES}
    assert wanted & keys_in(cache)
    fresh.forget("anna", "ar_002", now=NOW)
    begin_anew()
    assert not wanted & keys_in(cache)
    encoder.asked = 0
    last = mk.store(root, encoder=encoder).facts
    last.save("anna", "Смотрели балет зимой.", now=NOW)
    assert encoder.asked == 1
    last.update("anna", "ar_003", text="Обсуждали хоккей долго.", now=NOW)
    assert not {content_key(texts[2], role) for role in ROLES} & keys_in(cache)
    last.save("anna", texts[1], now=NOW)  # said again, it is encoded again
    assert encoder.asked == 3


def keys_in(cache: Path) -> set[bytes]:
    with contextlib.closing(sqlite3.connect(cache / FOLDER / FILE)) as con:
        return {key for (key,) in con.execute("select key from vectors")}


def test_what_was_migrated_is_forgotten_in_the_old_file_too(tmp_path: Path) -> None:
    root = mk.testing.write_files(
        tmp_path, {"memory/users/x/profile.md": "", "memory/boris.md": "- Пьёт чай\n- Пьёт мёд\n"}
    )
    facts = mk.store(root).facts
    facts.migrate_user("boris", now=NOW)
    facts.forget("boris", facts.read("boris", as_of=NOW)["id"][0].as_py(), now=NOW)
    assert (root / "memory/boris.md.bak").read_text() == "- Пьёт мёд\n"
    mk.undo(root, clear=True)
    assert holding("Пьёт чай", root) == set()


def test_a_lake_is_cleared_of_its_own_folder_alone(tmp_path: Path, facts: FactStore) -> None:
    facts.save("anna", "Обсуждали погоду на море.", now=NOW)
    other = mk.testing.write_files(tmp_path / "other", {"MEMORY.md": "# Чай\n"})
    mk.read(other).save(tmp_path / "lake")
    for options in ({"lake": tmp_path / "lake", "clear": True}, {"lake": tmp_path / "lake"}):
        with pytest.raises(ParameterError, match="lake"):
            mk.undo(tmp_path, **options)
    mk.undo(tmp_path)


def test_two_processes_lose_no_fact_give_no_id_twice_and_keep_what_one_would(script: Any) -> None:
    """Memory v2, limits: as many as six facts a user, so that some are refused and others evicted; a third reads."""
    check = script("audit/two_writers.py").check
    assert check(saves=15, users=2, seed=0, limit=4, in_order=True, encoder="") == []


# --- notes -------------------------------------------------------------------------------------------------------


def test_a_note_of_others_keeps_every_other_byte(tmp_path: Path) -> None:
    id = "6ba7b811-9dad-11d1-80b4-00c04fd430c8"
    text = f"\ufeff---\r\nid: {id}\r\nsubject:   'Чай'  # да\r\nkeywords: [a,  b]\r\napplies_to: global\r\n"
    text += "created_at: 2026-01-01\r\nupdated_at: '2026-01-01'\r\nx: 1.10\r\n---\r\n\r\n# Чай\r\nбез конца и края"
    mk.testing.write_files(tmp_path, {"a/b.md": text})
    mk.store(tmp_path).notes.update(id, subject="Мёд", now=NOW)
    assert tree(tmp_path)["a/b.md"].decode() == text.replace("'Чай'", "'Мёд'").replace(
        "updated_at: '2026-01-01'", "updated_at: '2026-03-01T10:00:00Z'"
    )


FACT = {"fact_id": "a", "content": "b", "category": "c", "confidence": 0.5, "relations": [], "format_version": "1.0.0"}


def test_a_dry_run_writes_nothing_at_all(tmp_path: Path) -> None:
    memory = mk.store(tmp_path)
    edits = memory.facts.save("anna", "Обсуждали структуру памяти.", now=NOW, dry_run=True)
    assert isinstance(edits, mk.Edits)
    assert edits.table["op"].to_pylist() == ["create", "create"]
    assert isinstance(memory.notes.create("Чай", ["чай"], "global", "# Чай\n\nБез сахара.", dry_run=True), mk.Edits)
    assert isinstance(memory.records.put(FACT, dry_run=True), mk.Edits)
    assert list(tmp_path.iterdir()) == []


def test_a_store_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="expected a folder"):
        mk.store(tmp_path / "none")


LINES = (
    "",
    "\r",
    "  ",
    "просто строка",
    "# Заголовок",
    "\ufeff",
    "- [t:archive] [imp:low] без номера",
    "- [id:] [t:archive] пустой номер",
    "- [id:ar_007] [t:working] [imp:low] #ar_007",
    *(f"- [id:ar_{number:03d}] [t:archive] [imp:low] Текст {number % 3}" for number in range(12)),
)


@given(edits=st.lists(st.tuples(st.sampled_from("+++-="), st.integers(0, 20), st.sampled_from(LINES)), max_size=25))
def test_a_fact_file_that_is_followed_reads_as_one_that_is_read_whole(edits: list[tuple[str, int, str]]) -> None:
    lines: list[str] = []
    before = None
    for operation, position, line in edits:
        place = min(position, len(lines))
        lines[place : place + (operation != "+")] = [line] * (operation != "-")
        text = "\n".join(lines)
        before = Parsed.from_text("users/u/archive.md", text, before)
        assert before == Parsed.from_text("users/u/archive.md", text)


BROKEN = "плохой \udcff байт в тексте"
CALLS: dict[str, Any] = {
    "save": lambda store, text: store.facts.save("anna", text),
    "update": lambda store, text: store.facts.update("anna", "ar_001", text=text),
    "find": lambda store, text: store.facts.search("anna", text),
    "forget": lambda store, text: store.facts.forget("anna", text),
    "note": lambda store, text: store.notes.create("Тема", ["чай"], "global", text),
    "change": lambda store, text: store.notes.update(text, subject="x"),
    "record": lambda store, text: store.records.record_use(text, True),
    "category": lambda store, text: store.index.add_category(text),
    "memory": lambda store, text: store.workspace.append_to_memory(text),
    "log": lambda store, text: store.workspace.append_to_daily_log(text),
    "session": lambda store, text: store.workspace.save_session("a", text),
    "turn": lambda store, text: store.workspace.append_to_session("a", "user", text),
    "role": lambda store, text: store.workspace.append_to_session("a", text, "Привет."),
}


def test_what_is_no_text_is_refused_by_every_operation_and_nothing_is_written(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    store = mk.store(tmp_path)
    store.facts.save("anna", "Обсуждали погоду на море.", now=NOW)
    before = tree(tmp_path)
    for call, text in itertools.product(CALLS, [BROKEN, "", " \n", None, 5]):
        if call in ("find", "forget", "category", "record", "change") and text is not BROKEN:
            continue  # an id or a question, which are looked up
        with subtests.test(call, text=ascii(text)):
            with pytest.raises(mk.MemkitError):
                CALLS[call](store, text)
            assert tree(tmp_path) == before


def test_a_file_that_would_be_read_no_more_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.change.edits.MAX_FILE_BYTES", 100)
    store = mk.store(tmp_path, encoder=None)
    with pytest.raises(ChangeRefusedError, match=r"MEMORY.md: it would have .* more than the 100 .* Split it first"):
        store.workspace.append_to_memory("чай " * 50)
