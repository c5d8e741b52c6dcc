"""The end of a memory: its names, its forms, and that a day goes back into a file as a day."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import memkit as mk
from memkit.base.plugins import EXPORTS
from memkit.change.export import LAYOUTS
from memkit.formats.spelling import ENDS
from memkit.tables.samples import write_files

DAY_END = datetime(2026, 9, 22, 23, 59, 59, 999_999, tzinfo=UTC)
INSTANT = datetime(2026, 9, 22, 8, 55, 46, tzinfo=UTC)


def page(front: str) -> str:
    return f"---\ntype: page\n{front}\n---\n# Чай\n\nПьёт зелёный чай по утрам.\n[Кофе](b.md)\n"


def ends(root: Path, fronts: dict[str, str]) -> tuple[dict[str, datetime | None], list[str]]:
    """The end of a page with each of some front matters, and which of them have a row of a date."""
    files = {f"wiki/{name}.md": page(front) for name, front in fronts.items()}
    corpus = mk.read(write_files(root, files | {"wiki/b.md": "# Кофе\n\nБез сахара.\n"}))
    found = {row["path"][5:-3]: row["expires_at"] for row in corpus.memories.to_pylist() if row["path"] != "wiki/b.md"}
    return found, [row["path"][5:-3] for row in corpus.problems.to_pylist() if row["rule"] == "bad_date"]


@pytest.mark.quick
def test_each_name_of_the_end_reaches_its_column_and_no_other_does(tmp_path: Path) -> None:
    spelled = {"действуетдо": "Действует до", "invalidat": "invalid_at", "validuntil": "valid-until"}
    others = ("deadline", "due", "review_by", "end_date", "срок", "valid_from", "valid_at")
    fronts = {name: f"{spelled.get(name, name)}: 2026-09-22" for name in ENDS}
    found, unread = ends(tmp_path, fronts | {name: f"{name}: 2026-09-22" for name in others})
    assert found == dict.fromkeys(ENDS, DAY_END) | dict.fromkeys(others)
    assert not unread


@pytest.mark.quick
def test_a_day_ends_with_the_day_and_a_time_is_an_instant_with_its_offset(tmp_path: Path) -> None:
    found, unread = ends(
        tmp_path,
        {
            "day": "expires_at: 2026-09-22",
            "week": "valid_until: 2026-W39",
            "zoned": "expires_at: 2026-09-22T11:55:46+03:00",
            "epoch": "expiry: 1790067346",
            "millis": "expires: 1790067346000",
            "midnight": "expires: 2026-09-23T00:00:00Z",
            "nested": "temporal: {valid_until: 2026-09-22T08:55:46Z}",
            "both": "invalid_at: 2026-09-22\nexpired_at: 2026-10-01T00:00:00Z",
            "first": "created: 2026-09-08\nttl: 14d",
            "second": "created: 2020-01-01\nupdated: 2026-09-22T06:55:46Z\nttl: PT2H",
            "seconds": "created: 2026-09-22T08:54:46Z\nttl_seconds: 60",
            "word": "created: 2026-08-22\nexpires: 1 month",
            "link": 'expires: "[[2026-09-22]]"',
            "named": "expires: [[дни/2026-09-22|вторник]]",
            "never": "expires: never\nttl: -1",
        },
    )
    assert found == {
        **dict.fromkeys(("day", "midnight", "both", "first", "word", "link", "named"), DAY_END),
        **dict.fromkeys(("zoned", "epoch", "millis", "nested", "second", "seconds"), INSTANT),
        "week": DAY_END.replace(day=27),
        "never": None,
    }
    assert not unread


@pytest.mark.quick
def test_an_end_that_cannot_be_read_is_a_row(tmp_path: Path) -> None:
    fronts = {
        "undated": "ttl: 14d",
        "unit": "created: 2026-03-01\nttl: 3m",
        "number": "created: 2026-03-01\nttl: 3600",
        "zone": "expires_at: 2026-09-22 10:00 CST",
        "far": "created: 2026-03-01\nttl: 999999999y",
        "words": "valid_until: the release",
    }
    found, unread = ends(tmp_path, fronts)
    assert found == dict.fromkeys(fronts)
    assert sorted(unread) == sorted(fronts)


@pytest.mark.outside
def test_records_graphs_and_notes_have_ends_under_the_same_names(tmp_path: Path) -> None:
    items = [
        {"memory": "Пьёт зелёный чай", "expiration_date": "2026-09-22"},
        {"memory": "Живёт в Туле", "metadata": {"invalid_at": "2026-09-22T08:55:46Z"}, "expired_at": "2026-01-01"},
        {"memory": "Работает удалённо", "expires_at": "soon"},
    ]
    entity = {"type": "entity", "name": "Анна", "entityType": "person", "valid_to": 1790067346, "observations": ["чай"]}
    id = "6f1e0c52-6f67-4f0b-9d6e-0d6f5f0f7a11"
    note = (
        f"---\nid: {id}\nsubject: s\nkeywords: [a]\napplies_to: global\ncreated_at: 2026-01-01T00:00:00Z\n"
        "updated_at: 2026-01-01T00:00:00Z\nexpires_at: 2026-09-22\n---\nтело заметки\n"
    )
    files = {"mem.json": json.dumps(items), "memory.jsonl": json.dumps(entity) + "\n", f"notes/{id}.md": note}
    corpus = mk.read(write_files(tmp_path, files))
    found = {row["text"].strip(): row["expires_at"] for row in corpus.memories.to_pylist()}
    assert found == {
        "Пьёт зелёный чай": DAY_END,
        "Живёт в Туле": INSTANT,
        "Работает удалённо": None,
        "чай": INSTANT,
        "тело заметки": DAY_END,
    }
    assert [row["field"] for row in corpus.problems.to_pylist() if row["rule"] == "bad_date"] == ["expires_at"]


def test_the_entries_of_an_index_and_the_files_that_they_name_have_ends(tmp_path: Path) -> None:
    said = {"a": {"valid_until": "2026-09-22"}, "b": {"ttl": "14d"}, "c": {"expires": "soon"}, "d": {}}
    usual = {"tags": ["чай"], "priority": "high", "version": "1.0", "updated": "2026-09-08"}
    entries = [{"title": name, "file": f"{name}.md", **usual, **end} for name, end in said.items()]
    files = {f"x/{name}.md": page("expiry: 2026-09-22T08:55:46Z" if name == "d" else "a: b") for name in said}
    index = json.dumps({"type": "index-branch", "category": "x", "files": entries})
    corpus = mk.read(write_files(tmp_path / "in", files | {"x/index.json": index}))
    found = {row["title"]: row["expires_at"] for row in corpus.memories.to_pylist()}
    assert found == {"a": DAY_END, "b": DAY_END, "c": None, "d": INSTANT}
    assert [row["field"] for row in corpus.problems.to_pylist() if row["rule"] == "bad_date"] == ["expires"]
    mk.export(corpus, tmp_path / "out", "notes", as_of="2026-03-01").apply()
    again = mk.read(tmp_path / "out").memories["expires_at"].to_pylist()
    assert sorted(filter(None, again)) == [INSTANT, DAY_END, DAY_END]


@pytest.mark.parametrize("layout", [*LAYOUTS, *EXPORTS.names()])
def test_a_day_goes_back_into_a_file_as_a_day_and_a_time_as_a_time(tmp_path: Path, layout: str) -> None:
    texts = ["Пьёт зелёный чай по утрам", "Живёт в городе Туле"]
    rows = {"text": texts, "title": ["Чай", "Тула"], "expires_at": ["2026-09-22", "2026-09-22T08:55:46Z"]}
    planned = mk.export(mk.from_table(rows), tmp_path / "out", layout, user_id="anna", as_of="2026-03-01")
    written = "".join(planned.files.values())
    assert "2026-09-22" in written
    assert "23:59" not in written
    planned.apply()
    found = {row["text"].strip(): row["expires_at"] for row in mk.read(tmp_path / "out").memories.to_pylist()}
    assert found[texts[0]] == DAY_END
    assert found[texts[1]] == (DAY_END if layout == "facts" else INSTANT)  # a fact has whole days


def test_a_store_writes_a_day_and_says_it_back(tmp_path: Path) -> None:
    store = mk.store(tmp_path).facts
    meta = {"type": "working", "expires_at": "2026-09-22"}
    saved = store.save("anna", "Сейчас чинит кран на кухне", meta, now="2026-09-01")
    assert "[exp:2026-09-22]" in (tmp_path / "users/anna/working.md").read_text(encoding="utf-8")
    assert str(saved.expires_at) == "2026-09-22"
    assert store.read("anna", as_of="2026-09-22")["expires_at"].to_pylist() == [DAY_END]
    assert store.read("anna", as_of="2026-09-23").num_rows == 0
