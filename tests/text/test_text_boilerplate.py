from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import ParameterError
from memkit.text.boilerplate import BOILERPLATE, PATTERNS, evidence


def test_examples_are_boilerplate_alone_and_others_are_evidence() -> None:
    for one in BOILERPLATE:
        told = evidence(pa.array(one.examples), [one.pattern]).to_pylist()
        assert [text.strip() for text in told] == [""] * len(one.examples), one.name
        assert evidence(pa.array(one.others, pa.string()), PATTERNS).to_pylist() == [*one.others], one.name


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
    assert "are boilerplate, which counts for nothing" in str(mk.explain(search, "пул", "a", as_of="2026-03-01"))
    alone = mk.Retriever(encoder=None, gram_weight=0.0).fit(corpus)
    assert alone.search("Ниночка", as_of="2026-03-01")["memory_id"].to_pylist() == ["c"]
    everything = mk.Retriever(encoder=None, gram_weight=0.0, boilerplate=()).fit(corpus)
    assert {*everything.search("Ниночка", as_of="2026-03-01")["memory_id"].to_pylist()} == {"a", "b", "c"}


def test_a_section_of_boilerplate_alone_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("## Итоги\n\n<!-- сведено -->\n---\n\n## Чай\n\nЗелёный.\n", "utf-8")
    search = mk.Retriever(encoder=None).fit(mk.read(tmp_path))
    assert search.search("итоги").num_rows == 0
    assert "has no letters beside boilerplate" in str(mk.explain(search, "итоги", "workspace:MEMORY.md#итоги"))


def test_patterns_of_ones_own_are_saved_and_checked(tmp_path: Path) -> None:
    corpus = mk.from_table(pa.table({"memory_id": ["a", "b"], "text": ["[бот] чай", "кофе"]}))
    search = mk.Retriever(encoder=None, boilerplate=(r"\[бот\]",)).fit(corpus)
    search.save(tmp_path)
    loaded = mk.Retriever.load(tmp_path, corpus)
    assert loaded.get_params()["boilerplate"] == (r"\[бот\]",)
    assert loaded.search("бот").num_rows == search.search("бот").num_rows == 0
    with pytest.raises(ParameterError, match=r"'boilerplate' must be regular expressions of RE2. Got '\(\?<=a\)b'"):
        mk.Retriever(encoder=None, boilerplate=("(?<=a)b",)).fit(corpus)
