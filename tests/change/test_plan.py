"""A plan says what policies ask for; applied, it changes the bytes of what is meant and no others."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.base.duck import literals
from memkit.base.params import estimator, param
from memkit.change.journal import hash_of
from memkit.errors import ChangeRefusedError, MemkitError, ParameterError, QueryError, StaleSourceError
from memkit.formats.syntax.places import Json, Splice, spliced
from memkit.policy.base import VERDICT, Policy, needed
from tests.folders import tree


@estimator
class Drop(Policy):
    """Refuses the memories with these own ids."""

    needs, adds = needed("source_id"), VERDICT
    ids: tuple[str, ...] = param((), doc="Own ids.")

    def _sql(self) -> str:
        test = f"coalesce(source_id in ({literals(self.ids) or 'null'}), false)"
        return f"select *, not {test} as keep, if(keep, null, 'dropped') as reason from input"  # noqa: S608  # quoted


@estimator
class DropEntries(Policy):
    """Refuses whatever an index names."""

    needs, adds = needed("kind"), VERDICT

    def _sql(self) -> str:
        return "select *, kind <> 'entry' as keep, if(keep, null, 'dropped') as reason from input"


Folder = Callable[[dict[str, str | bytes]], Path]
WORKING = """- [id:wk_1] [t:working] [imp:normal] [exp:2026-02-01] Чинит бота
- [id:wk_2] [t:working] [imp:high] [exp:2027-01-01] План
"""
META = '{\r\n\t"version": 2, "workingCount":2 ,\r\n\t"profileCount": 0, "archiveCount": 0, "lastIds": {"wk": 2}}'


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return lambda files: mk.testing.write_files(tmp_path / "root", files)


def applied(root: Path, policies: object, **options: object) -> dict[str, bytes]:
    mk.plan(mk.read(root), policies, as_of="2026-03-01").apply(force=True, **options)
    return tree(root)


@pytest.mark.quick
def test_expiry_takes_the_line_out_and_sets_the_counter(folder: Folder) -> None:
    """Memory v2, TTL and cleanup: expired lines leave working.md; every other byte stays."""
    root = folder({"users/anna/working.md": WORKING, "users/anna/meta.json": META})
    before = tree(root)
    after = applied(root, mk.Expiry())
    assert after["users/anna/working.md"].decode() == WORKING.split("\n", 1)[1]
    assert after["users/anna/meta.json"].decode() == META.replace('"workingCount":2', '"workingCount":1')
    mk.undo(root)
    assert tree(root) == before


LINES = st.lists(
    st.sampled_from(["- [id:{}] [t:archive] [imp:low] чай", "# заметка", "", "- [id:{}] мёд 🍯", "\ttab"]), max_size=9
)


@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=12)
def test_every_other_byte_of_a_fact_file_stays(
    shapes: list[str], newline: str, has_mark: bool, is_ended: bool, chance: random.Random
) -> None:
    lines = [shape.format(f"f{number}") + newline for number, shape in enumerate(shapes)]
    if lines and not is_ended:
        lines[-1] = lines[-1].removesuffix(newline)
    ids = [f"f{number}" for number, shape in enumerate(shapes) if "{}" in shape]
    removed = chance.sample(ids, chance.randrange(len(ids) + 1))
    mark = "\ufeff" if has_mark else ""
    with tempfile.TemporaryDirectory() as place:
        root = mk.testing.write_files(place, {"users/u/archive.md": mark + "".join(lines)})
        before = tree(root)
        after = applied(root, Drop(ids=tuple(removed)))
        kept = [line for number, line in enumerate(lines) if f"f{number}" not in removed]
        assert after["users/u/archive.md"].decode() == mark + "".join(kept)
        if removed:
            mk.undo(root)
        assert tree(root) == before


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["чай", 'a"]', "\\", "{", "1.10", "\u2028"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=8,
)


def odd_json(value: object, chance: random.Random) -> str:
    """`value` as JSON with blanks anywhere."""
    blank = lambda: chance.choice(["", "", " ", "\n  ", "\r\n\t"])  # noqa: E731
    if isinstance(value, list):
        inner = ",".join(f"{blank()}{odd_json(item, chance)}{blank()}" for item in value)
        return f"[{inner or blank()}]"
    if isinstance(value, dict):
        pairs = (
            f"{blank()}{json.dumps(key)}{blank()}:{blank()}{odd_json(item, chance)}{blank()}"
            for key, item in value.items()
        )
        return f"{{{','.join(pairs) or blank()}}}"
    return json.dumps(value, ensure_ascii=chance.random() < 0.5)


@given(st.lists(VALUES, max_size=6), st.randoms(use_true_random=False))
def test_items_leave_a_list_with_their_commas_and_nothing_else(values: list[object], chance: random.Random) -> None:
    text = "\ufeff" + odd_json({"files": values, "end": 1}, chance)
    removed = chance.sample(range(len(values)), chance.randrange(len(values) + 1))
    parts = [Json(text).find(["files", place]) for place in range(len(values))]
    new = spliced(
        text, Json(text).without([part.start for place, part in enumerate(parts) if place in removed and part])
    )
    kept = [value for place, value in enumerate(values) if place not in removed]
    assert json.loads(new.removeprefix("\ufeff")) == {"files": kept, "end": 1}
    for place, part in enumerate(parts):
        if place not in removed and part:
            assert text[part.start : part.end] in new
    assert len(text) - len(new) <= sum(
        len(text[p.start : p.end]) + 12 for n, p in enumerate(parts) if n in removed and p
    )


@given(VALUES, VALUES, st.randoms(use_true_random=False))
def test_a_value_takes_the_place_of_another_and_every_other_character_stays(
    value: object, new: object, chance: random.Random
) -> None:
    text = odd_json({"a": value, "b": {"c": [value]}}, chance)
    for path in (["a"], ["b", "c", 0], ["b", "new"]):
        splice = Json(text).set_value(path, new)
        changed = spliced(text, [splice])
        expected = json.loads(text)
        inner = expected
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = new
        assert json.loads(changed) == expected
        assert (changed[: splice.start], changed[len(changed) - len(text) + splice.end :]) == (
            text[: splice.start],
            text[splice.end :],
        )


@given(st.lists(VALUES, max_size=4), VALUES, st.randoms(use_true_random=False))
def test_an_item_is_appended_in_the_way_of_its_neighbours(
    values: list[object], new: object, chance: random.Random
) -> None:
    text = odd_json({"files": values}, chance)
    changed = spliced(text, [Json(text).append(["files"], new)])
    assert json.loads(changed) == {"files": [*values, new]}


ENTRIES = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=1, max_size=4), min_size=1, max_size=7)


@settings(max_examples=50)
@given(ENTRIES, ENTRIES, VALUES, st.booleans(), st.randoms(use_true_random=False))
def test_what_is_planned_on_one_parse_is_what_comes_of_one_change_after_the_other(
    entries: list[object], new: list[dict[str, object]], value: object, is_odd: bool, chance: random.Random
) -> None:
    layout = {"indent": chance.choice([None, 1, "\t"]), "ensure_ascii": chance.random() < 0.5}
    text = odd_json({"files": entries}, chance) if is_odd else json.dumps({"files": entries}, **layout)
    places = range(len(entries))
    sets = [(place, chance.choice("abx")) for place in places if chance.random() < 0.5]
    removed = [place for place in places[:-1] if chance.random() < 0.5 and place not in dict(sets)]
    parsed, one_by_one = Json(text), text
    splices = [parsed.set_value(["files", place, key], value) for place, key in sets]
    splices += parsed.append_all(["files"], new)
    splices += [Splice(part.start, part.end, "") for place in removed if (part := parsed.find(["files", place]))]
    for entry in new:
        one_by_one = spliced(one_by_one, [Json(one_by_one).append(["files"], entry)])
    for place, key in sets:
        one_by_one = spliced(one_by_one, [Json(one_by_one).set_value(["files", place, key], value)])
    for place in reversed(removed):
        part = Json(one_by_one).find(["files", place])
        assert part is not None
        one_by_one = spliced(one_by_one, Json(one_by_one).without([part.start]))
    at_once = spliced(text, parsed.settled(splices))
    assert json.loads(at_once) == json.loads(one_by_one)
    # A further item is laid out as the last one is, and one after the other the last one is new: a list within a list,
    # which takes lines of its own, shows the one after it the same.
    if not any(isinstance(part, (list, dict)) for entry in new for field in entry.values() for part in nested(field)):
        assert at_once == one_by_one


def nested(value: object) -> list[object]:
    """What a list or object holds."""
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


@settings(max_examples=50)
@given(ENTRIES, ENTRIES, st.randoms(use_true_random=False))
def test_what_comes_where_all_goes_is_all_there_is(
    entries: list[object], new: list[object], chance: random.Random
) -> None:
    text = odd_json({"files": entries, "end": [1]}, chance)
    parsed = Json(text)
    removals = [Splice(part.start, part.end, "") for n in range(len(entries)) if (part := parsed.find(["files", n]))]
    assert json.loads(spliced(text, parsed.settled([*parsed.append_all(["files"], new), *removals]))) == {
        "files": new,
        "end": [1],
    }


@pytest.mark.quick
def test_an_appended_entry_is_indented_as_those_before_it() -> None:
    """Index standard, section 1: words on one line; over lines where those before them are."""
    text = '{\n    "files": [\n        {\n            "a": %s\n        }\n    ]\n}\n'
    item = text.replace("}\n    ]", '},\n        {\n            "b": %s\n        }\n    ]')
    tall = "[\n                1\n            ]"
    for old, new in (("1", "[1]"), ("[1]", "[1]"), (tall, tall)):
        assert spliced(text % old, [Json(text % old).append(["files"], {"b": [1]})]) == item % (old, new)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "reason"), [('{"a": 1, "a": 2}', "twice"), ("{'a': 1}", "no JSON"), ('{"a": 1} // x', "no JSON")]
)
def test_what_has_no_certain_place_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ChangeRefusedError, match=reason):
        Json(text).set_value(["a"], 3)


ENTRY = (
    '{ "title": "%s", "file": "memory/lessons/%s.md", "tags": [ "a",  "b" ], "priority": "high",'
    ' "version": 1.10, "x": 1e5 }'
)
ROOT = '{"type": "index-root", "branches": [{"category": "lessons", "path": "lessons/index.json"}]}'


def index(*names: str) -> str:
    entries = ",\r\n  ".join(ENTRY % (name.title(), name) for name in names)
    return f'\ufeff{{"type": "index-branch", "category": "lessons",\r\n "files": [\r\n  {entries}\r\n]}}'


def test_index_check_takes_missing_entries_out_and_leaves_the_others_as_they_are(folder: Folder) -> None:
    """Index standard, section 4: auto_clean_missing removes the entry; section 2: other metadata stays."""
    files = {
        "memory/index.json": ROOT,
        "memory/lessons/b.md": "# Б\n",
        "memory/lessons/index.json": index("a", "b", "c"),
    }
    root = folder(files)
    after = applied(root, mk.IndexCheck(auto_clean_missing=True))
    assert after["memory/lessons/index.json"].decode() == index("b")
    assert not mk.plan(mk.read(root), mk.IndexCheck(auto_clean_missing=True)).table.num_rows
    mk.undo(root)
    assert tree(root)["memory/lessons/index.json"].decode() == index("a", "b", "c")


def test_index_check_by_default_and_of_pinned_entries_changes_nothing(folder: Folder) -> None:
    branch = index("a").replace('"x": 1e5', '"pinned": true')
    root = folder({"memory/index.json": ROOT, "memory/lessons/index.json": branch})
    assert len(mk.plan(mk.read(root), mk.IndexCheck(auto_clean_missing=True))) == 0
    assert len(mk.plan(mk.read(root), "index_check")) == 0


@pytest.mark.parametrize(("file", "status"), [("c/gone.md", "missing"), ("../x.md", "invalid")])
@pytest.mark.parametrize("survivor", ["oldest", "longest"])
def test_an_entry_without_a_file_is_no_duplicate_of_what_says_its_title(
    file: str, status: str, survivor: str, folder: Folder
) -> None:
    entry = {"title": "Пул соединений", "file": file, "tags": [], "priority": "high", "version": "1.0"}
    files: dict[str, str | bytes] = {
        "memory/c/index.json": json.dumps({"type": "index-branch", "files": [{**entry, "updated": "2026-01-01"}]}),
        "docs/a.md": "# Пул соединений\n\nДержит открытые.\n",
        "docs/b.md": "Пул соединений",
    }
    root = folder(files)
    dedup = mk.Deduplicator(encoder=None, survivor=survivor)
    judged = {row["path"]: row for row in dedup.fit(mk.read(root)).transform(mk.read(root)).to_pylist()}
    assert (judged["memory/c/index.json"]["text"], judged["memory/c/index.json"]["keep"]) == ("Пул соединений", True)
    assert [row["keep"] for path, row in judged.items() if path.startswith("docs")].count(False) == 1, "of each other"
    assert applied(root, dedup)["memory/c/index.json"] == str(files["memory/c/index.json"]).encode()
    dropped = mk.plan(mk.read(root), DropEntries(), as_of="2026-03-01")
    (refused,) = dropped.refused.to_pylist()
    assert not dropped.table.num_rows
    assert f"memory/c/index.json:1: its file is {status}" in refused["reason"]
    assert f"IndexCheck(auto_clean_{status}=True)" in refused["reason"]
    assert b"gone.md" not in applied(root, mk.IndexCheck(**{f"auto_clean_{status}": True}))["memory/c/index.json"]


def test_a_long_file_is_split_and_its_parts_are_its_text(folder: Folder) -> None:
    """Index standard, section 5: note.md becomes note/part1.md … and note/index.md, which the entry names."""
    text = "# Пул\n\nДесять соединений.\n\n# Ещё\n\n```\nкод\n\nкод\n```\n\nконец"
    root = folder({"memory/index.json": ROOT, "memory/lessons/a.md": text, "memory/lessons/index.json": index("a")})
    before = tree(root)
    edits = mk.plan(mk.read(root), mk.SplitPlan(max_tokens_per_file=8), as_of="2026-03-01")
    assert edits.removed() == []
    edits.apply()
    after = tree(root)
    parts = sorted(path for path in after if "part" in path)
    assert b"".join(after[path] for path in parts).decode() == text
    assert after["memory/lessons/index.json"].decode() == index("a").replace("a.md", "a/index.md")
    assert after["memory/lessons/a/index.md"].decode() == (
        f"---\ntitle: A\nparts: [{', '.join(path.rpartition('/')[2] for path in parts)}]\n"
        f"tokens_total: {(len(text) + 3) // 4}\nsplit: auto\nupdated: 2026-03-01\n---\n"
    )
    assert "memory/lessons/a.md" not in after
    (memory,) = mk.read(root).memories.to_pylist()
    assert memory["text"] == text
    mk.undo(root)
    assert tree(root) == before


def test_a_part_of_a_split_alone_is_refused(folder: Folder) -> None:
    root = folder(
        {"memory/index.json": ROOT, "memory/lessons/a.md": "# А\nб\n" * 9, "memory/lessons/index.json": index("a")}
    )
    edits = mk.plan(mk.read(root), mk.SplitPlan(max_tokens_per_file=8))
    with pytest.raises(ChangeRefusedError, match="belong together"):
        edits.filter("op = 'create'")
    assert len(edits.filter("together like 'split%'")) == len(edits)


NOTE = (
    "---\nid: {0}\nsubject: Чай\nkeywords: [чай]\napplies_to: global\n"
    "created_at: 2026-01-0{1}\nupdated_at: 2026-01-0{1}\n---\n\n# Чай\n\nБез сахара, с мёдом.\n"
)


def test_duplicate_notes_leave_one_file_and_daily_logs_are_left_alone(folder: Folder) -> None:
    older, newer = "3f0c9a52-6f0e-4c3b-9d57-1b7a6d2f8e41", "550e8400-e29b-41d4-a716-446655440000"
    log = "# Чай\n\nПил чай с лимоном и ходил гулять.\n"
    root = folder(
        {
            f"n/{older}.md": NOTE.format(older, 1),
            f"n/{newer}.md": NOTE.format(newer, 2),
            "memory/2026-01-01.md": log,
            "memory/2026-01-02.md": log,
        }
    )
    edits = mk.plan(mk.read(root), mk.Deduplicator(encoder=None, survivor="newest"))
    assert edits.refused["reason"].to_pylist() == ["memory/2026-01-01.md: a daily log is only appended to."]
    assert edits.table["reason"].to_pylist() == [f"duplicate of notes:n/{newer}.md#{newer} (it is newer)"]
    edits.apply()
    assert f"n/{older}.md" not in tree(root)
    assert f"n/{newer}.md" in tree(root)


WISDOM = (
    '{"format_version": "1.0.0", "fact_id": "%s", "category": "c", "content": "чай",'
    ' "confidence": 0.90, "relations": []}'
)


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        ("w.json", f"[\n {WISDOM % 'a'},\n\n {WISDOM % 'b'}]", f"[\n {WISDOM % 'a'}]"),
        (
            "w.json",
            f'{{"facts": [{WISDOM % "b"}, {WISDOM % "a"}], "note": 1.0}}',
            f'{{"facts": [{WISDOM % "a"}], "note": 1.0}}',
        ),
        ("w.json", WISDOM % "b", None),
        ("w.jsonl", f"{WISDOM % 'a'}\r\n{WISDOM % 'b'}\r\n\r\n", f"{WISDOM % 'a'}\r\n\r\n"),
        ("w.yaml", f"# все\n- {WISDOM % 'b'}\n- {WISDOM % 'a'}\n", f"# все\n- {WISDOM % 'a'}\n"),
        (
            "w.yaml",
            "- fact_id: a\n  content: чай # горячий\n  confidence: .9\n"
            "- fact_id: b\n  content: |\n    мёд\n  confidence: 1\n",
            "- fact_id: a\n  content: чай # горячий\n  confidence: .9\n",
        ),
        ("w.yaml", "fact_id: b\ncontent: чай\nconfidence: 1\n", None),
    ],
)
def test_a_record_leaves_its_file_and_the_rest_stays(name: str, text: str, after: str | None, folder: Folder) -> None:
    root = folder({name: text, "MEMORY.md": "# Чай\n"})
    files = applied(root, Drop(ids=("b",)))
    assert files.get(name) == (None if after is None else after.encode())
    mk.undo(root)
    assert tree(root)[name] == text.encode()


ALIASED = "- fact_id: a\n  content: &x чай\n  confidence: 1\n- fact_id: b\n  content: *x\n  confidence: 1\n"


@pytest.mark.parametrize(
    ("path", "written", "reason"),
    [
        ("w.yaml", ALIASED, "anchors or aliases"),
        ("w.yaml", f"- &one {WISDOM % 'a'}\n- {WISDOM % 'b'}\n- *one\n", "anchors or aliases"),
        ("users/u/archive.md", b"- [id:a] [t:archive] [imp:low] \xff\xfe\n", "no UTF-8"),
    ],
)
def test_records_that_stand_for_others_by_an_alias_and_what_is_no_utf_8_are_left_alone(
    path: str, written: str | bytes, reason: str, folder: Folder
) -> None:
    edits = mk.plan(mk.read(folder({path: written})), Drop(ids=("a",)))
    assert len(edits) == 0
    assert reason in edits.refused["reason"][0].as_py()


def test_a_quota_evicts_and_says_what_it_cannot(folder: Folder) -> None:
    """Memory v2, limits: over the total archive facts go, low first; profile facts over their limit are only said."""
    archive = "".join(f"- [id:ar_{n}] [t:archive] [imp:{'low' if n % 2 else 'normal'}] факт {n}\n" for n in range(4))
    profile = "".join(f"- [id:pf_{n}] [t:profile] [imp:high] имя {n}\n" for n in range(3))
    root = folder({"users/u/archive.md": archive, "users/u/profile.md": profile})
    edits = mk.plan(mk.read(root), mk.Quota(max_facts=5, max_profile=2))
    assert edits.removed() == ["facts:users/u/archive.md#ar_1"]
    assert edits.refused["memory_id"].to_pylist() == ["facts:users/u/profile.md#pf_2"]


def test_what_an_earlier_policy_removes_a_later_one_does_not_see(folder: Folder) -> None:
    root = folder({"users/anna/working.md": WORKING})
    edits = mk.plan(mk.read(root), [mk.Expiry(), Drop(ids=("wk_1", "wk_2"))], as_of="2026-03-01")
    assert edits.table.select(["policy", "memory_id"]).to_pylist() == [
        {"policy": "expiry", "memory_id": "facts:users/anna/working.md#wk_1"},
        {"policy": "drop", "memory_id": "facts:users/anna/working.md#wk_2"},
    ]


def test_a_filter_keeps_rows_and_works_the_counters_out_again(folder: Folder) -> None:
    root = folder({"users/anna/working.md": WORKING, "users/anna/meta.json": META})
    edits = mk.plan(mk.read(root), Drop(ids=("wk_1", "wk_2")))
    assert edits.table.filter(edits.table["derived"])["after"].to_pylist() == ["0"]
    filtered = edits.filter("memory_id like '%wk_2'")
    assert filtered.table.filter(filtered.table["derived"])["after"].to_pylist() == ["1"]
    assert len(edits.filter("false")) == 0
    for wrong in ("reason = ", "1; drop table edits", "select 1", "nothing = 1", "true) or (true"):
        with pytest.raises(QueryError, match="where: expected one SQL predicate"):
            edits.filter(wrong)


def test_a_plan_goes_through_json(folder: Folder) -> None:
    root = folder({"users/anna/working.md": WORKING, "users/anna/meta.json": META})
    edits = mk.plan(mk.read(root), mk.Expiry(), as_of="2026-03-01")
    again = mk.Edits.from_json(edits.to_json(), root)
    assert again.table.equals(edits.table)
    assert again.diff() == edits.diff()
    with pytest.raises(ChangeRefusedError, match="1 of 2 memories would be removed, more than 30%"):
        again.apply()
    again.apply(force=True)
    with pytest.raises(StaleSourceError, match="changed since"):
        mk.Edits.from_json(edits.to_json(), root)
    with pytest.raises(StaleSourceError, match="changed since"):
        edits.apply(force=True)


NO_PLANS = ["", "{", "[1]", '{"a": 1}', "null", '[{"op": 3}]', "[" * 5000, "[{}]", f'[{{"at": {"9" * 5000}}}]', None, 3]


@pytest.mark.parametrize("text", NO_PLANS, ids=lambda text: repr(text)[:20])
def test_what_is_no_plan_is_refused(text: Any, folder: Folder) -> None:
    with pytest.raises(MemkitError):
        mk.Edits.from_json(text, folder({"MEMORY.md": "# Чай\n"})).apply()


@pytest.mark.parametrize(
    "row",
    [
        {"op": "create", "path": "../out.md", "after": "x"},
        {"op": "create", "path": "/tmp/out.md", "after": "x"},
        {"op": "create", "path": ".git/hooks/post-commit", "after": "x"},
        {"op": "create", "path": "MEMORY.md", "after": "x"},
        {"op": "burn", "path": "a.md"},
        {"op": "move", "path": "MEMORY.md"},
        {"op": "update", "path": "a.md"},
    ],
)
def test_a_plan_of_anybody_cannot_reach_outside_or_over_what_is_there(row: dict[str, object], folder: Folder) -> None:
    root = folder({"MEMORY.md": "# Чай\n"})
    with pytest.raises(MemkitError):
        mk.Edits.from_json(json.dumps([row]), root).apply()
    assert tree(root) == {"MEMORY.md": "# Чай\n".encode()}


def test_a_row_whose_text_does_not_stand_there_is_refused(folder: Folder) -> None:
    root = folder({"users/anna/working.md": WORKING})
    rows = json.loads(mk.plan(mk.read(root), Drop(ids=("wk_1",))).to_json())
    with pytest.raises(StaleSourceError, match="does not stand there"):
        mk.Edits.from_json(json.dumps([{**rows[0], "at": 3}]), root)
    with pytest.raises(ChangeRefusedError, match="the same place"):
        mk.Edits.from_json(json.dumps([rows[0], {**rows[0], "op": "update", "after": "x"}]), root)


def test_a_move_keeps_the_bytes_and_never_takes_a_name(folder: Folder) -> None:
    root = folder({"a.md": "\ufeffчай\r\n", "b.md": "мёд"})
    row = {"op": "move", "path": "a.md", "to": "c/a.md", "before": "", "sha256": hash_of((root / "a.md").read_bytes())}
    edits = mk.Edits.from_json(json.dumps([row]), root)
    edits.apply()
    assert tree(root) == {"c/a.md": "\ufeffчай\r\n".encode(), "b.md": "мёд".encode()}
    mk.undo(root)
    assert sorted(tree(root)) == ["a.md", "b.md"]
    with pytest.raises(MemkitError):
        mk.Edits.from_json(json.dumps([{**row, "to": "b.md"}]), root).apply()


def test_a_corpus_that_is_no_longer_the_folder_is_refused(folder: Folder) -> None:
    root = folder({"users/anna/working.md": WORKING})
    corpus = mk.read(root)
    (root / "users/anna/working.md").write_text(WORKING + "- [id:wk_3] [t:working] [imp:low] Ещё\n")
    with pytest.raises(StaleSourceError, match=r"users/anna/working[.]md: it was changed since it was read"):
        mk.plan(corpus, mk.Expiry(), as_of="2026-03-01")
    assert len(mk.plan(corpus.refresh(), mk.Expiry(), as_of="2026-03-01")) == 1


def test_a_plan_of_nothing_writes_nothing(folder: Folder) -> None:
    root = folder({"users/anna/working.md": WORKING})
    edits = mk.plan(mk.read(root), mk.Expiry(), as_of="2020-01-01")
    assert edits.apply().num_rows == 0
    assert edits.diff() == ""
    assert not (root / ".memkit").exists()
    assert repr(edits) == "Edits(nothing; 0 files)"


@pytest.mark.parametrize("policies", [3, None, [mk.Classifier, 1]])
def test_what_asks_for_nothing_is_refused(policies: object, folder: Folder) -> None:
    with pytest.raises(ParameterError, match="plan: "):
        mk.plan(mk.read(folder({"MEMORY.md": "# Чай\n"})), policies)


def test_a_corpus_without_a_folder_is_refused() -> None:
    with pytest.raises(MemkitError):
        mk.plan(mk.from_table({"text": ["чай"]}), mk.Expiry())
    with pytest.raises(ParameterError, match="expected a Corpus"):
        mk.plan([], mk.Expiry())  # type: ignore[arg-type]


def test_a_diff_is_text_and_in_a_notebook_coloured_escaped_and_masked(folder: Folder) -> None:
    secret = "sk-" + "a1B2" * 8
    text = WORKING.replace("Чинит бота", f"<b>Чинит</b> {secret}")
    diff = mk.plan(mk.read(folder({"users/anna/working.md": text})), mk.Expiry(), as_of="2026-03-01").diff()
    assert secret in diff
    page = diff._repr_html_()
    assert "&lt;b&gt;Чинит" in page
    assert secret not in page
    assert 'style="background:rgba(248' in page
    assert diff.startswith("--- a/users/anna/working.md\n+++ b/users/anna/working.md\n@@ -1,2 +1 @@\n-")


def test_the_sample_changes_and_comes_back(tmp_path: Path) -> None:
    import shutil

    root = tmp_path / "data"
    shutil.copytree(mk.sample_data(), root, ignore=shutil.ignore_patterns("broken"))
    before = tree(root)
    corpus = mk.read(root)
    ids = pc.unique(corpus.memories["source_id"]).drop_null().to_pylist()[::3]
    edits = mk.plan(corpus, Drop(ids=tuple(ids)))
    removed = edits.removed()
    assert len(removed) > 30
    edits.apply(force=True)
    after = mk.read(root)
    is_kept = pc.invert(pc.is_in(corpus.memories["memory_id"], value_set=edits.table["memory_id"].combine_chunks()))
    names = ["source_id", "text", "title"]
    assert after.memories.select(names).equals(corpus.memories.filter(is_kept).select(names))
    errors = pc.field("severity") == "error"
    assert after.problems.filter(errors).num_rows <= corpus.problems.filter(errors).num_rows
    mk.undo(root)
    assert tree(root) == before


def test_refusals_are_shown_with_the_edits(folder: Folder) -> None:
    root = folder({"memory/2026-01-01.md": "# Чай\n\nлимон\n", "users/anna/working.md": WORKING})
    edits = mk.plan(mk.read(root), mk.Admission())
    assert "refused" in repr(edits) or edits.refused.num_rows == 0
    assert "<table>" in edits._repr_html_()
    assert edits.to_pandas().shape[0] == len(edits)


def test_refusals_are_one_row_a_file_with_their_number(folder: Folder) -> None:
    """Each different reason of a file is told once; what is counted is memories."""
    log = "# 2026-01-0{}\n\n" + "".join(f"## Запись {number}\n\nЧай номер {number}.\n\n" for number in range(3))
    root = folder({f"memory/2026-01-0{day}.md": log.format(day) for day in (1, 2)})

    @estimator
    class All(Policy):
        """Refuses all."""

        needs, adds = needed("kind"), VERDICT

        def _sql(self) -> str:
            return "select *, false as keep, 'all' as reason from input"

    edits = mk.plan(mk.read(root), All())
    assert edits.refused.select(["path", "count"]).to_pylist() == [
        {"path": "memory/2026-01-01.md", "count": 3},
        {"path": "memory/2026-01-02.md", "count": 3},
    ]
    assert repr(edits) == "Edits(nothing; 0 files; 6 refused in 2 files)"
    assert edits.filter("true").refused.to_pylist() == edits.refused.to_pylist()


def test_what_stays_of_duplicates_takes_over_tags_and_importance(folder: Folder) -> None:
    """Deduplicator, merged: notes' keywords, entries' tags, facts' importance; every other byte of them stays."""

    def note(number: int, words: str) -> str:
        return (
            f"---\nid: 0b1f7a52-6f0c-4d5e-9d35-0c0f3f6f2b1{number}\nsubject:   'Чай'  # да\nkeywords: [{words}]\n"
            f"applies_to: global\ncreated_at: 2026-01-0{number}\nupdated_at: 2026-01-0{number}\n---\n\n"
            "Зелёный чай пьют без сахара и молока.\n"
        )

    def entry(name: str, tags: str) -> str:
        fields = '"priority": "high", "version": "1.10", "updated": "2025-06-25"'
        return f'{{"title": "Пул", "file": "l/{name}.md", "tags": {tags}, {fields}}}'

    lines = [
        "- [id:ar_001] [t:archive] [imp:low] Обсуждали погоду на море.\n",
        "- [id:ar_002] [t:archive] [imp:high] обсуждали погоду на  море.\n",
    ]
    entries = [entry("a", '["x",  "y"]'), entry("b", '["z"]')]
    root = folder(
        {
            "notes/0b1f7a52-6f0c-4d5e-9d35-0c0f3f6f2b11.md": note(1, "чай,  tea"),
            "notes/0b1f7a52-6f0c-4d5e-9d35-0c0f3f6f2b12.md": note(2, "tea, мёд"),
            "memory/index.json": '{"type": "index-root", "branches": [{"category": "l", "path": "l/index.json"}]}',
            "memory/l/index.json": f'{{"type": "index-branch", "category": "l", "files": [{", ".join(entries)}]}}',
            "memory/l/a.md": "В пуле десять соединений к базе.\n",
            "memory/l/b.md": "В пуле десять соединений к базе.\n",
            "users/anna/archive.md": "".join(lines),
        }
    )
    dedup = mk.Deduplicator(encoder=None, survivor="oldest")
    edits = mk.plan(mk.read(root), dedup, merge=True)
    assert edits.removed() == mk.plan(mk.read(root), dedup).removed()
    edits.apply(force=True)
    first, second = sorted((root / "notes").iterdir())[0], root / "notes/0b1f7a52-6f0c-4d5e-9d35-0c0f3f6f2b12.md"
    assert first.read_text("utf-8") == note(1, '"чай", tea, "мёд"')
    assert not second.exists()
    kept = entry("a", '["x", "y", "z"]')
    assert f'"files": [{kept}]' in (root / "memory/l/index.json").read_text("utf-8")
    assert (root / "users/anna/archive.md").read_text("utf-8") == lines[0].replace("imp:low", "imp:high")
    assert mk.read(root).problems.filter(pc.field("severity") == "error").num_rows == 0
    mk.undo(root)
    assert (root / "users/anna/archive.md").read_text("utf-8") == "".join(lines)


def test_a_record_takes_over_nothing_and_lost_tags_are_said(folder: Folder) -> None:
    """Data formats, section 2.2: what says the same is dropped; no document says how records are merged."""
    item = {"format_version": "1.0.0", "user_id": "u", "input": "Чай?", "response": "Без сахара и молока, пожалуйста."}
    older = {**item, "timestamp": "2026-01-01T00:00:00Z", "tags": ["чай"]}
    newer = {**item, "timestamp": "2026-01-02T00:00:00Z", "tags": ["чай", "мёд"]}
    root = folder({"one.json": json.dumps(older), "two.json": json.dumps(newer), "A.md": "# Чай\n\nБез.\n" * 2})
    edits = mk.plan(mk.read(root), mk.Deduplicator(encoder=None, survivor="oldest"), merge=True)
    assert [row["op"] for row in edits.table.to_pylist() if row["path"].endswith("json")] == ["delete"]
    (refusal,) = edits.refused.to_pylist()
    assert (refusal["path"], refusal["reason"].endswith("Lost tags: мёд.")) == ("one.json", True)
