"""The operations on Hermes's entries and on graphs: what they change, what they leave, what they refuse."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.change.draft import Draft
from memkit.change.memories import remove_memory
from memkit.errors import ChangeRefusedError, NotFoundError, PolicyRefusal
from memkit.hosts import hermes
from memkit.tables.samples import write_files

NOW = "2026-03-01T10:00:00Z"
words = st.text("abжю \n", min_size=1, max_size=12).map(str.strip).filter(bool)


class Without:
    """Plans the removal of the memories with these texts."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def draft(self, draft: Draft) -> None:
        for row in draft.corpus.memories.to_pylist():
            if row["text"].strip() in self.texts:
                remove_memory(draft, row, "chosen")


@settings(max_examples=40)
@given(st.lists(words, min_size=1, max_size=6, unique=True), st.data())
def test_entries_that_a_plan_removes_leave_the_others_as_they_are(entries: list[str], data: st.DataObject) -> None:
    removed = data.draw(st.lists(st.sampled_from(entries), unique=True))
    windows = data.draw(st.booleans())
    text = "\n§\n".join(entries)
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, {"MEMORY.md": text.replace("\n", "\r\n" if windows else "\n"), "USER.md": "x\n§\nyyy"})
        edits = mk.plan(mk.read(folder), Without(removed), as_of=NOW)
        edits.apply(force=True)
        after = (Path(folder) / "MEMORY.md").read_bytes().decode()
        assert hermes.entries(after) == [entry for entry in entries if entry not in removed]
        assert ("\r\n" in after) == (windows and "\n" in after)
        if removed:
            mk.undo(folder)
            assert (Path(folder) / "MEMORY.md").read_bytes().decode().replace("\r\n", "\n") == text


@pytest.mark.quick
def test_entries_are_added_replaced_and_removed_as_the_host_does(tmp_path: Path) -> None:
    store = mk.store(tmp_path).hermes
    path = tmp_path / "MEMORY.md"
    for text, wanted in (
        ("чай", "чай"),
        (" мёд \n", "чай\n§\nмёд"),
        ("лимон\nи лайм", "чай\n§\nмёд\n§\nлимон\nи лайм"),
    ):
        store.add(text, now=NOW)
        assert path.read_bytes().decode() == wanted
    store.replace("лим", "имбирь", now=NOW)
    assert path.read_bytes().decode() == "чай\n§\nмёд\n§\nимбирь"
    store.remove("мёд", now=NOW)
    assert path.read_bytes().decode() == "чай\n§\nимбирь"
    assert store.add("Анна", "user", now=NOW) == "USER.md"
    assert store.entries()["scope"].to_pylist() == ["agent", "agent", "user"]
    assert store.usage().to_pylist()[0] == {
        "path": "MEMORY.md",
        "entries": 2,
        "chars": 3 + 3 + 6,
        "limit": 2200,
        "share": 12 / 2200,
    }
    path.write_bytes("\ufeffчай\r\n§\r\n  мёд  \r\n\r\n".encode())  # what others wrote stays but for the end
    store.add("лимон\nи лайм", now=NOW)
    assert path.read_bytes().decode() == "\ufeffчай\r\n§\r\n  мёд\r\n§\r\nлимон\r\nи лайм"


@pytest.mark.quick
def test_what_the_host_refuses_is_refused_with_its_reason(tmp_path: Path) -> None:
    write_files(tmp_path, {"MEMORY.md": "пьёт чай\n§\nпьёт мёд\n§\nпьёт чай", "USER.md": "ж" * 1000})
    store = mk.store(tmp_path).hermes
    for work, reason in (
        (lambda: store.add("пьёт мёд"), "duplicate"),
        (lambda: store.replace("мёд", "пьёт чай"), "duplicate"),
        (lambda: store.add("ы" * (1375 - 1000 - 3 + 1), "user"), "limit"),
        (lambda: mk.store(tmp_path, memory_chars=30).hermes.add("лимон и лайм"), "limit"),
    ):
        with pytest.raises(PolicyRefusal) as caught:
            work()
        assert caught.value.reason == reason
    store.add("ы" * (1375 - 1000 - 3), "user")
    with pytest.raises(ChangeRefusedError, match="2 entries contain 'пьёт', one is expected"):
        store.remove("пьёт")
    store.remove("чай")  # both are equal: the first goes
    assert (tmp_path / "MEMORY.md").read_text("utf-8") == "пьёт мёд\n§\nпьёт чай"
    with pytest.raises(NotFoundError):
        store.remove("кофе")
    with pytest.raises(mk.errors.ParameterError, match="just '§'"):
        store.add("a\n§\nb")
    write_files(tmp_path / "w", {"MEMORY.md": "# Память\n\nтекст\n"})
    with pytest.raises(ChangeRefusedError, match="Markdown with headings"):
        mk.store(tmp_path / "w").hermes.add("чай")
    write_files(tmp_path / "two", {"a/MEMORY.md": "a\n§\nb", "b/MEMORY.md": "a\n§\nb"})
    with pytest.raises(ChangeRefusedError, match="entries in a, b"):
        mk.store(tmp_path / "two").hermes.add("чай")


def line_of(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields}, ensure_ascii=False, separators=(",", ":"))


names = st.sampled_from(["Склад", "Анна", "a#b", '"'])
observed = st.lists(st.sampled_from(["чай", "мёд", "a, b", '"x"', "]"]), max_size=4, unique=True)


@settings(max_examples=40)
@given(st.dictionaries(names, observed, min_size=1), st.data())
def test_observations_that_a_plan_removes_leave_all_other_bytes(
    graph: dict[str, list[str]], data: st.DataObject
) -> None:
    removed = data.draw(st.lists(st.sampled_from(["чай", "мёд", "a, b", '"x"', "]"]), unique=True))
    name = data.draw(st.sampled_from(["m.json", "m.jsonl"]))
    lines = [line_of("entity", name=key, entityType="t", observations=items) for key, items in graph.items()]
    kept = [
        line_of("entity", name=k, entityType="t", observations=[i for i in v if i not in removed])
        for k, v in graph.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, {name: "\n".join([*lines, "bad line"])})
        corpus = mk.read(folder)
        mk.plan(corpus, Without(removed), as_of=NOW).apply(force=True)
        assert (Path(folder) / name).read_text("utf-8") == "\n".join([*kept, "bad line"])


@pytest.mark.quick
def test_the_graph_of_the_server_grows_and_shrinks_line_by_line(tmp_path: Path) -> None:
    graph, path = mk.store(tmp_path).graph, tmp_path / "memory.jsonl"
    graph.create_entity("Склад", "project", ["открыт"], now=NOW)
    graph.create_entity("Анна", "person", now=NOW)
    graph.create_relation("Склад", "Анна", "ведёт", now=NOW)
    assert graph.add_observations("Анна", ["чай", "мёд", "чай"], now=NOW) == ["чай", "мёд"]
    assert graph.add_observations("Анна", ["чай"], now=NOW) == []
    graph.create_entity("Борис", "person", ["кофе"], now=NOW)
    graph.create_relation("Борис", "Анна", "знает", now=NOW)
    stock = line_of("entity", name="Склад", entityType="project", observations=["открыт"])
    anna = line_of("entity", name="Анна", entityType="person", observations=["чай", "мёд"])
    boris = line_of("entity", name="Борис", entityType="person", observations=["кофе"])
    leads, knows = ({"from": a, "to": "Анна", "relationType": b} for a, b in (("Склад", "ведёт"), ("Борис", "знает")))
    text = "\n".join([stock, anna, boris, line_of("relation", **leads), line_of("relation", **knows)])
    assert path.read_text("utf-8") == text
    assert mk.read(tmp_path).problems.num_rows == 0
    assert graph.delete_observations("Анна", ["чай", "кофе"], now=NOW) == ["чай"]
    graph.delete_relation("Борис", "Анна", "знает", now=NOW)
    anna = line_of("entity", name="Анна", entityType="person", observations=["мёд"])
    assert path.read_text("utf-8") == "\n".join([stock, anna, boris, line_of("relation", **leads)])
    graph.delete_entity("Склад", now=NOW)  # with its relation, which is the last line
    assert path.read_text("utf-8") == f"{anna}\n{boris}"
    graph.delete_entity("Борис", now=NOW)
    graph.delete_entity("Анна", now=NOW)
    assert path.read_text("utf-8") == ""
    for _ in range(11):
        mk.undo(tmp_path)
    assert not path.exists()


def test_unknown_keys_blanks_and_line_ends_of_a_fork_stay(tmp_path: Path) -> None:
    start = '{"_type": "entity", "name": "Склад", "entityType": "t", "observations": [{"text": "чай", "v": 1.10'
    first = start.replace('"v"', '"timestamp": "x", "v"') + '}], "_savedAt": 1e5}'
    text = f"\ufeff{first}\r\nbad\r\n\r\n"
    (tmp_path / "g.json").write_bytes(text.encode())
    graph = mk.store(tmp_path).graph
    graph.add_observations("Склад", ["мёд"], now=NOW)
    graph.create_entity("Анна", "p", ["x"], now=NOW)
    graph.create_relation("Анна", "Склад", "r", now=NOW)
    grown = first.replace("1.10}]", f'1.10}}, {{"text": "мёд", "timestamp": "{NOW}"}}]')
    observations = f'[{{"text": "x", "timestamp": "{NOW}"}}]'
    anna = f'{{"_type": "entity", "name": "Анна", "entityType": "p", "observations": {observations}}}'
    relation = '{"_type": "relation", "from": "Анна", "to": "Склад", "relationType": "r"}'
    assert (tmp_path / "g.json").read_bytes().decode() == f"\ufeff{grown}\r\n{anna}\r\n{relation}\r\nbad\r\n\r\n"


@settings(max_examples=6)
@given(st.dictionaries(names, observed, min_size=1), st.sampled_from([None, 1, 4]), st.booleans(), st.data())
def test_a_graph_in_one_object_is_edited_in_its_lists(
    graph: dict[str, list[str]], indent: int | None, windows: bool, data: st.DataObject
) -> None:
    name, removed = data.draw(st.sampled_from(sorted(graph))), data.draw(observed)
    ends = {"from": name, "to": sorted(graph)[0]}
    content: dict[str, Any] = {
        "version": 1.10,
        "entities": [{"name": key, "type": "t", "n": 1e5, "observations": items} for key, items in graph.items()],
        "relations": [{**ends, "relationType": "r"}],
    }
    text = json.dumps(content, ensure_ascii=False, indent=indent)
    text = "\ufeff" + f"{text}\n".replace("\n", "\r\n" if windows else "\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        path.write_bytes(text.encode())
        store, by_name = mk.store(folder).graph, {entity["name"]: entity for entity in content["entities"]}
        assert store.add_observations(name, ["новое", *graph[name]], now=NOW) == ["новое"]
        store.create_entity("Борис", "person", ["кофе"], now=NOW)
        store.create_relation("Борис", name, "знает", now=NOW)
        with pytest.raises(PolicyRefusal):
            store.create_relation(**{"from_name": name, "to_name": ends["to"], "relation_type": "r"})
        mk.plan(mk.read(folder), Without(removed), as_of=NOW).apply(force=True)
        by_name[name]["observations"].append("новое")
        for entity in content["entities"]:
            entity["observations"] = [item for item in entity["observations"] if item not in removed]
        content["entities"].append({"name": "Борис", "type": "person", "observations": ["кофе"]})
        content["relations"].append({"from": "Борис", "to": name, "relationType": "знает"})
        written = path.read_bytes().decode()
        assert json.loads(written.removeprefix("\ufeff")) == content
        assert written.startswith("\ufeff")
        assert written.count("\r\n") == (written.count("\n") if windows else 0)
        store.delete_entity(name, now=NOW)
        remaining = json.loads(path.read_text("utf-8-sig"))
        assert [entity["name"] for entity in remaining["entities"]] == [*(key for key in graph if key != name), "Борис"]
        assert not [relation for relation in remaining["relations"] if name in relation.values()]
        mk.undo(folder)
        assert path.read_bytes().decode() == written


def test_an_object_that_breaks_off_is_read_and_not_edited(tmp_path: Path) -> None:
    text = '{"entities": [{"name": "Чай", "entityType": "t", "observations": ["зелёный"]}, {"na'
    (tmp_path / "g.json").write_text(text, "utf-8")
    graph = mk.store(tmp_path).graph
    for work in (
        lambda: graph.add_observations("Чай", ["x"]),
        lambda: graph.create_entity("Мёд", "t"),
        lambda: graph.delete_entity("Чай"),
    ):
        with pytest.raises(ChangeRefusedError, match="line 1: it is no JSON"):
            work()
    plan = mk.plan(mk.read(tmp_path), Without(["зелёный"]), as_of=NOW)
    with pytest.raises(ChangeRefusedError, match="no JSON"):
        plan.apply(force=True)
    write_files(
        tmp_path / "one", {"g.json": '{"entities": [{"name": "Чай", "entityType": "t", "observations": "мёд"}]}'}
    )
    refused = mk.plan(mk.read(tmp_path / "one"), Without(["мёд"]), as_of=NOW).refused["reason"].to_pylist()
    assert len(refused) == 1
    assert "stands in no list" in refused[0]
    assert (tmp_path / "g.json").read_text("utf-8") == text


def test_what_a_graph_cannot_hold_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"g.json": line_of("entity", name="Склад", entityType="t", observations=["чай"])})
    graph = mk.store(tmp_path).graph
    for work, error in (
        (lambda: graph.create_entity("Склад", "t"), PolicyRefusal),
        (lambda: graph.add_observations("Слад", ["x"]), NotFoundError),
        (lambda: graph.create_relation("Склад", "Анна", "r"), NotFoundError),
        (lambda: graph.delete_relation("Склад", "Склад", "r"), NotFoundError),
        (lambda: graph.add_observations("Склад", "one text"), mk.errors.ParameterError),
        (lambda: graph.create_entity(" ", "t"), mk.errors.ParameterError),
        (lambda: graph.create_entity("\ud800", "t"), mk.errors.FormatError),
    ):
        with pytest.raises(error):
            work()
    write_files(tmp_path / "n", {"memory.jsonl": '{"x": 1}\n'})
    with pytest.raises(ChangeRefusedError, match="no graph"):
        mk.store(tmp_path / "n").graph.create_entity("Склад", "t")
    corpus = mk.read(
        write_files(tmp_path / "e", {"g.json": line_of("entity", name="Чай", entityType="t", observations=[])})
    )
    removed = ["Чай"]
    assert "delete_entity" in mk.plan(corpus, Without(removed), as_of=NOW).refused["reason"][0].as_py()


PAGE = "---\ntitle: Склад\ntype: note\npermalink: stock\n---\n# Склад\n\n- [tech] Go\n- [x] задача #a\n"


def test_lines_of_a_page_are_added_where_their_like_stand(tmp_path: Path) -> None:
    cases: dict[str, tuple[str, str]] = {
        "below the last": (
            PAGE + "\nдальше\n",
            PAGE.replace("Go\n", "Go\n- [rule] Очередь #q (с мая)\n") + "\nдальше\n",
        ),
        "below none": (
            PAGE.replace("[tech]", "") + "x",
            PAGE.replace("[tech]", "") + "x\n\n## Observations\n\n- [rule] Очередь #q (с мая)\n",
        ),
        "code is no like": (
            PAGE + "```\n- [a b] c\n```\n",
            PAGE.replace("Go\n", "Go\n- [rule] Очередь #q (с мая)\n") + "```\n- [a b] c\n```\n",
        ),
        "without a last line end": (PAGE + "- [tech] Rust", PAGE + "- [tech] Rust\n- [rule] Очередь #q (с мая)"),
    }
    for number, (text, wanted) in enumerate(cases.values()):
        for windows in (False, True):
            folder = tmp_path / f"{number}{windows}"
            ends = "\r\n" if windows else "\n"
            write_files(folder, {"a.md": f"\ufeff{text}".replace("\n", ends).encode()})
            store = mk.store(folder).basic_memory
            assert store.add_observation("stock", "Очередь", "rule", ["q"], "с мая", now=NOW) == "a.md"
            assert (folder / "a.md").read_bytes().decode() == f"\ufeff{wanted}".replace("\n", ends)
            with pytest.raises(PolicyRefusal, match="duplicate"):
                store.add_observation("Склад", "Очередь", "rule", ["q"], "с мая")
            store.add_relation("a.md", "зависит от", "Магазин", now=NOW)
            assert mk.read(folder).tables["observations"]["text"].to_pylist()[-1] == "Очередь #q"
            assert '- "зависит от" [[Магазин]]' in (folder / "a.md").read_text("utf-8")


def test_lines_that_would_read_as_something_else_are_refused(tmp_path: Path) -> None:
    store = mk.store(write_files(tmp_path, {"a.md": PAGE, "b.md": PAGE})).basic_memory
    for work, error in (
        (lambda: store.add_observation("a.md", "нет ни тега, ни категории"), mk.errors.ParameterError),
        (lambda: store.add_observation("a.md", "x", "x"), mk.errors.ParameterError),
        (lambda: store.add_observation("a.md", "две\nстроки", "rule"), mk.errors.ParameterError),
        (lambda: store.add_observation("a.md", "x (y)", "rule"), mk.errors.ParameterError),
        (lambda: store.add_observation("a.md", "x", "rule", ["два слова"]), mk.errors.ParameterError),
        (lambda: store.add_relation("a.md", "r", "a]] [[b"), mk.errors.ParameterError),
        (lambda: store.add_observation("Склад", "x", "rule"), ChangeRefusedError),
        (lambda: store.add_observation("Скад", "x", "rule"), NotFoundError),
    ):
        with pytest.raises(error):
            work()


def test_a_file_of_a_memfs_keeps_its_front_matter_its_limit_and_its_lock(tmp_path: Path) -> None:
    head = "---\r\ndescription: 'о чём' # mine\r\nlimit: 12\r\n---\r\n"
    files = {
        "system/a.md": (head + "текст\r\n").encode(),
        "system/b.md": b"---\ndescription: b\nread_only: true\n---\nx\n",
    }
    store = mk.store(write_files(tmp_path, {**files, "c.md": "без шапки\n"})).memfs
    store.describe("system/a.md", "цены: в копейках", now=NOW)
    store.append("system/a.md", "и чай", now=NOW)
    wanted = head.replace("'о чём'", "'цены: в копейках'") + "текст\r\n\r\nи чай\r\n"
    assert (tmp_path / "system/a.md").read_bytes().decode() == wanted
    store.describe("c.md", "слово", now=NOW)
    assert (tmp_path / "c.md").read_text("utf-8") == '---\ndescription: "слово"\n---\nбез шапки\n'
    assert "missing_field" not in mk.read(tmp_path).problems["rule"].to_pylist()
    with pytest.raises(PolicyRefusal, match="limit"):
        store.append("system/a.md", "ещё")
    for work in (lambda: store.append("system/b.md", "x"), lambda: store.describe("system/b.md", "x")):
        with pytest.raises(ChangeRefusedError, match="read_only"):
            work()


def test_memories_of_serena_are_written_below_their_folder_alone(tmp_path: Path) -> None:
    store = mk.store(tmp_path).serena
    path = store.write("core/стиль", "текст", now=NOW)
    assert path == ".serena/memories/core/стиль.md"
    with pytest.raises(ChangeRefusedError, match="exists already"):
        store.write("core/стиль", "другое")
    store.append("core/стиль", "ещё", now=NOW)
    assert (tmp_path / path).read_text("utf-8") == "текст\n\nещё\n"
    assert mk.store(tmp_path / ".serena/memories").serena.append("core/стиль", "x", now=NOW) == "core/стиль.md"
    for name in ("../x", "/x", "a//b", "a/../b", ".", "", "a\\b"):
        with pytest.raises(mk.errors.ParameterError):
            store.write(name, "x")
    with pytest.raises(NotFoundError, match=r"core/стиль"):
        store.append("core/стилль", "x")
