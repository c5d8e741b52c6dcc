"""The data formats for a day: their own examples byte for byte, and nothing is put that the reader finds ill."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import ChangeRefusedError, FormatError, MemkitError, NotFoundError, ParameterError, VersionError
from tests.folders import tree

NOW = "2026-03-01T10:00:00"


@pytest.fixture(scope="module")
def document(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("documents/records.py")


def rows(root: Path, table: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = mk.read(root).tables[table].to_pylist()
    return records


@pytest.mark.quick
@pytest.mark.parametrize(
    "name", ["pathway.json", "pathway.yaml", "item.json", "item.yaml", "fact.json", "fact.yaml", "FACT.YML"]
)
def test_the_documents_examples_are_written_byte_for_byte(name: str, document: ModuleType, tmp_path: Path) -> None:
    """Section 3: the six examples, their fields in any order, the version given or not (section 1)."""
    record, text = document.WRITTEN[name.lower().replace(".yml", ".yaml")]
    records = mk.store(tmp_path).records
    if name.lower().startswith("fact"):
        records.put(document.KNOWN)
    shuffled = dict(reversed(record.items()))
    del shuffled["format_version"]
    assert records.put(shuffled, name, now=NOW) == name
    assert tree(tmp_path)[name].decode() == text
    assert mk.read(tmp_path).problems.num_rows == 0
    mk.undo(tmp_path)
    assert name not in tree(tmp_path)


@pytest.mark.quick
def test_the_examples_are_put_at_once_each_in_its_own_file_or_in_one(document: ModuleType, tmp_path: Path) -> None:
    """Section 2: one record, or a list of them, all or none."""
    records = mk.store(tmp_path).records
    examples = [document.PATHWAY, document.ITEM, document.KNOWN, document.FACT]
    names = records.put(examples, now=NOW)
    assert names == [
        *("pathway.intent.support.json", "user_42-2025-01-14T10-17-02Z.json"),
        *("wisdom.security.input_validation.json", "wisdom.safety.no_exec.json"),
    ]
    assert tree(tmp_path)["wisdom.safety.no_exec.json"].decode() == document.WRITTEN["fact.json"][1]
    assert mk.read(tmp_path).problems.num_rows == 0
    mk.undo(tmp_path)
    assert tree(tmp_path) == {}
    with pytest.raises(FormatError, match="an id that no other pathway has"):
        records.put([document.ITEM, document.PATHWAY, document.PATHWAY])
    assert tree(tmp_path) == {}
    for name in ("all.json", "all.jsonl", "all.yaml"):
        assert records.put(examples, name, now=NOW) == [name] * 4
        assert mk.read(tmp_path).memories["source_id"].to_pylist() == [
            *("pathway.intent.support", None, "wisdom.security.input_validation", "wisdom.safety.no_exec")
        ]
        assert mk.read(tmp_path).problems.num_rows == 0
        mk.undo(tmp_path)


@pytest.mark.quick
def test_two_items_of_one_user_in_one_second_are_two_files(document: ModuleType, tmp_path: Path) -> None:
    """Section 2.2: nothing says that a user asks once a second."""
    records = mk.store(tmp_path).records
    other = {**document.ITEM, "input": "И как остановить?"}
    assert records.put([document.ITEM, other, {**other, "user_id": "USER_42"}], now=NOW) == [
        *("user_42-2025-01-14T10-17-02Z.json", "user_42-2025-01-14T10-17-02Z-2.json"),
        "USER_42-2025-01-14T10-17-02Z-3.json",
    ]
    assert records.put(document.ITEM, now=NOW) == "user_42-2025-01-14T10-17-02Z-4.json"
    assert records.put({**document.ITEM, "user_id": "u/1"}, now=NOW) == "u-1-2025-01-14T10-17-02Z.json"
    assert mk.read(tmp_path).problems.num_rows == 0
    assert len(rows(tmp_path, "memory_items")) == 5


@pytest.mark.parametrize(
    ("record", "changed", "error", "message"),
    [
        ("PATHWAY", {"format_version": "2.0.0"}, VersionError, "MAJOR 1"),
        ("PATHWAY", {"format_version": "0.9.0"}, VersionError, "MAJOR 1"),
        ("PATHWAY", {"format_version": "1.0"}, FormatError, "MAJOR.MINOR.PATCH"),
        ("PATHWAY", {"format_version": 1}, FormatError, "format_version"),
        ("PATHWAY", {"tier": ""}, FormatError, "'tier' must be a string that is not empty"),
        ("PATHWAY", {"usage_stats": {"hits": -1}}, FormatError, "'hits' must be .*0 or more"),
        ("PATHWAY", {"usage_stats": {"success_rate": 1.5}}, FormatError, "'success_rate'"),
        ("PATHWAY", {"usage_stats": {"last_used_at": "вчера"}}, FormatError, "'last_used_at'"),
        ("PATHWAY", {"triggers": "help"}, FormatError, "'triggers' must be a list of strings"),
        ("PATHWAY", {"triggers": None}, FormatError, "'triggers'"),
        ("PATHWAY", {"variables": []}, FormatError, "'variables'"),
        ("PATHWAY", {5: "x"}, FormatError, "name"),
        ("PATHWAY", {"more": {5: "x"}}, FormatError, "name"),
        ("PATHWAY", {"more": frozenset()}, FormatError, "JSON"),
        ("PATHWAY", {"more": float("nan")}, FormatError, "JSON"),
        ("FACT", {"confidence": 1.5}, FormatError, r"'confidence' must be a number in 0\.\.1\. Got 1\.5"),
        ("FACT", {"confidence": "0.5"}, FormatError, "'confidence' must be a number"),
        ("FACT", {"relations": [{"fact_id": "a", "type": "", "weight": 1}]}, FormatError, "'type' must be a string"),
        ("ITEM", {"timestamp": "2025-13-01"}, FormatError, "an ISO 8601 time stamp"),
        ("ITEM", {"tags": {1, 2}}, FormatError, "expected what JSON can hold"),
        ("ITEM", {"response": "\ud800"}, FormatError, "lone surrogates"),
    ],
    ids=ascii,
)
def test_what_the_reader_would_report_is_not_written(
    record: str, changed: dict[Any, Any], error: type[MemkitError], message: str, document: ModuleType, tmp_path: Path
) -> None:
    """Sections 1 and 2: the version's MAJOR, the types, the ranges."""
    with pytest.raises(error, match=message):
        mk.store(tmp_path).records.put({**getattr(document, record), **changed})
    assert tree(tmp_path) == {}


def test_later_minor_versions_are_fine(document: ModuleType, tmp_path: Path) -> None:
    """Section 1: MINOR adds optional fields, PATCH changes no structure."""
    mk.store(tmp_path).records.put({**document.PATHWAY, "format_version": "1.7.3", "note": "новое поле"})
    assert mk.read(tmp_path).problems.num_rows == 0


@pytest.mark.parametrize(
    ("record", "changed", "rule"),
    [
        ("PATHWAY", {"tier": "gold"}, "bad_value"),
        ("PATHWAY", {"template": "{кто} и {user_request}"}, "unknown_placeholder"),
        ("PATHWAY", {"usage_stats": {"hits": 1, "success_rate": 1}}, "missing_recommended"),
        ("FACT", {}, "dangling_relation"),
        ("KNOWN", {"relations": [{"fact_id": "wisdom.a", "type": "explains", "weight": 1}]}, "bad_value"),
    ],
)
def test_what_the_document_only_recommends_is_written_with_a_warning(
    record: str, changed: dict[str, Any], rule: str, document: ModuleType, tmp_path: Path
) -> None:
    """Section 2: the tiers are examples, the structure of usage_stats and relations is recommended."""
    fields = {**getattr(document, record), **changed}
    with pytest.warns(RuntimeWarning) as caught:
        name = mk.store(tmp_path).records.put(fields)
    problems = mk.read(tmp_path).problems.to_pylist()
    assert rule in [problem["rule"] for problem in problems]
    assert len(caught) == 1
    assert all(problem["message"] in str(caught[0].message) for problem in problems)
    assert json.loads(tree(tmp_path)[name]) == fields
    assert Path(caught[0].filename).name == "test_records.py"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("note.txt", FormatError),
        ("note.md", FormatError),
        ("note", FormatError),
        ("", ParameterError),
        (5, ParameterError),
        (b"x.json", ParameterError),
        ("../x.json", ChangeRefusedError),
        ("/x.json", ChangeRefusedError),
        (".x/x.json", ChangeRefusedError),
        ("node_modules/x.json", ChangeRefusedError),
        ("users/anna/meta.json", FormatError),
        ("old/x.json", FormatError),
        ("one.json", ChangeRefusedError),
        ("one.yaml", ChangeRefusedError),
        ("memory/index.json", ChangeRefusedError),
        ("broken.json", MemkitError),
    ],
    ids=str,
)
def test_a_record_is_put_only_where_the_reader_takes_it_for_one(
    name: Any, error: type[MemkitError], document: ModuleType, tmp_path: Path
) -> None:
    files = {
        "one.json": json.dumps(document.KNOWN),
        "one.yaml": "a: 1\n",
        "memory/index.json": '{"type": "index-root", "branches": []}',
        "broken.json": "[{",
        "old/.memkitignore": "",
    }
    mk.testing.write_files(tmp_path, files)
    before = tree(tmp_path)
    with pytest.raises(error) as caught:
        mk.store(tmp_path).records.put(document.PATHWAY, name)
    assert "\n" not in str(caught.value)
    assert tree(tmp_path) == before


LISTS = {
    "block.yaml": ("- {old}\n- {older}\n", 2),
    "indented.yaml": ("# мои\n  - {old}\n  - {older}\n# конец\n", 2),
    "windows.yml": ("- {old}\r\n- {older}", 2),
    "flow.yaml": ("[{old}, {older}]\n", 2),
    "empty.yaml": ("[]\n", 0),
    "bom.yaml": ("\ufeff- {old}\n\n", 1),
    "documents.yaml": ("---\n{old}\n---\n{older}\n", 2),
    "tall.json": ("[\n  {old},\n  {older}\n]\n", 2),
    "flat.json": ("[{old}, {older}]", 2),
    "bom.json": ("\ufeff[\n  {old}\n]\n", 1),
    "none.json": ("[]", 0),
    "lines.jsonl": ("{old}\n{older}", 2),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_grows_at_its_end_in_yaml_as_in_json(name: str, document: ModuleType, tmp_path: Path) -> None:
    """Section 2: a record goes into the list where that is; no byte of the others changes."""
    text, count = LISTS[name]
    for id in ("old", "older"):
        item = json.dumps({**document.KNOWN, "fact_id": id}, ensure_ascii=False)
        text = text.replace(f"{{{id}}}", item)
    (tmp_path / name).write_bytes(text.encode())
    records = mk.store(tmp_path).records
    records.put([document.KNOWN, document.PATHWAY], name, now=NOW)
    after = (tmp_path / name).read_bytes().decode()
    start = text.rstrip("\r\n]").removesuffix("\n# конец") if count else text[: text.index("[")]
    assert after.startswith(start)
    assert ("\r\n" in after) == ("\r\n" in text)
    assert after.replace("\r\n", "").count("\r") == 0
    corpus = mk.read(tmp_path)
    assert corpus.memories["source_id"].to_pylist() == [
        *("old", "older")[:count],
        *("wisdom.security.input_validation", "pathway.intent.support"),
    ]
    assert corpus.problems.num_rows == 0
    records.put(document.ITEM, name, now=NOW)
    assert mk.read(tmp_path).problems.num_rows == 0
    mk.undo(tmp_path)
    mk.undo(tmp_path)
    assert (tmp_path / name).read_bytes() == text.encode()


# --- use ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pathway.json", "pathway.yaml", "list.json", "lines.jsonl"])
def test_a_use_changes_three_numbers_of_the_example(name: str, document: ModuleType, tmp_path: Path) -> None:
    """Section 2.1, usage_stats: hits, success_rate, last_used_at, and no other byte, also beside another pathway."""
    record, text = document.WRITTEN[name if name in document.WRITTEN else "pathway.json"]
    other, before, end = json.dumps({**record, "id": "other"}), "", ""
    if name == "list.json":
        before, end = f"[{other},\n", "]"
    if name == "lines.jsonl":
        before, text, end = f"{other}\r\n", json.dumps(record), "\r\n"
    (tmp_path / name).write_bytes(f"{before}{text}{end}".encode())
    used = mk.store(tmp_path).records.record_use(record["id"], False, now=NOW)
    rate = round(0.94 * 128 / 129, 12)
    assert used == {"hits": 129, "success_rate": rate, "last_used_at": "2026-03-01T10:00:00Z"}
    after = text.replace("128", "129").replace("0.94", str(rate)).replace("2025-01-14T10:15:30Z", used["last_used_at"])
    assert tree(tmp_path)[name].decode() == f"{before}{after}{end}"
    assert mk.read(tmp_path).problems.num_rows == 0
    mk.undo(tmp_path)
    assert tree(tmp_path)[name].decode() == f"{before}{text}{end}"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", ["", "  "])
def test_a_use_is_counted_in_a_list_of_yaml_too(
    indent: str, newline: str, document: ModuleType, tmp_path: Path
) -> None:
    """Section 2.1: wherever the pathway stands, its three numbers change."""
    text = document.WRITTEN["pathway.yaml"][1]
    item = indent + "- " + text.replace("\n", f"\n{indent}  ").rstrip(" ")
    other_item = item.replace("pathway.intent.support", "other")
    whole = f"# мои\n{other_item}{item}# между\n{other_item.replace('other', 'last')}".replace("\n", newline)
    (tmp_path / "list.yaml").write_bytes(whole.encode())
    used = mk.store(tmp_path).records.record_use("pathway.intent.support", True, now=NOW)
    new = item.replace("128", "129").replace("0.94", str(used["success_rate"]))
    new = new.replace("2025-01-14T10:15:30Z", used["last_used_at"])
    after = whole.replace(item.replace("\n", newline), new.replace("\n", newline))
    assert (tmp_path / "list.yaml").read_bytes().decode() == after
    assert mk.read(tmp_path).problems.num_rows == 0


def test_a_fact_is_corrected_under_its_id(document: ModuleType, tmp_path: Path) -> None:
    """Its id, its format_version and what memkit does not know stay; one step, which can be undone."""
    fact = {**document.FACT, "format_version": "1.2.0", "mood": {"x": 1}}
    root = mk.testing.write_files(
        tmp_path, {"w.json": json.dumps([document.KNOWN, fact], ensure_ascii=False, indent=2)}
    )
    before, records = tree(root), mk.store(root).records
    relations = [{"fact_id": document.KNOWN["fact_id"], "type": "extends", "weight": 0.5}]
    assert records.update(fact["fact_id"], confidence=0.5, relations=relations) == fact["fact_id"]
    assert json.loads((root / "w.json").read_text("utf-8")) == [
        document.KNOWN,
        {**fact, "confidence": 0.5, "relations": relations},
    ]
    refused: tuple[tuple[type[MemkitError], dict[str, Any]], ...] = (
        (FormatError, {"confidence": 2}),
        (FormatError, {"relations": [{"fact_id": "a", "weight": 7}]}),
        (ParameterError, {"fact_id": "other"}),
        (ParameterError, {"format_version": "9.0.0"}),
        (ParameterError, {}),
    )
    for error, changed in refused:
        with pytest.raises(error):
            records.update(fact["fact_id"], **changed)
    with pytest.raises(NotFoundError, match="Near it"):
        records.update(fact["fact_id"][:-1], confidence=0.1)
    mk.undo(root)
    assert tree(root) == before


def test_a_broken_line_of_the_journal_of_migrations_is_a_row(tmp_path: Path) -> None:
    step = {"record": "w", "from": "0.9.0", "to": "1.0.0", "time": "2025-01-14T10:15:30Z", "reason": "x"}
    journal = "".join(f"{line}\n" for line in (json.dumps(step), '{"record": "w", "fro', json.dumps({"record": "w"})))
    journal += "".join(f"{json.dumps({**step, **wrong})}\n" for wrong in ({"time": "soon"}, {"from": 5}))
    corpus = mk.read(mk.testing.write_files(tmp_path, {"migrations.jsonl": journal}))
    assert [(row["rule"], row["line"]) for row in corpus.problems.to_pylist()] == [
        ("unparsable", line) for line in (2, 3, 4, 5)
    ]
    moment = datetime.fromisoformat("2025-01-14T10:15:30+00:00")
    assert corpus.sql("select * exclude (path, kind) from migrations").fetchall() == [
        ("w", "0.9.0", "1.0.0", moment, "x")
    ]


def test_the_last_use_never_goes_back(document: ModuleType, tmp_path: Path) -> None:
    """Section 2.1: last_used_at is the last; a use that is told late is still counted."""
    records = mk.store(tmp_path).records
    records.put(document.PATHWAY)
    before = tree(tmp_path)["pathway.intent.support.json"].decode()
    used = records.record_use("pathway.intent.support", True, now="2024-12-31")
    assert used["last_used_at"] == "2025-01-14T10:15:30Z"
    after = before.replace("128", "129").replace("0.94", str(used["success_rate"]))
    assert tree(tmp_path)["pathway.intent.support.json"].decode() == after


@pytest.mark.parametrize("success", ["no", 1, 0, None, 0.5, "true"])
def test_success_is_true_or_false(success: Any, document: ModuleType, tmp_path: Path) -> None:
    records = mk.store(tmp_path).records
    records.put(document.PATHWAY)
    before = tree(tmp_path)
    with pytest.raises(ParameterError, match="'success' must be a bool"):
        records.record_use("pathway.intent.support", success)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("stats", "message"), [({"hits": -3}, "'hits'"), ({"hits": 2, "success_rate": 7}, "'success_rate'")]
)
def test_a_use_is_not_counted_on_numbers_that_cannot_be(
    stats: dict[str, Any], message: str, document: ModuleType, tmp_path: Path
) -> None:
    """Section 2.1: a share of 0..1 and a count."""
    mk.testing.write_files(tmp_path, {"p.json": json.dumps({**document.PATHWAY, "usage_stats": stats})})
    with pytest.raises(FormatError, match=message):
        mk.store(tmp_path).records.record_use("pathway.intent.support", True)


def test_two_pathways_of_one_id_are_said(document: ModuleType, tmp_path: Path) -> None:
    mk.testing.write_files(tmp_path, {name: json.dumps(document.PATHWAY) for name in ("a.json", "b.json")})
    with pytest.raises(ChangeRefusedError, match=r"2 pathways .*a\.json:1, b\.json:1"):
        mk.store(tmp_path).records.record_use("pathway.intent.support", True)


def test_what_was_migrated_is_said_and_check_knows_the_journal(tmp_path: Path) -> None:
    """Section 1: migrations are written down; memkit's own journal is no foreign file to memkit."""
    old = {
        **{"id": "p", "triggers": ["a"], "response_template": "Ответь", "variables": {}, "tier": "core"},
        **{"success_count": 3, "failure_count": 1, "last_used": "2025-01-01T00:00:00Z"},
    }
    mk.testing.write_files(
        tmp_path, {"old.json": json.dumps([old]), "old.yaml": f"- {json.dumps({**old, 'id': 'q'})}\n"}
    )
    records = mk.store(tmp_path).records
    with pytest.raises(ChangeRefusedError, match=r"records\.migrate"):
        records.record_use("p", True)
    assert isinstance(records.migrate(now=NOW, dry_run=True), mk.Edits)
    changes = records.migrate(now=NOW).to_pylist()
    assert [(row["path"], row["op"]) for row in changes] == [
        *(("migrations.jsonl", "create"), ("old.json", "update"), ("old.yaml", "refused")),
    ]
    assert "JSON alone" in changes[2]["reason"]
    assert "migrations.jsonl" not in mk.read(tmp_path).problems["path"].to_pylist()
    steps = mk.read(tmp_path).tables["migrations"].select(["path", "kind", "time"]).to_pylist()
    moment = datetime.fromisoformat(f"{NOW}+00:00")
    assert [tuple(row.values()) for row in steps] == [
        *(("migrations.jsonl", None, moment), ("old.yaml", "pathway", None)),
    ]
    assert records.record_use("p", True)["hits"] == 5  # a migrated record is used, what is journalled does not bar it
    mk.testing.write_files(
        tmp_path, {"migrations.jsonl": '{"record": "x"}\n', "old.md.bak": "- Пьёт чай\n", "x.bak": ""}
    )
    rules = {row["path"]: row["rule"] for row in mk.read(tmp_path).problems.to_pylist()}
    assert (rules["migrations.jsonl"], rules["x.bak"], rules.get("old.md.bak")) == ("unclaimed", "unclaimed", None)


# --- every operation -----------------------------------------------------------------------------------------------

ODD: list[Any] = [None, 5, b"x", "x", [], {}, [None], [[]], {"id": 5}, 0.5, {"fact_id": "a", "content": "б"}]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_what_is_no_record_is_refused_in_one_message(odd: Any, tmp_path: Path) -> None:
    with pytest.raises(MemkitError) as caught:
        mk.store(tmp_path).records.put(odd)
    assert "\n" not in str(caught.value)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("odd", [None, 5, b"x", ["a"], {}])
def test_an_id_is_a_text(odd: Any, document: ModuleType, tmp_path: Path) -> None:
    records = mk.store(tmp_path).records
    records.put(document.PATHWAY)
    with pytest.raises(ParameterError, match="id: expected a text"):
        records.record_use(odd, True)
    with pytest.raises(NotFoundError, match=r"pathway\.intent\.support"):
        records.record_use("pathway.intent.suport", True)


# --- the property --------------------------------------------------------------------------------------------------

TEXT = st.text(max_size=12) | st.sampled_from(["1.10", "yes", "null", "- a", "#x", "a: b", "{чай}", "\u0085", "a\r\nb"])
WORDS = st.lists(TEXT, max_size=3)
RATIO = st.floats(0, 1, width=32)
TIME = st.datetimes().map(lambda at: at.replace(microsecond=0).isoformat() + "Z")
OTHER_FIELDS = st.dictionaries(
    st.sampled_from(["note", "(file)", "ключ", "1"]), TEXT | st.integers() | WORDS, max_size=2
)
PATHWAYS = st.fixed_dictionaries(
    {"id": TEXT, "triggers": WORDS, "template": TEXT, "variables": st.dictionaries(TEXT, TEXT, max_size=2)}
    | {"tier": st.sampled_from(["core", "adaptive", "experimental", "gold"])}
    | {
        "usage_stats": st.fixed_dictionaries(
            {"hits": st.integers(0, 2**40), "success_rate": RATIO, "last_used_at": TIME}
        )
    },
)
ITEMS = st.fixed_dictionaries({"user_id": TEXT, "input": TEXT, "response": TEXT, "timestamp": TIME, "tags": WORDS})
FACTS = st.fixed_dictionaries(
    {"fact_id": TEXT, "category": TEXT, "content": TEXT, "confidence": RATIO}
    | {
        "relations": st.lists(
            st.fixed_dictionaries({"fact_id": TEXT, "type": st.just("supports"), "weight": RATIO}), max_size=2
        )
    }
)
RECORDS = st.tuples(PATHWAYS | ITEMS | FACTS, OTHER_FIELDS).map(lambda pair: {**pair[1], **pair[0]})
NAMES = st.sampled_from([None, "a.json", "a.jsonl", "a.yaml", "б/в.yml", "x.ndjson"])
PUTS = st.lists(st.tuples(st.lists(RECORDS, min_size=1, max_size=3), NAMES), min_size=1, max_size=3)
COLUMNS = {
    "pathways": ("id", "triggers", "template", "tier"),
    "memory_items": ("user_id", "input", "response", "tags"),
    "wisdom_facts": ("fact_id", "category", "content", "confidence"),
}


@settings(max_examples=30)
@given(puts=PUTS)
def test_whatever_is_put_is_read_with_the_same_values_and_no_problem_that_was_not_said(
    puts: list[tuple[list[dict[str, Any]], str | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("put")
    records, accepted, messages = mk.store(root).records, list[dict[str, Any]](), ""
    for given_records, name in puts:
        before = tree(root)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                records.put(given_records if len(given_records) > 1 else given_records[0], name)
                accepted += given_records
                messages += " ".join(str(warning.message) for warning in caught)
            except MemkitError:
                assert tree(root) == before
    corpus = mk.read(root)
    assert [row["message"] for row in corpus.problems.to_pylist() if row["message"] not in messages] == []
    for table, columns in COLUMNS.items():
        actual = [tuple(row[name] for name in columns) for row in corpus.tables[table].to_pylist()]
        expected = [tuple(record[name] for name in columns) for record in accepted if columns[2] in record]
        assert sorted(map(repr, actual)) == sorted(map(repr, expected))
