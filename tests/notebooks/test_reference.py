"""The page of reference holds all that is declared, and is as its script makes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import nbformat
import pytest

import memkit as mk
from memkit.base.params import Estimator
from memkit.cli.app import app_for
from memkit.schemas import KINDS, TABLES

PAGE = Path(__file__).parents[2] / "notebooks" / "90_reference.ipynb"
CELLS = [cell.source for cell in nbformat.read(PAGE, as_version=4).cells]
AGAIN = "make it anew: python tests/notebooks/reference.py"


def section(title: str) -> str:
    """What stands below a heading of the third level."""
    match = re.search(rf"^### `?{re.escape(title)}`?$(.*?)(?=^##|\Z)", "\n".join(CELLS), re.DOTALL | re.MULTILINE)
    assert match is not None, f"{title}: {AGAIN}"
    return match[1]


def first_cells(text: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


@pytest.mark.outside
@pytest.mark.quick
def test_every_public_name_is_in_it() -> None:
    named = first_cells("\n".join(CELLS))
    rooms = {name: value for name in mk.__all__ if hasattr(value := getattr(mk, name), "__all__")}
    assert {"extend", "labels", "panels", "plot", "records", "testing"} <= set(rooms)
    public = {f"mk.{name}" for name in mk.__all__}
    public |= {f"mk.{room}.{name}" for room, module in rooms.items() for name in module.__all__}
    assert public - named == set(), AGAIN


@pytest.mark.quick
@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_a_table_is_in_it(name: str) -> None:
    assert first_cells(section(name)) == set(TABLES[name].names), AGAIN


@pytest.mark.outside
@pytest.mark.quick
def test_every_parameter_is_in_it_with_its_bounds_unit_and_source() -> None:
    for name, cls in [
        *((f"mk.{name}", getattr(mk, name)) for name in mk.__all__),
        *((f"mk.extend.{name}", getattr(mk.extend, name)) for name in mk.extend.__all__),
    ]:
        if isinstance(cls, type) and issubclass(cls, Estimator):
            for p in cls.params().values():
                (row,) = re.findall(rf"^\| `{p.name}` \|.*$", section(name), re.MULTILINE)
                expected = p.expected.removesuffix(f", {p.unit}") if p.unit else p.expected
                for cell in (expected, p.unit, p.doc, p.source):
                    assert " ".join(cell.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*") in row


def test_every_rule_query_command_and_kind_is_in_it() -> None:
    text = "\n".join(CELLS)
    named = first_cells(text)
    assert set(mk.rules()["code"].to_pylist()) <= named, AGAIN
    assert set(KINDS) <= named, AGAIN
    headings = set(re.findall(r"^### `([^`]+)`$", text, re.MULTILINE))
    assert set(mk.named_queries()["name"].to_pylist()) <= headings, AGAIN
    verbs = [command for command in app_for([]).registered_commands if command.callback]
    assert {f"memkit {verb.name or verb.callback.__name__}" for verb in verbs if verb.callback} <= headings


def test_it_is_as_its_script_makes_it(script: Callable[[str], ModuleType]) -> None:
    assert PAGE.read_text(encoding="utf-8") == script("notebooks/reference.py").notebook_json(), AGAIN
