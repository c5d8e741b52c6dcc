"""Write notebooks/90_reference.ipynb from the declarations: nothing in it is written by hand.

    python tests/notebooks/reference.py

A changed parameter, column, rule, query, command or public name changes the page, and a test fails until it is made
again; refresh.py makes it too.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import nbformat
import typer.main

import memkit as mk
from memkit.base.params import Estimator, Param
from memkit.cli.app import app_for
from memkit.evaluation.metrics import _METRICS
from memkit.presets import DOCUMENTS
from memkit.schemas import CHUNKS, KINDS, TABLES

TARGET = Path(__file__).parents[2] / "notebooks" / "90_reference.ipynb"
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_KINDS = {"mk.panels": "panel", "mk.plot": "picture"}
INTRO = """# Reference

Every public name, table, column, rule, parameter, named query and command, as they are declared; memkit's own checks,
messages, sliders and options come from the same declarations. The other notebooks show how they work together;
[00_tour](00_tour.ipynb) is the first.

*Коротко: всё, что объявлено: имена, таблицы, правила, параметры с единицами и источниками, запросы, команды.*

In Python: `help(mk.Retriever)`, `mk.Retriever.describe_params()`, `mk.rules()`, `mk.named_queries()` and
`mk.schemas.TABLES`."""


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as Markdown; columns in which nothing stands are left out."""
    cells = [[_cell(value) for value in row] for row in rows]
    used = [position for position in range(len(heads)) if any(row[position] for row in cells)]
    lines = [
        [heads[position] for position in used],
        ["---"] * len(used),
        *([row[position] for position in used] for row in cells),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    text = " ".join(str(value).split())
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def names() -> str:
    """Every public name, with the first sentence that is said of it."""
    rows = [_named(name, value) for name, value in _public().items()]
    return "## Public names\n\n" + table(("name", "is a", "what for"), rows)


def _public() -> dict[str, Any]:
    """Every public name with what it names: memkit's own, then those of its rooms."""
    names = {name: getattr(mk, name) for name in sorted(mk.__all__, key=str.casefold)}
    rooms = {name: value for name, value in names.items() if hasattr(value, "__all__")}
    inside = {f"mk.{room}.{name}": getattr(module, name) for room, module in rooms.items() for name in module.__all__}
    return {f"mk.{name}": value for name, value in names.items()} | inside


def _named(name: str, value: Any) -> tuple[str, str, str]:
    """A row about a public name: what it is, and what for."""
    kind = "module" if isinstance(value, types.ModuleType) else "class" if inspect.isclass(value) else "function"
    if inspect.isclass(value) and issubclass(value, mk.MemkitError):
        kind = "error"
    kind = _KINDS.get(name.rpartition(".")[0], kind)
    return _code(name), kind, _first(value)


def _first(value: Any) -> str:
    text = inspect.getdoc(value) or ""
    return " ".join(text.partition("\n\n")[0].split())


def tables() -> list[str]:
    """Each table with its columns."""
    parts = []
    for name, schema in {**TABLES, "chunks": CHUNKS}.items():
        rows = [
            (
                _code(field.name),
                str(field.type).replace("item: ", ""),
                _field_metadata(field, "unit"),
                _field_metadata(field, "meaning"),
            )
            for field in schema
        ]
        parts.append(f"### `{name}`\n\n" + table(("column", "type", "unit", "meaning"), rows))
    first = "## Tables\n\n`corpus.tables` has them by name, and `corpus.sql` knows them under it."
    half = len(parts) // 2
    return ["\n\n".join([first, *parts[:half]]), "\n\n".join(parts[half:])]


def _field_metadata(field: Any, key: str) -> str:
    return (field.metadata or {}).get(key.encode(), b"").decode()


def kinds() -> str:
    """Each kind of memory and what follows from it."""
    flags = [name for name in _fields(next(iter(KINDS.values()))) if name != "name"]
    rows = [
        (_code(name), *("yes" if (value := getattr(kind, flag)) is True else value or "" for flag in flags))
        for name, kind in KINDS.items()
    ]
    return "## Kinds of memory\n\n" + table(("kind", *(flag.replace("_", " ") for flag in flags)), rows)


def _fields(value: Any) -> list[str]:
    return list(value.__dataclass_fields__)


def parameters() -> list[str]:
    """Every parameter of every class that declares some."""
    classes = {name: value for name, value in _public().items() if _declares(value)}
    parts = [
        f"### `{name}`\n\n{_first(cls)}\n\n"
        + table(
            ("parameter", "default", "expected", "unit", "fit", "what for", "source"), map(_row, cls.params().values())
        )
        for name, cls in classes.items()
    ]
    first = (
        "## Parameters\n\nBounds in square brackets belong to what is allowed, round ones do not. *fit*: a change "
        "needs another `fit`. *source*: the document behind it, and its section; where there is none, the parameter is "
        "memkit's."
    )
    half = next(position for position, cls in enumerate(classes.values()) if cls is mk.Retriever)
    return ["\n\n".join([first, *parts[:half]]), "\n\n".join(parts[half:])]


def _declares(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Estimator) and bool(value.params())


def _row(p: Param) -> tuple[str, ...]:
    expected = p.expected.removesuffix(f", {p.unit}") if p.unit else p.expected
    return _code(p.name), _shortened(p.default_text), expected, p.unit, "yes" if p.refit else "", p.doc, p.source


def _shortened(text: str, max_chars: int = 80) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def presets() -> str:
    """Each preset of a search, and what it rests on."""
    rows = [(_code(f"mk.presets.{name}"), mk.presets.evidence.get(name, "")) for name in mk.presets.RETRIEVER]
    used = [
        (_code(document.format), document.title, "; ".join(document.sections.values()))
        for document in DOCUMENTS.values()
    ]
    return (
        "## Presets and documents\n\n"
        + table(("preset of a search", "rests on"), rows)
        + "\n\n"
        + table(("format", "document", "sections"), used)
    )


def rules() -> list[str]:
    """Every check of a reader, by format."""
    declared = mk.rules().to_pylist()
    formats = list(dict.fromkeys(rule["format"] for rule in declared))
    parts = []
    for name in formats:
        rows = [
            (_code(rule["code"]), rule["severity"], rule["field"], rule["checks"], rule["fix"])
            for rule in declared
            if rule["format"] == name
        ]
        parts.append(f"### {name}\n\n" + table(("rule", "severity", "field", "expected", "mended by mk.Fix"), rows))
    first = (
        "## Rules\n\n`memkit check FOLDER` and `corpus.problems` say where one is broken. `any` holds for each file."
    )
    half = len(parts) // 2
    return ["\n\n".join([first, *parts[:half]]), "\n\n".join(parts[half:])]


def queries() -> str:
    """Each named query with its SQL."""
    parts = ["## Named queries\n\n`corpus.named(name)`, or `memkit sql FOLDER NAME`."]
    for query in mk.named_queries().to_pylist():
        takes = f" Takes {query['parameters']}." if query["parameters"] else ""
        day = " Asks for a day, `as_of`." if query["needs_as_of"] else ""
        sql = query["sql"].partition("\n")[2].strip()
        parts.append(f"### `{query['name']}`\n\n{query['question']}{takes}{day}\n\n```sql\n{sql}\n```")
    return "\n\n".join(parts)


def metrics() -> str:
    """Each metric."""
    known = ", ".join(map(_code, _METRICS))
    return f'## Metrics\n\n`mk.evaluate(…, metrics=["ndcg@10"])` takes them with a depth, or without one: {known}.'


def commands() -> str:
    """Each command with its arguments and options."""
    parts = ["## Commands\n\n`memkit COMMAND --help` says the same."]
    for name, command in sorted(typer.main.get_command(app_for([])).commands.items()):  # type: ignore[attr-defined]  # a group
        rows = [
            (_code(_spelled(option)), getattr(option, "help", "") or "")
            for option in command.params
            if option.name != "help"
        ]
        parts.append(f"### `memkit {name}`\n\n{command.help}\n\n" + table(("takes", "what for"), rows))
    return "\n\n".join(parts)


def _spelled(option: Any) -> str:
    return ", ".join(option.opts) if option.param_type_name == "option" else str(option.metavar or option.name.upper())


def cells() -> list[str]:
    """The page."""
    return [INTRO, names(), *tables(), kinds(), *parameters(), presets(), *rules(), queries(), metrics(), commands()]


def notebook_json() -> str:
    """The notebook as JSON."""
    markdown_cells = [
        nbformat.v4.new_markdown_cell(text, id=f"cell-{number:02d}") for number, text in enumerate(cells())
    ]
    notebook = nbformat.v4.new_notebook(cells=markdown_cells, metadata=nbformat.from_dict(_METADATA))
    notebook.nbformat_minor = 5
    return nbformat.writes(notebook).rstrip("\n") + "\n"


if __name__ == "__main__":
    TARGET.write_text(notebook_json(), encoding="utf-8", newline="\n")
    print(f"{TARGET.name}: {len(cells())} cells")
