"""`Estimator`: scikit-learn's estimator contract, made from declared parameters, without importing scikit-learn."""

from __future__ import annotations

import copy
import html
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import pyarrow as pa

from memkit.errors import ParameterError, did_you_mean
from memkit.params.declare import Param, describe

C = TypeVar("C", bound=type)

_WIDTH = 100
_SECTION = re.compile(r"^[A-Z][\w ]*\n-{3,}$", re.MULTILINE)
_Row = tuple[Param, object, bool]
"""A declaration, its value, and whether the value differs from the default."""


@dataclass_transform(kw_only_default=True)
def estimator(cls: C) -> C:
    """Make ``__init__`` and the docstring's section *Parameters* from the declared parameters.

    ``__init__`` only stores the parameters, which are keyword-only unless declared otherwise.
    """
    dataclass(kw_only=True, eq=False, repr=False)(cls)
    params = {f.name: f.metadata["param"] for f in fields(cls) if "param" in f.metadata}
    declared = {name: replace(p, name=name) for name, p in params.items()}
    for name, p in declared.items():
        if p.stands_for is not None:
            setattr(cls, name, _StandsFor(name, p.stands_for))
    cls._declared = MappingProxyType(declared)  # type: ignore[attr-defined]  # of Estimator
    cls.__doc__ = with_parameters(cls.__doc__, declared.values())
    return cls


class _StandsFor:
    """A parameter that is None in signatures and `Estimator.get_params`, but is read as the value that None means."""

    def __init__(self, name: str, meaning: object) -> None:
        self.name, self.meaning = name, meaning

    def __get__(self, owner: object, cls: type) -> Any:
        value = None if owner is None else vars(owner)[self.name]
        return self.meaning if value is None else value

    def __set__(self, owner: object, value: object) -> None:
        vars(owner)[self.name] = value


class Estimator:
    """The part of scikit-learn's contract that needs only declared parameters: get, set, clone, tag and show them."""

    learns: ClassVar[bool] = True  # whether other methods need what `fit` learns

    _declared: ClassVar[Mapping[str, Param]] = MappingProxyType({})

    def __new__(cls, *positional: Any, **named: Any) -> Self:
        """Refuse an undeclared name before Python does, as Python would not suggest the right name."""
        for name in named:
            cls._check_name(name, cls._declared)
        return super().__new__(cls)

    @classmethod
    def params(cls) -> Mapping[str, Param]:
        """The declared parameters by name, in order."""
        return cls._declared

    @classmethod
    def describe_params(cls) -> pa.Table:
        """The declared parameters as a table: name, group, default, expected, refit, doc, source."""
        rows = [
            {
                "name": p.name,
                "group": p.group or None,
                "default": p.default_text,
                "expected": p.expected,
                "refit": p.refit,
                "doc": p.doc,
                "source": p.source,
            }
            for p in by_group(cls.params().values())
        ]
        return describe(pa.Table.from_pylist(rows), memkit="params")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also those of estimators among them, for example ``retriever__pool``."""
        values = {name: vars(self)[name] for name in self._declared}
        if deep:
            for name, inner in self._inner().items():
                values |= {f"{name}__{key}": value for key, value in inner.get_params().items()}
        return values

    def set_params(self, **values: Any) -> Self:
        """Set parameters by their names in `get_params` and return the estimator.

        Raises
        ------
        ParameterError
            For a name that is not declared.
        """
        for name, value in values.items():
            outer, _, key = name.partition("__")
            if key and outer in (inner := self._inner()):
                inner[outer].set_params(**{key: value})
            else:
                self._check_name(name, self._declared if name in self._declared else self.get_params())
                setattr(self, name, value)
        return self

    def with_params(self, **values: Any) -> Self:
        """A copy with other parameters that shares everything fitted, at no cost.

        Raises
        ------
        ParameterError
            For a name that is not declared, a value that is not allowed, or a parameter that acts at fit.
        """
        for name in values:
            self._check_name(name, self._declared)
            if self._declared[name].refit:
                raise ParameterError(
                    f"{type(self).__name__}.with_params: expected parameters that need no fit. Got '{name}', which acts"
                    " at fit: use set_params and fit."
                )
        other = copy.copy(self).set_params(**values)
        other.check_params()
        return other

    def check_params(self, **overrides: Any) -> dict[str, Any]:
        """All parameters, checked, with `overrides` applied; None is replaced by the value that it stands for."""
        values = {name: getattr(self, name) for name in self._declared} | overrides
        for name, declared in self._declared.items():
            if values[name] is None and declared.stands_for is not None:
                values[name] = declared.stands_for
            elif values[name] is not declared.default:  # most are the default; every search calls this
                declared.check(values[name], type(self).__name__)
        return values

    def _inner(self) -> dict[str, Any]:
        """The estimators among the parameters, by name."""
        values = {name: vars(self)[name] for name, p in self._declared.items() if p.kind == "object"}
        return {n: v for n, v in values.items() if hasattr(v, "get_params") and not isinstance(v, type)}

    @classmethod
    def _check_name(cls, name: str, names: Iterable[str]) -> None:
        if name not in names:
            expected = f"Expected one of {', '.join(names)}.{did_you_mean(name, names)}"
            raise ParameterError(f"{cls.__name__}: no parameter '{name}'. {expected}")

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` was called, or there is nothing to learn."""
        return not self.learns or any(name.endswith("_") and not name.startswith("_") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]) if hasattr(self, "transform") else None,
            requires_fit=self.learns,
            input_tags=InputTags(string=True, allow_nan=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    def __repr__(self) -> str:
        changed = (f"{n}={vars(self)[n]!r}" for n, p in self._declared.items() if not self._is_default(n, p))
        return f"{type(self).__name__}({', '.join(changed)})"

    def _is_default(self, name: str, declared: Param) -> bool:
        value, default = vars(self)[name], declared.default
        return value is default or (type(value) is type(default) and bool(value == default))

    def _state(self) -> str:
        """A few words on what is fitted, for the display in a notebook."""
        return ""

    def _repr_html_(self) -> str:
        """The parameters as an HTML table, with changed ones marked, and what is fitted."""
        rows = [(p, getattr(self, n), not self._is_default(n, p)) for n, p in self._declared.items()]
        return html_table(repr(self), self._state(), rows)


def with_parameters(doc: str | None, declared: Iterable[Param]) -> str | None:
    """A docstring with a numpydoc *Parameters* section of the declarations before its other sections."""
    ordered = by_group(declared)
    section = "\n".join(map(_entry, ordered))
    if doc is None or not section:
        return doc
    groups = {p.group: ", ".join(f"`{one.name}`" for one in ordered if one.group == p.group) for p in ordered}
    text = inspect.cleandoc(doc)
    first = _SECTION.search(text)
    head, rest = (text[: first.start()].rstrip(), text[first.start() :]) if first else (text, "")
    if any(groups):
        lines = (
            textwrap.fill(f"- {group}: {names}", _WIDTH, subsequent_indent="  ") for group, names in groups.items()
        )
        head += "\n\nParameters by what they act on:\n\n" + "\n".join(lines)
    return f"{head}\n\nParameters\n----------\n{section}" + (f"\n\n{rest}" if rest else "")


def by_group(declared: Iterable[Param]) -> list[Param]:
    """The declarations sorted by group: 'first' before the others, which keep their order."""
    listed = list(declared)
    groups = list(dict.fromkeys(["first", *(p.group for p in listed)]))
    return sorted(listed, key=lambda p: groups.index(p.group))


def _entry(declared: Param) -> str:
    unit = f", {declared.unit}" if declared.unit else ""
    nullable = " or None" if declared.nullable and declared.default is not None else ""
    default = f", default {declared.default_text}" if declared.default_text else ""
    head = f"{declared.name} : {declared.type}{unit}{nullable}{default}"
    words = [declared.doc]
    if declared.refit:
        words.append("Acts at fit.")
    if declared.source:
        words.append(f"Source: {declared.source}.")
    return "\n".join([head, *textwrap.wrap(" ".join(words), _WIDTH, initial_indent="    ", subsequent_indent="    ")])


def html_table(title: str, state: str, rows: Iterable[_Row]) -> str:
    """HTML of a title line that opens to a table of the parameters; all text is escaped."""
    body = "".join(map(_html_row, rows))
    head = "<tr><th>parameter</th><th>value</th><th>expected</th><th>meaning</th></tr>"
    state = f" <small>{html.escape(state)}</small>" if state else ""
    return f"<details><summary><code>{html.escape(title)}</code>{state}</summary><table>{head}{body}</table></details>"


def _html_row(row: _Row) -> str:
    declared, value, changed = row
    text = html.escape(textwrap.shorten(repr(value), _WIDTH, placeholder=" …"))
    name, expected, doc = map(html.escape, (declared.name, declared.expected, declared.doc))
    cell = f"<b>{text}</b>" if changed else text
    return f"<tr><td>{name}</td><td>{cell}</td><td>{expected}</td><td>{doc}</td></tr>"
