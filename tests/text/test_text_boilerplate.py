from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import memkit as mk
from memkit.errors import ParameterError
from memkit.text.boilerplate import BOILERPLATE, PATTERNS, evidence


@pytest.mark.quick
def test_examples_are_boilerplate_alone_and_others_are_evidence() -> None:
    for one in BOILERPLATE:
        remaining = evidence(pa.array(one.examples), [one.pattern]).to_pylist()
        assert [text.strip() for text in remaining] == [one.rest] * len(one.examples), one.name
        assert evidence(pa.array(one.others, pa.string()), PATTERNS).to_pylist() == [*one.others], one.name


@pytest.mark.quick
def test_boilerplate_is_shown_but_found_by_no_arm() -> None:
    texts = {
        "a": 'Sender (untrusted metadata):\n```json\n{"label": "Ниночка"}\n```\n\nuser: Пул соединений вырос до 15.',
        "b": "<!-- Ниночка -->",
        "c": "Чай с Ниночкой.",
    }
    corpus = mk.from_table(pa.table({"memory_id": [*texts], "text": [*texts.values()]}))
    search = mk.Retriever(encoder="hash").fit(corpus)
    hits = search.search("Ниночка", as_of="2026-03-01")
    assert hits["memory_id"].to_pylist()[0] == "c"
    (of_a,) = search.search("пул соединений", k=1, as_of="2026-03-01").to_pylist()
    assert of_a["text"] == texts["a"]
    assert of_a["snippet"] == "user: Пул соединений вырос до 15."
    assert texts["a"][of_a["snippet_start"] : of_a["snippet_end"]] == of_a["snippet"]
    prompt = mk.ContextBuilder(search).build(corpus, None, "пул соединений", as_of="2026-03-01").text
    assert "- user: Пул соединений вырос до 15." in prompt
    assert "untrusted" not in prompt
    assert "are boilerplate or targets of links, which are not searched" in str(
        mk.explain(search, "пул", "a", as_of="2026-03-01")
    )
    alone = mk.Retriever(encoder=None, gram_weight=0.0).fit(corpus)
    assert alone.search("Ниночка", as_of="2026-03-01")["memory_id"].to_pylist() == ["c"]
    everything = mk.Retriever(encoder=None, gram_weight=0.0, index=mk.Index(boilerplate=())).fit(corpus)
    assert {*everything.search("Ниночка", as_of="2026-03-01")["memory_id"].to_pylist()} == {"a", "b", "c"}


@pytest.mark.quick
def test_boilerplate_is_looked_for_in_a_snippet_where_a_fit_saw_some_after_a_refit_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {"a": f"<!-- seen -->\n{'Пул соединений вырос. ' * 20}", "b": f"{'[[s|Пул]] соединений мал. ' * 20}"}
    search = mk.Retriever(encoder=None, gram_weight=0.0).fit(
        mk.from_table({"memory_id": [*texts], "text": [*texts.values()]})
    )
    looked: list[str] = []
    monkeypatch.setattr("memkit.text.boilerplate.spans", lambda text, patterns: looked.append(text[:4]) or [(0, 14)])
    assert not any("seen" in snippet for snippet in search.search("пул", as_of="2026-03-01")["snippet"].to_pylist())
    texts["c"] = "Пул стоит."
    search.fit(mk.from_table({"memory_id": [*texts], "text": [*texts.values()]}))
    assert search.search("пул", as_of="2026-03-01").num_rows == 3
    assert looked == ["<!--", "<!--"]


def test_a_section_of_boilerplate_alone_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("## Итоги\n\n<!-- сведено -->\n---\n\n## Чай\n\nЗелёный.\n", "utf-8")
    search = mk.Retriever(encoder=None).fit(mk.read(tmp_path))
    assert search.search("итоги").num_rows == 0
    assert "has no letters beside boilerplate" in str(mk.explain(search, "итоги", "workspace:MEMORY.md#итоги"))


def test_patterns_of_ones_own_are_saved_and_checked(tmp_path: Path) -> None:
    corpus = mk.from_table(pa.table({"memory_id": ["a", "b"], "text": ["[бот] чай", "кофе"]}))
    search = mk.Retriever(encoder=None, index=mk.Index(boilerplate=(r"\[бот\]",))).fit(corpus)
    search.save(tmp_path)
    loaded = mk.Retriever.load(tmp_path, corpus)
    assert loaded.index.boilerplate == (r"\[бот\]",)
    assert loaded.search("бот").num_rows == search.search("бот").num_rows == 0
    with pytest.raises(ParameterError, match=r"'boilerplate' must be regular expressions of RE2. Got '\(\?<=a\)b'"):
        mk.Retriever(encoder=None, index=mk.Index(boilerplate=("(?<=a)b",))).fit(corpus)


@pytest.mark.outside
def test_a_link_counts_as_its_text_in_every_arm_shard_and_refit(tmp_path: Path) -> None:
    plain = {
        "a": "См. Журнал печи и записи смены.",
        "b": "## Журнал печи\n\nАгафья ведёт журнал печи по вечерам.",
        "c": "First read Tea of the attic, then the rest.",
        "d": "Kept in the attic.",
    }
    linked = plain | {
        "a": "См. [[zhurnal-pechi|Журнал печи]] и записи смены.",
        "c": "First read [Tea of the attic](../en/tea-attic.md#steps), then the rest.",
    }
    settings = {"encoder": "hash", "fold": "none"}
    options = {"k": 4, "as_of": "2026-03-01", "columns": ("memory_id", "score", "bm25", "gram", "vector", "line_start")}
    words = ["журнал печи", "tea attic", "zhurnal pechi", "en tea-attic.md steps"]

    def table(texts: dict[str, str]) -> mk.Corpus:
        return mk.from_table(pa.table({"memory_id": [*texts], "text": [*texts.values()]}))

    expected = mk.Retriever(**settings).fit(table(plain)).search(words, **options)
    table(linked).save(tmp_path / "shards", buckets=2)
    changed = mk.Retriever(**settings).fit(table(linked | {"a": "Пока пусто."}))
    searches = {
        "memory": mk.Retriever(**settings).fit(table(linked)),
        "shards": mk.Retriever(**settings).fit(mk.open(tmp_path / "shards")),
        "refit": changed.fit(table(linked)),
    }
    for name, search in searches.items():
        hits = search.search(words, **options)
        for column in ("query_id", "memory_id", "score", "bm25", "gram", "vector"):
            assert hits[column].to_pylist() == expected[column].to_pylist(), (name, column)
        (first,) = search.search("агафья смены", k=1, where="memory_id = 'a'", as_of="2026-03-01").to_pylist()
        assert (first["text"], first["snippet"]) == (linked["a"], linked["a"]), name
        assert first["text"][first["snippet_start"] : first["snippet_end"]] == first["snippet"], name


def test_a_page_is_found_by_its_title_before_those_that_link_to_it(tmp_path: Path) -> None:
    prose = "Работу начинают после росы. Ключ лежит у ворот, второй у сменщика. Остаток пересчитывают по весне."
    pages = {"журнал-печи.md": f"# Журнал печи\n\n{prose}\n"}
    for number, link in enumerate(("[[журнал-печи|Журнал печи]]", "[Журнал печи](журнал-печи.md)")):
        pages[f"смена-{number}.md"] = f"# Смена {number}\n\nПосле смены {number} заполняют {link}. {prose}\n"
    for name, text in pages.items():
        (tmp_path / name).write_text(text, "utf-8")
    corpus = mk.read(tmp_path)
    titles = {
        name: mk.Retriever(encoder=None, **settings)
        .fit(corpus)
        .search("Журнал печи", as_of="2026-03-01", columns=("path",))
        for name, settings in {"now": {}, "whole": {"index": mk.Index(boilerplate=())}}.items()
    }
    assert titles["now"]["path"].to_pylist()[0] == "журнал-печи.md"
    assert titles["whole"]["path"].to_pylist()[0] != "журнал-печи.md"
    linking = corpus.memories.filter(pc.equal(corpus.memories["path"], "смена-0.md"))
    assert "[[журнал-печи|Журнал печи]]" in linking["text"][0].as_py()


def test_a_table_in_pieces_with_nulls_loses_what_each_pattern_alone_takes() -> None:
    examples = [text for one in BOILERPLATE for text in (*one.examples, *one.others)]
    texts = pa.chunked_array([pa.array(["чай", None, *examples]), pa.array([], pa.string()), pa.array(examples[::-1])])
    for patterns in (PATTERNS, PATTERNS[:1], ["а", "x*", *PATTERNS[2:5]], []):
        expected = texts
        for pattern in patterns:
            expected = pc.replace_substring_regex(expected, pattern, r"\1" if "(?P<kept>" in pattern else "")
        assert evidence(texts, patterns).chunks == [expected.combine_chunks()]
    with pytest.raises(ParameterError, match="RE2"):
        evidence(texts, [*PATTERNS, "a)|(b"])
