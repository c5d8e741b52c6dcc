"""The difference of two corpora, by memory: what stayed is not in it, and every other memory is there once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.tables.identity import Known, matches

KEY = "sk-abcdefghijklmnopqrstuvwxyz0123456789"


def read(place: Path, **files: str) -> mk.Corpus:
    return mk.read(mk.testing.write_files(place, {f"{name}.md": text for name, text in files.items()}))


def changes(difference: object) -> list[tuple[str, str | None, str]]:
    rows = difference.table.to_pylist()
    return [(row["change"], row["memory_id_before"], row["memory_id"]) for row in rows]


@pytest.mark.quick
def test_a_corpus_does_not_differ_from_itself(sample: mk.Corpus) -> None:
    assert len(mk.diff(sample, sample)) == 0
    assert mk.diff(sample, sample).diff() == ""


@pytest.mark.quick
def test_each_way_to_change_has_its_word(tmp_path: Path) -> None:
    body = "Десять соединений на сервер, не больше"
    before = read(
        tmp_path / "a", MEMORY=f"# Пул\n{body}\n\n# Чай\nзелёный\n\n# Кот\nрыжий\n", b="# Дом\nкирпичный и тёплый\n"
    )
    after = read(
        tmp_path / "b",
        MEMORY=f"# Пул базы\n{body} пяти\n\n# Чай\nчёрный\n",
        c="# Дом\nкирпичный и тёплый\n",
        d="# Лес\n",
    )
    assert changes(mk.diff(before, after)) == [
        ("removed", "workspace:MEMORY.md#кот", "workspace:MEMORY.md#кот"),
        ("changed", "workspace:MEMORY.md#пул", "workspace:MEMORY.md#пул-базы"),
        ("changed", "workspace:MEMORY.md#чай", "workspace:MEMORY.md#чай"),
        ("moved", "workspace:b.md#дом", "workspace:c.md#дом"),
        ("added", None, "workspace:d.md#лес"),
    ]


@pytest.mark.quick
def test_lines_that_shift_are_no_change_and_equal_titles_stay_apart(tmp_path: Path) -> None:
    day = "## 10:00\nпервое дело дня\n\n## 10:00\nвторое, совсем другое\n"
    before, after = read(tmp_path / "a", log=day), read(tmp_path / "b", log=f"# Новое\nсверху\n\n{day}")
    assert changes(mk.diff(before, after)) == [("added", None, "workspace:log.md#новое")]
    edited = read(tmp_path / "c", log=day.replace("другое", "иное"))
    (row,) = mk.diff(before, edited).table.to_pylist()
    assert (row["change"], row["words_removed"], row["words_added"]) == ("changed", ["другое"], ["иное"])


@pytest.mark.outside
def test_two_revisions_differ_by_what_was_committed_between_them(tmp_path: Path) -> None:
    states = [("2026-01-01", {"a.md": "# Чай\nзелёный\n"}), ("2026-01-05", {"a.md": "# Чай\nчёрный\n"})]
    root = mk.testing.write_commits(tmp_path, states)
    before, after = mk.read(root, rev="2026-01-02"), mk.read(root, rev="HEAD")
    table = mk.diff(before, after).table
    assert table.select(["change", "words_removed", "words_added"]).to_pylist() == [
        {"change": "changed", "words_removed": ["зелёный"], "words_added": ["чёрный"]}
    ]
    revisions = {key: json.loads(table.schema.metadata[key.encode()]) for key in ("before", "after")}
    assert revisions == {"before": before.revision, "after": after.revision}
    assert mk.diff(after, mk.read(root)).table.num_rows == 0


def test_what_a_policy_does_is_what_differs_afterwards(tmp_path: Path) -> None:
    text = "- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Чинит\n- [id:wk_2] [t:working] [imp:high] Чай\n"
    root = mk.testing.write_files(tmp_path, {"users/anna/working.md": text})
    before = mk.read(root)
    mk.plan(before, mk.Expiry(), as_of="2026-03-01").apply(force=True)
    assert [row[0] for row in changes(mk.diff(before, before.refresh()))] == ["removed"]
    mk.undo(root)
    assert len(mk.diff(before, before.refresh())) == 0


def test_a_change_of_a_field_alone_names_the_field() -> None:
    tables = [{"memory_id": ["a"], "text": ["чай"], "importance": [word]} for word in ("low", "high")]
    (row,) = mk.diff(*map(mk.from_table, tables)).table.to_pylist()
    assert (row["change"], row["fields"], row["words_added"]) == ("changed", ["importance"], [])


def test_own_ids_that_go_to_another_file_are_moved(tmp_path: Path) -> None:
    fact = "- [id:wk_1] [t:{}] [imp:high] {}\n"
    before = mk.testing.write_files(tmp_path / "a", {"users/u/working.md": fact.format("working", "Чинит бота")})
    after = mk.testing.write_files(tmp_path / "b", {"users/u/archive.md": fact.format("archive", "Починил")})
    assert [row[0] for row in changes(mk.diff(mk.read(before), mk.read(after)))] == ["moved"]


def test_secrets_are_masked_in_the_picture_and_kept_in_the_table(tmp_path: Path) -> None:
    attack = "<script>alert(1)</script>"
    difference = mk.diff(
        mk.from_table({"text": ["чай"]}), read(tmp_path / "b", MEMORY=f"# {attack}\n{KEY} пароль: sova-2026\n")
    )
    page, words = difference._repr_html_(), repr(difference)
    assert KEY in difference.table["after"][-1].as_py()
    for hidden in (attack, KEY, KEY[3:20], "sova"):
        assert hidden not in page
        assert hidden not in words or hidden == attack


TEXTS = st.lists(
    st.sampled_from(["", "чай", "чай мёд", "чай мёд лимон", "пул", "# пул\nдесять соединений"]), max_size=7
)


@given(TEXTS, TEXTS, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_every_memory_is_matched_at_most_once_and_none_is_lost(
    a: list[str], b: list[str], chance: random.Random
) -> None:
    def state(texts: list[str]) -> list[Known]:
        return [Known(f"f:{place % 3}#{place}", "f", str(place % 3), "", text) for place, text in enumerate(texts)]

    before, after = state(a), state(b)
    chance.shuffle(after)
    matched = matches(before, after)
    assert len(set(matched.values())) == len(matched)
    schema = pa.schema({"memory_id": pa.string(), "text": pa.string()})
    old, new = (mk.from_table(pa.Table.from_pylist([vars(m) for m in s], schema)) for s in (before, after))
    rows = mk.diff(old, new).table.to_pylist()
    assert old.memories.num_rows + sum(row["change"] == "added" for row in rows) == new.memories.num_rows + sum(
        row["change"] == "removed" for row in rows
    )


def test_matching_grows_with_the_memories() -> None:
    state = [Known(f"f:{place // 3000}#{place}", "f", str(place // 3000), "", f"a{place} b c") for place in range(3000)]
    other = [Known(f"f:{place // 3000}#x{place}", "f", "0", "", f"a{place} b d") for place in range(3000)]
    assert len(matches(state, other)) == 3000  # each to one of its file; a look at all pairs would take minutes


def test_a_removed_text_says_where_the_same_stands(tmp_path: Path) -> None:
    before = mk.from_table({"memory_id": ["a", "b", "c"], "text": ["Зелёный чай", "Зелёный чай\n", "Кофе"]})
    after = mk.from_table({"memory_id": ["a"], "text": ["Зелёный чай"]})
    difference = mk.diff(before, after)
    assert dict(zip(*(difference.table[name].to_pylist() for name in ("memory_id", "stands_in")), strict=True)) == {
        "b": "a",
        "c": None,
    }
    assert difference.diff().count("@@ the same text stands in a\n") == 1
    text = "- [id:ar_1] [t:archive] [imp:normal] Анна пьёт зелёный чай.\n"
    twice = text + text.replace("ar_1", "ar_2")
    folder = mk.testing.write_files(tmp_path, {"users/anna/archive.md": twice})
    diff = mk.plan(mk.read(folder), mk.Deduplicator(encoder=None), as_of="2026-03-01").diff()
    head = next(line for line in diff.splitlines() if line.startswith("@@"))
    assert head.endswith("of facts:users/anna/archive.md#ar_1 (it stands further up), which stays")


def test_a_diff_controls_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = mk.diff(mk.from_table({"text": ["чай"]}), mk.from_table({"text": ["чай\x1b[2J"]})).diff()
    assert "\x1b" in str(shown)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "\x1b" not in str(shown)
    assert "\\x1b[2J" in str(shown)
