"""What is written is read back as it was, in the documents' own style; a change of one value leaves all else."""

from __future__ import annotations

import json
import tempfile
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import ChangeRefusedError, FormatError
from memkit.formats.index_tree.index import format_branch, format_root
from memkit.formats.notes import format_note, parse_note
from memkit.formats.records.write import checked_record, with_records
from memkit.formats.syntax import front_matter
from memkit.formats.syntax.places import Head, Yaml, block, pretty, scalar, spliced


def a_file(record: dict[str, Any], ending: str = ".json") -> str:
    """A new file of one record."""
    return with_records(f"one{ending}", None, [checked_record(record)[1]], is_list=False)


@pytest.mark.quick
def test_fields_are_written_in_the_documents_order_however_they_are_given() -> None:
    entry, note = (dict(reversed(fields.items())) for fields in (GOOD_ENTRY, GOOD_NOTE))
    assert format_branch("lessons", [entry]) == format_branch("lessons", [GOOD_ENTRY])
    assert format_note(note, "Без сахара.") == format_note(GOOD_NOTE, "Без сахара.")
    assert list(parse_note(format_note(note, "Без сахара."))[0]) == list(GOOD_NOTE)


# --- parse after format is the identity --------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00"), max_size=40)
NASTY = st.sampled_from(
    [
        *("yes", "null", "~", "1e3", "0o12", "10:00", "- a", "a: b", "#x", "чай # мёд", " a", "a ", "\x85", "\u2028"),
        *("\ufeff", "'", '"', "\\", "[", "{}", "!!int", "&a", "*a", "|", ">", "%", "@", "`", "?", "\t", "\U0001f36f"),
        *("=", "<<", "."),
    ]
)
STRING = TEXT | NASTY
VALUE = STRING | st.lists(STRING, max_size=3)


@given(STRING)
def test_every_reader_of_yaml_reads_a_scalar_back(text: str) -> None:
    for loader in (yaml.CSafeLoader, yaml.SafeLoader):
        assert yaml.load(f"a: {scalar(text)}\n", Loader=loader) == {"a": text}  # both are safe
        assert yaml.load(block({"k": {text: [text, {"b": text}]}}), Loader=loader) == {"k": {text: [text, {"b": text}]}}


@given(
    st.dictionaries(st.sampled_from(["x", "author", "Ключ", "a b"]), VALUE, max_size=3),
    STRING,
    STRING,
    st.lists(STRING, min_size=1, max_size=3),
)
def test_a_note_is_read_back_as_it_was_written(
    other_fields: dict[str, Any], subject: str, body: str, words: list[str]
) -> None:
    fields = {
        "id": "550e8400-e29b-41d4-a716-446655440000",
        "subject": f"с {subject}",
        "keywords": [f"к{word}" for word in words],
        "applies_to": "area:чай",
        "created_at": "2025-01-15T10:30:00Z",
        "updated_at": "2025-01-15T10:30:00Z",
        **other_fields,
    }
    body = f"Десять знаков {body}"
    assert parse_note(format_note(fields, body)) == (fields, body)


ID = st.text("абвxyz_.09", min_size=1, max_size=8)
NUMBER = st.floats(0, 1) | st.sampled_from([0, 1])
RELATION = st.fixed_dictionaries(
    {"fact_id": ID, "type": st.sampled_from(["supports", "extends"]), "weight": NUMBER}, optional={"why": STRING}
)
RECORDS = {
    "pathway": st.fixed_dictionaries(
        {
            "format_version": st.just("1.0.0"),
            "id": ID,
            "triggers": st.lists(STRING, max_size=3),
            "template": STRING,
            "variables": st.dictionaries(ID, STRING, max_size=2),
            "tier": st.sampled_from(["core", "adaptive", "experimental"]),
            "usage_stats": st.fixed_dictionaries(
                {"hits": st.integers(0, 2**40), "success_rate": NUMBER, "last_used_at": st.just("2025-01-14T10:15:30Z")}
            ),
        },
        optional={"more": STRING},
    ),
    "memory_item": st.fixed_dictionaries(
        {
            "format_version": st.just("1.0.0"),
            "user_id": ID,
            "input": STRING.map("?".__add__),
            "response": STRING,
            "timestamp": st.just("2025-01-14T10:17:02Z"),
            "tags": st.lists(STRING, max_size=3),
        },
        optional={"more": st.lists(st.integers() | STRING, max_size=3)},
    ),
    "wisdom_fact": st.fixed_dictionaries(
        {
            "format_version": st.just("1.2.0"),
            "fact_id": ID,
            "category": ID,
            "content": STRING,
            "confidence": NUMBER,
            "relations": st.lists(RELATION, max_size=2),
        }
    ),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_in_json_and_in_yaml_is_the_same_record(kind: str) -> None:
    @settings(max_examples=12)
    @given(st.lists(RECORDS[kind], min_size=1, max_size=8))
    def check(records: list[dict[str, Any]]) -> None:
        with tempfile.TemporaryDirectory() as place:
            for number, record in enumerate(records):
                as_json, as_yaml = a_file(record), a_file(record, ".yaml")
                assert json.loads(as_json) == record
                assert yaml.safe_load(as_yaml) == record
                mk.testing.write_files(place, {f"j/{number}.json": as_json, f"y/{number}.yaml": as_yaml})
            tables = [mk.read(f"{place}/{name}").tables for name in ("j", "y")]
            table = {"pathway": "pathways", "memory_item": "memory_items", "wisdom_fact": "wisdom_facts"}[kind]
            for name, dropped in ((table, ["memory_id", "path", "extra"]), ("relations", ["memory_id"])):
                from_json, from_yaml = (read_tables[name].drop_columns(dropped) for read_tables in tables)
                assert from_json.equals(from_yaml)
            assert tables[0]["memories"]["text"].equals(tables[1]["memories"]["text"])
            assert set(tables[0]["problems"]["rule"].to_pylist()) <= {
                *(
                    *("empty_text", "duplicate_id", "dangling_relation", "self_relation", "bad_value"),
                    "unknown_placeholder",
                ),
                "contradictory_relation",
            }

    check()


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "title": STRING.map("т".__add__),
                "file": ID,
                "tags": st.lists(STRING, max_size=3),
                "priority": st.sampled_from(["high", "medium", "low"]),
                "version": st.just("1.0"),
                "updated": st.just("2025-06-25"),
            },
            optional={"x": STRING, "pinned": st.booleans(), "access_count": st.integers(0, 99)},
        ),
        max_size=3,
    )
)
def test_an_index_is_read_back_as_it_was_written(entries: list[dict[str, Any]]) -> None:
    assert json.loads(format_branch("чай", entries)) == {"type": "index-branch", "category": "чай", "files": entries}
    assert json.loads(pretty(entries)) == entries


# --- strict ------------------------------------------------------------------------------------------------------

GOOD_NOTE = {
    **{"id": "6ba7b811-9dad-11d1-80b4-00c04fd430c8", "subject": "Чай", "keywords": ["чай"], "applies_to": "global"},
    **dict.fromkeys(("created_at", "updated_at"), "2025-01-15T10:30:00Z"),
}
GOOD_ENTRY = {
    **{"title": "Чай", "file": "lessons/tea.md", "tags": ["чай"], "priority": "high", "version": "1.0"},
    "updated": "2025-06-25",
}


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"id": None}, "id", "must be there"),
        ({"subject": "x" * 201}, "subject", "1 to 200 characters"),
        ({"keywords": []}, "keywords", "1 to 20 keywords"),
        ({"keywords": "чай"}, "keywords", "a list of strings"),
        ({"applies_to": "file:"}, "applies_to", "global, file:<path> or area:<name>"),
        ({"created_at": "вчера"}, "created_at", "an ISO 8601 time stamp"),
        ({"subject": "\ud800"}, "subject", "lone surrogates"),
    ],
)
def test_a_note_is_written_strictly(changes: dict[str, Any], field: str, message: str) -> None:
    """Memory Format, Validation Rules."""
    with pytest.raises(FormatError, match=message) as caught:
        format_note({**GOOD_NOTE, **changes}, "Десять знаков и ещё.")
    assert caught.value.field == field
    with pytest.raises(FormatError, match="at least 10 characters"):
        format_note(GOOD_NOTE, "коротко")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"priority": "urgent"}, "high, medium, low"),
        ({"updated": "25.06.2025"}, "a date YYYY-MM-DD"),
        ({"tags": None}, "'tags' must be there"),
        ({"title": " "}, "a title that is not empty"),
        ({"version": 1.0}, "'version' must be a string"),
        ({"access_count": -1}, "0 or more"),
    ],
)
def test_an_entry_is_written_strictly(changes: dict[str, Any], message: str) -> None:
    """Index standard, section 1: required fields, priority, updated."""
    with pytest.raises(FormatError, match=message):
        format_branch("lessons", [{**GOOD_ENTRY, **changes}])
    with pytest.raises(FormatError, match="'path' must be a string"):
        format_root([{"category": "a"}])


# --- a change of one value ---------------------------------------------------------------------------------------

HEADS = [
    "id: 1\nsubject:   Чай   # горячий\nkeywords: [a,  b , 'c']\nupdated: 2026-01-01\n",
    "id: 1\r\nsubject: \"Чай\"\r\nkeywords:\r\n- a\r\n-   b\r\nupdated: '2026-01-01'\r\n",
    "subject: Foo\nkeywords:\n    - a\n    # note\n    - b\nupdated: ~\nid: +1\n",
    "id: {a:   1}\nsubject: >\n  сложено\n  в строки\nkeywords: []\nupdated:\n",
    '? id\n: 1\nsubject: "\\u00e9"\nkeywords: [a]\nupdated: !foo 2026\n',
]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("key", "value"),
    [("subject", "Мёд: да"), ("keywords", ["x", "y: z"]), ("updated", "2026-03-01"), ("new", "чай"), ("list", ["a"])],
)
def test_a_field_of_front_matter_changes_and_nothing_else(head: str, mark: str, key: str, value: Any) -> None:
    newline = "\r\n" if "\r" in head else "\n"
    text = f"{mark}---{newline}{head}---{newline}{newline}тело --- # не трогать"
    try:
        splice = Head(text).set_value([key], value)
    except ChangeRefusedError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert ("сложено" in head and key == "subject") or "# note" in head or "!foo" in head
        return
    changed = spliced(text, [splice])
    assert changed[: splice.start] == text[: splice.start]
    assert changed[splice.start + len(splice.text) :] == text[splice.end :]
    before, after = (front_matter.split(t.removeprefix("\ufeff").replace("\r\n", "\n")) for t in (text, changed))
    assert before
    assert after
    assert dict(after.fields) == {**before.fields, key: value}
    assert "\n" not in splice.text.replace("\r\n", "") or newline == "\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("чай", "no front matter"),
        ("---\na: 1\na: 2\n---\n", "twice"),
        ("---\nb: &x 1\na: *x\n---\n", "anchors"),
        ("---\n{a: 1}\n---\n", "a key a line"),
        ("---\na: b: c\n---\n", "no YAML"),
        ("---\na: |\n  x\n---\n", "spread over lines"),
        ("---\na: {b: 1}\n---\n", "spread over lines"),
    ],
)
def test_what_cannot_be_spliced_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ChangeRefusedError, match=reason):
        Head(text).set_value(["a"], "x")


def test_a_value_within_a_yaml_record_changes_and_nothing_else() -> None:
    text = 'id: pool\nusage_stats:\n  hits:  128   # много\n  last_used_at: "2025-01-14T10:15:30Z"\n'
    assert spliced(text, [Yaml(text).set_value(["usage_stats", "hits"], 129)]) == text.replace("128 ", "129 ")
    changed = spliced(text, [Yaml(text).set_value(["usage_stats", "last_used_at"], "2026-01-01T00:00:00Z")])
    assert changed == text.replace("2025-01-14T10:15:30Z", "2026-01-01T00:00:00Z")
    with pytest.raises(ChangeRefusedError, match=r"no field 'usage_stats[.]misses'"):
        Yaml(text).set_value(["usage_stats", "misses"], 1)


def test_a_value_below_a_key_that_is_not_there_is_refused() -> None:
    with pytest.raises(ChangeRefusedError, match=r"no field 'usage_stats[.]hits'"):
        Yaml("id: pool\n").set_value(["usage_stats", "hits"], 1)
