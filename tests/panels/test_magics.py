"""The magics of a notebook, in a shell of IPython without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from IPython.core.interactiveshell import InteractiveShell

import memkit as mk


@pytest.fixture
def shell() -> Iterator[Any]:
    InteractiveShell.clear_instance()
    instance = InteractiveShell.instance()
    instance.run_line_magic("load_ext", "memkit")
    instance.run_line_magic("reload_ext", "memkit")
    yield instance
    InteractiveShell.clear_instance()


@pytest.mark.quick
def test_the_corpus_made_last_answers_where_none_is_named(shell: Any) -> None:
    shell.run_cell("import memkit as mk\nold = mk.from_table({'text': ['чай']})")
    shell.run_cell("new = mk.from_table({'text': ['кофе', 'квас']})")
    count = "select count(*) as n from memories"
    assert shell.run_cell_magic("memsql", "", count)["n"].tolist() == [2]
    assert shell.run_cell_magic("memsql", "old", count)["n"].tolist() == [1]
    with pytest.raises(mk.errors.ParameterError, match="Did you mean 'old'"):
        shell.run_cell_magic("memsql", "odl", count)
    with pytest.raises((mk.errors.QueryError, duckdb.Error)):
        shell.run_cell_magic("memsql", "", "select nothing from nowhere")


@pytest.mark.quick
def test_a_search_is_asked_by_words(shell: Any) -> None:
    with pytest.raises(mk.errors.ParameterError, match="Got none"):
        shell.run_line_magic("memsearch", "чай")
    shell.user_ns["search"] = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["чай", "кофе"]}))
    assert shell.run_line_magic("memsearch", "кофе")["memory_id"].to_pylist() == ["1"]
    assert shell.run_line_magic("memsearch", "-s search чай")["memory_id"].to_pylist() == ["0"]
