"""Notebooks are what refresh.py made of them. That their outputs are right is compared by nbval."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from memkit.formats.format import DOCUMENTED
from memkit.formats.registry import FORMATS

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))

_LAST = "Try it yourself"
_FORMAT = ("The rule", "The smallest data", "The same in SQL", "What real data looks like", _LAST)
_STAGE = (
    "The rule and its source",
    "The smallest table that shows it",
    "The same in SQL",
    "What each parameter does",
    "What it costs, and where it fails",
    _LAST,
)
_POLICY = (_STAGE[0], "The formula with units", *_STAGE[1:])
HEADINGS: dict[str, tuple[str, ...]] = {
    "00_tour": (
        "Read a folder",
        "Look at it",
        "Search by words and by meaning",
        "Why was this found, and that not?",
        "Ask in SQL",
        "What would a policy do?",
        "What would a prompt get?",
        "Where to go next",
        _LAST,
    ),
    **dict.fromkeys(("01_index_tree", "02_workspace", "03_notes", "04_records", "05_facts"), _FORMAT),
    "10_fusion": (*_STAGE[:-2], "What it buys", *_STAGE[-2:]),
    **dict.fromkeys(("11_decay_in_ranking", "12_analysers", "13_trace"), _STAGE),
    **dict.fromkeys(
        (
            "20_admission",
            "21_classify",
            "23_quota",
            "24_expiry",
            "25_decay",
            "26_index_check_and_split",
            "27_pipeline_and_replay",
            "28_context",
            "29_records",
        ),
        _POLICY,
    ),
    "22_dedup": (*_POLICY[:2], "Whose fact it is", *_POLICY[2:]),
}
"""The second-level headings of the notebooks that document a set of them; later notebooks add theirs."""

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|tmp|Users|private|var/folders)/\w|[A-Z]:\\+Users\\")


_INSIDE = re.compile(r"^ *(?:from memkit[\w.]* import|import memkit(?:\.|$|,))", re.MULTILINE)


@pytest.mark.quick
def test_a_notebook_imports_no_part_of_memkit_that_is_not_public() -> None:
    assert _by_notebook(lambda path: [cell.source for cell in _code(path) if _INSIDE.search(cell.source)]) == {}


@pytest.fixture(scope="module")
def refresh(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("notebooks/refresh.py")


@cache
def _read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def _code(path: Path) -> list[Any]:
    return [cell for cell in _read(path).cells if cell.cell_type == "code"]


def _headings(path: Path, level: int) -> list[str]:
    texts = [cell.source for cell in _read(path).cells if cell.cell_type == "markdown"]
    return re.findall(rf"^{'#' * level} (.+)$", "\n".join(texts), re.MULTILINE)


def _by_notebook(look: Callable[[Path], list[Any]]) -> dict[str, list[Any]]:
    """What is found in notebooks, by their names; those without it are left out."""
    return {path.name: items for path in PATHS if (items := look(path))}


def _tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


@pytest.mark.quick
def test_there_is_a_tour_and_a_notebook_for_each_format() -> None:
    named = {path.stem.partition("_")[2] for path in PATHS}
    assert {"tour", *DOCUMENTED, "linked_notes", "small_layouts"} <= named
    text = "\n".join(cell.source for path in PATHS for cell in _read(path).cells)
    assert [format.name for format in FORMATS if not re.search(rf"\b{format.name.replace('_', '.')}\b", text)] == []


@pytest.mark.quick
def test_every_code_cell_was_run_once_from_the_top() -> None:
    # nbval never compares a cell without a count.
    def counts(path: Path) -> list[int]:
        return [cell.execution_count for cell in _code(path) if "skip-execution" not in _tags(cell)]

    assert {path.name: counts(path) for path in PATHS} == {
        path.name: list(range(1, len(counts(path)) + 1)) for path in PATHS
    }


def test_the_file_is_as_refresh_writes_it(refresh: ModuleType, subtests: pytest.Subtests) -> None:
    for path in PATHS:
        with subtests.test(path.name):
            assert path.read_text(encoding="utf-8") == refresh.as_text(refresh.cleaned(_read(path)))


def test_the_tour_leads_to_every_other_notebook() -> None:
    text = "\n".join(cell.source for cell in _read(NOTEBOOKS / "00_tour.ipynb").cells)
    assert [path.name for path in PATHS if f"({path.name})" not in text] == ["00_tour.ipynb"]


def test_the_tour_is_short() -> None:
    assert len(_read(NOTEBOOKS / "00_tour.ipynb").cells) <= 20


def test_a_notebook_has_less_than_25_cells() -> None:
    assert [path.name for path in PATHS if len(_read(path).cells) >= 25] == []


def test_a_notebook_ends_with_a_panel_that_is_there_without_a_kernel(subtests: pytest.Subtests) -> None:
    for path in PATHS:
        last = _read(path).cells[-1]
        if path.stem != "90_reference":
            with subtests.test(path.name):
                assert "mk.panels." in last.source
                page = "".join(output.data.get("text/html", "") for output in last.outputs)
                assert "<table" in page
                assert 'src="data:image/png;base64,' in page


_OPENS = re.compile(r"""\bmk\.(?:read|open)\(f?["'].*""")


def test_a_notebook_starts_from_data_that_ships() -> None:
    assert _by_notebook(lambda path: _OPENS.findall("\n".join(cell.source for cell in _code(path)))) == {}


def test_no_line_ends_in_a_semicolon() -> None:
    # It does not suppress an output under nbval; `_ =` does.
    def lines(path: Path) -> list[str]:
        return [line for cell in _code(path) for line in cell.source.splitlines()]

    assert _by_notebook(lambda path: [line for line in lines(path) if line.rstrip().endswith(";")]) == {}


def test_no_cell_fails_unless_it_says_so() -> None:
    failed = _by_notebook(
        lambda path: [
            cell.source
            for cell in _code(path)
            if "raises-exception" not in _tags(cell) and any(output.output_type == "error" for output in cell.outputs)
        ]
    )
    assert failed == {}


def test_no_cell_writes_a_warning() -> None:
    def streams(path: Path) -> list[Any]:
        return [output for cell in _code(path) for output in cell.outputs if output.output_type == "stream"]

    assert _by_notebook(lambda path: [output.text for output in streams(path) if output.name == "stderr"]) == {}


_AS_OF = re.compile(r"as of[^0-9]{0,40}([0-9]{4}-[0-9]{2}-[0-9]{2})")


def test_no_output_is_of_the_day_on_which_it_was_made() -> None:
    def days(path: Path) -> list[str]:
        sources = "".join(cell.source for cell in _read(path).cells)
        return sorted({day for cell in _code(path) for day in _AS_OF.findall(str(cell.outputs)) if day not in sources})

    assert _by_notebook(days) == {}


def test_no_path_of_a_machine_is_in_it() -> None:
    of_this = re.compile("|".join(re.escape(f"{place}/") for place in (NOTEBOOKS.parent, tempfile.gettempdir())))
    texts = {path: path.read_text(encoding="utf-8") for path in PATHS}
    assert _by_notebook(lambda path: MACHINE_PATH.findall(texts[path]) + of_this.findall(texts[path])) == {}


def test_it_opens_with_its_one_title(subtests: pytest.Subtests) -> None:
    for path in PATHS:
        first = _read(path).cells[0]
        with subtests.test(path.name):
            assert first.cell_type == "markdown"
            assert first.source.startswith("# ")
            assert len(_headings(path, 1)) == 1


def test_the_documented_headings_are_there_in_order() -> None:
    headings = {name: tuple(_headings(NOTEBOOKS / f"{name}.ipynb", 2)) for name in HEADINGS}
    assert headings == HEADINGS


def test_a_notebook_says_at_its_end_where_to_go_next() -> None:
    def last(path: Path) -> str:
        return [cell.source for cell in _read(path).cells if cell.cell_type == "markdown"][-1]

    ends = {path.name: last(path) for path in PATHS if path.stem not in ("00_tour", "90_reference")}
    assert [name for name, text in ends.items() if not re.search(r"\]\(\w+\.ipynb\)", text)] == []


def test_links_to_other_notebooks_lead_somewhere() -> None:
    def linked(path: Path) -> list[str]:
        return re.findall(r"\]\(([^)#:]+\.ipynb)", "\n".join(cell.source for cell in _read(path).cells))

    assert _by_notebook(lambda path: [name for name in linked(path) if not (path.parent / name).is_file()]) == {}


def test_cleaning_keeps_content_and_takes_out_what_a_run_adds(refresh: ModuleType) -> None:
    output = nbformat.v4.new_output(
        "execute_result",
        {
            "text/plain": "<Thing at 0x7f0123456789> 12 s",
            "application/vnd.jupyter.widget-view+json": {"model_id": "a1"},
        },
        metadata={"isolated": True},
        execution_count=3,
    )
    cell = nbformat.v4.new_code_cell(
        "thing\n\n",
        outputs=[output],
        execution_count=3,
        metadata={"tags": ["raises-exception"], "execution": {"iopub.status.busy": "2026-03-01T10:00:00Z"}},
    )
    notebook = nbformat.v4.new_notebook(
        cells=[cell], metadata={"widgets": {"state": {}}, "language_info": {"name": "python", "version": "3.11.7"}}
    )
    result = refresh.cleaned(notebook)
    assert result.metadata == refresh.METADATA
    assert result.cells[0] == {
        "cell_type": "code",
        "id": "cell-00",
        "metadata": {"tags": ["raises-exception"]},
        "execution_count": 3,
        "source": "thing",
        "outputs": [
            {
                "output_type": "execute_result",
                "execution_count": 3,
                "metadata": {},
                "data": {"text/plain": "<Thing at 0xADDRESS> 12 s"},
            }
        ],
    }
    assert notebook.cells[0].source == "thing\n\n"


def test_cleaning_twice_is_cleaning_once(refresh: ModuleType) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Заголовок\n"),
            nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("stream", text="at 0xabcdef01\n")]),
        ]
    )
    once = refresh.as_text(refresh.cleaned(notebook))
    assert refresh.as_text(refresh.cleaned(nbformat.reads(once, as_version=4))) == once


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<object at 0x7f01ab23cd45>", "<object at 0xADDRESS>"),
        ("/somewhere/ipykernel_4711/12345.py:3: UserWarning", "CELL.py:3: UserWarning"),
        ('<style>#T_1a2b3 td {}</style><table id="T_1a2b3">', '<style>#T_STYLE td {}</style><table id="T_STYLE">'),
        ("VBox(children=('IPY_MODEL_0123456789abcdef0123456789abcdef',))", "VBox(children=('IPY_MODEL',))"),
    ],
)
def test_what_changes_from_run_to_run_is_sanitised(refresh: ModuleType, text: str, expected: str) -> None:
    assert refresh.sanitised(text) == expected


@pytest.mark.parametrize(
    "text", ["7d3c5a10-8e1f-11f0-9b2d-0242ac120002", "14 s", "0x2A", "2026-03-01T08:11:30Z", "E4021"]
)
def test_results_are_never_sanitised_away(refresh: ModuleType, text: str) -> None:
    assert refresh.sanitised(text) == text
