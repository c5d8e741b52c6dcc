"""`Profile`: tuned parameters with the evidence for them, as TOML or JSON."""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import pyarrow as pa

import memkit
from memkit.base.hashes import digest_of_rows
from memkit.base.params import AsOf, Estimator, Param, as_of_time, hint_of, path_of
from memkit.context import ContextBuilder
from memkit.errors import FormatError, ParameterError, did_you_mean
from memkit.formats.disk.files import check_file
from memkit.index.encode import OfFile
from memkit.policy.base import policy_class
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.policy.pipeline import Pipeline
from memkit.search.retriever import Retriever
from memkit.tables.statement import Annotator


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Profile:
    """Settings that were measured, and what they were measured on.

    Attributes
    ----------
    retriever : mapping
        Parameters of `Retriever`: ``mk.Retriever(**profile.retriever)``.
    dedup : mapping
        Parameters of `Deduplicator`.
    policies : mapping of str to mapping
        Parameters of further policies by their names, as ``quota``.
    context : mapping
        Parameters of `ContextBuilder`, but for its retriever.
    evidence : mapping
        Fingerprints of corpus, labels and encoder; metrics, verdict, gain, low, high, p, n_queries, n_groups, looks,
        random_state, date, version and others (`Profile.described` lists them). Nothing is filled in from a clock.
        ``changed`` names the values that differed from memkit's defaults when `Profile.of` made the profile.

    Raises
    ------
    ParameterError
        For a name that is not declared, with the one that was meant, or a value outside of its declaration.

    Examples
    --------
    >>> profile = Profile(retriever={"vector_weight": 0.3, "decay_days": 30.0}, policies={"quota": {"max_facts": 200}})
    >>> print(profile.to_toml())
    [retriever]
    vector_weight = 0.3
    decay_days = 30.0  # days
    <BLANKLINE>
    [policies.quota]
    max_facts = 200  # facts
    <BLANKLINE>
    >>> Profile.from_toml(profile.to_toml()) == profile
    True
    >>> Profile(retriever={"decay_day": 30.0})
    Traceback (most recent call last):
    memkit.errors.ParameterError: profile: no [retriever] parameter 'decay_day'. Did you mean ...
    """

    retriever: Mapping[str, Any] = field(default_factory=_empty)
    dedup: Mapping[str, Any] = field(default_factory=_empty)
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=_empty)
    context: Mapping[str, Any] = field(default_factory=_empty)
    evidence: Mapping[str, Any] = field(default_factory=_empty)

    def __post_init__(self) -> None:
        for section in fields(self):
            contents = getattr(self, section.name)
            if not isinstance(contents, Mapping):
                raise ParameterError(f"profile: expected a table [{section.name}]. Got {contents!r:.80}.")
            if section.name == "policies":
                checked: dict[str, Any] = {name: self._checked(name, values) for name, values in contents.items()}
            else:
                checked = self._checked(section.name, contents)
            object.__setattr__(self, section.name, checked)

    @classmethod
    def _checked(cls, section: str, values: Any) -> dict[str, Any]:
        declared = _declared(section)
        where = section if section in _SECTIONS else f"policies.{section}"
        if not isinstance(values, Mapping):
            raise ParameterError(f"profile: expected a table [{where}]. Got {values!r:.80}.")
        typed = {}
        for name, value in values.items():
            if name not in declared:
                hint = hint_of(name, declared) or f" Expected one of {', '.join(declared)}."
                raise ParameterError(f"profile: no [{where}] parameter '{name}'.{hint}")
            typed[name] = _typed(declared[name], value, where)
        return typed

    @classmethod
    def of(cls, *parts: Estimator, labels: tuple[Any, Any] | None = None, date: AsOf = None, **evidence: Any) -> Self:
        """A profile from fitted or unfitted estimators, with evidence about how they were tuned.

        Parameters
        ----------
        parts : Retriever, Deduplicator, policies, Pipeline, ContextBuilder
            In any order. A fitted Retriever adds its corpus, its encoder and its effective weights to the evidence.
        labels : tuple of queries and qrels, optional
            The labels that were used for tuning.
        date : str, date or datetime, optional
            When it was tuned; never filled in from a clock.
        evidence
            Further names of ``evidence``.

        Examples
        --------
        >>> import memkit as mk
        >>> search = mk.Retriever(encoder=None).fit(mk.from_table({"text": ["чай"]}))
        >>> profile = Profile.of(search, mk.Quota(max_facts=200), date="2026-03-01")
        >>> profile.policies["quota"]["max_facts"], profile.evidence["memories"], profile.evidence["date"]
        (200, 1, '2026-03-01')
        """
        sections: dict[str, Any] = {"policies": {}, "evidence": {"version": memkit.__version__}}
        for part in (step for some in parts for step in (some.steps if isinstance(some, Pipeline) else [some])):
            if isinstance(part, Retriever):
                into, section = sections, "retriever"
                sections["evidence"] |= evidence_of(part) if part.is_fitted else {}
            elif isinstance(part, Deduplicator):
                into, section = sections, "dedup"
            elif isinstance(part, ContextBuilder):
                into, section = sections, "context"
            elif isinstance(part, Annotator):
                into, section = sections["policies"], part.name
            else:
                raise ParameterError(f"profile: expected a Retriever, policies or a ContextBuilder. Got {part!r:.80}.")
            declared = _declared(section)
            stored = part.get_params()
            values = {name: stored[name] for name in declared}
            nulls = {name for name, p in declared.items() if p.default is None}
            # None need not be written where it is the default; no TOML can hold it.
            into[section] = {name: value for name, value in values.items() if value is not None or name not in nulls}
        sections["evidence"]["changed"] = [name for name, _, _ in _differing(sections)]
        if labels is not None:
            sections["evidence"]["labels"] = labels_fingerprint(*labels)
        if date is not None:
            sections["evidence"]["date"] = as_of_time(date, "date").isoformat().removesuffix("T00:00:00+00:00")
        sections["evidence"] |= {name: value for name, value in evidence.items() if value is not None}
        return cls(**sections)

    def policy(self, name: str) -> dict[str, Any]:
        """The parameters of one policy, from whichever section holds them; empty where there are none.

        Examples
        --------
        >>> Profile(dedup={"threshold": 0.8}, policies={"quota": {"max_facts": 200}}).policy("deduplicator")
        {'threshold': 0.8}
        """
        dedup = self.dedup if name == Deduplicator.name else {}
        return {**dedup, **self.policies.get(name, {})}

    def to_dict(self) -> dict[str, Any]:
        """The sections that are not empty, as plain dicts."""
        return {part.name: _plain(getattr(self, part.name)) for part in fields(self) if getattr(self, part.name)}

    def to_json(self) -> str:
        """The sections that are not empty, as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"

    def to_toml(self) -> str:
        """The sections that are not empty, as TOML; comments have units, and mark the values that were changed."""
        changed, parts = set(self.evidence.get("changed", ())), []
        for path, section in self._sections():
            declared, lines = _declared(section), [f"[{'.'.join(map(_key, path))}]"]
            values = self.policies[section] if len(path) > 1 else getattr(self, section)
            for name, value in _plain(values).items():
                mark = "changed" if ".".join((*path, name)) in changed else ""
                comment = "; ".join(filter(None, (declared[name].unit, mark)))
                # JSON's strings, numbers and lists are TOML's; a mapping is a key of two parts for each of its values.
                inner = value.items() if isinstance(value, dict) else [(None, value)]
                for key, item in inner:
                    spelled = name if key is None else f"{name}.{_key(key)}"
                    lines.append(f"{spelled} = {_json(item)}" + (f"  # {comment}" if comment else ""))
            parts.append("\n".join(lines) if len(lines) > 1 else "")
        return "\n\n".join(filter(None, parts)) + "\n"

    def _sections(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """The path and the name of each section, a policy's being within ``policies``."""
        for name in _SECTIONS:
            if name == "policies":
                yield from (((name, policy), policy) for policy in self.policies)
            else:
                yield (name,), name

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read TOML of `to_toml`, or written by hand; raises ParameterError, and FormatError where it is no TOML."""
        return cls._from_sections(_parsed(tomllib.loads, text, "TOML"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read JSON of `to_json`; raises ParameterError, and FormatError where it is no JSON."""
        return cls._from_sections(_parsed(json.loads, text, "JSON"))

    @classmethod
    def _from_sections(cls, sections: Any) -> Self:
        if not isinstance(sections, Mapping):
            raise ParameterError(f"profile: expected the tables {', '.join(_SECTIONS)}. Got {sections!r:.80}.")
        for name in sections:
            if name not in _SECTIONS:
                hint = did_you_mean(name, _SECTIONS) or f" Expected one of {', '.join(_SECTIONS)}."
                raise ParameterError(f"profile: no section [{name}].{hint}")
        search = sections.get("retriever")
        if isinstance(search, Mapping):
            named = {name: OfFile(search[name]) for name in _OBJECTS if isinstance(search.get(name), str)}
            sections = {**sections, "retriever": {**search, **named}}
        return cls(**sections)

    def save(self, path: str | Path) -> Path:
        """Write it: JSON where `path` ends in .json, else TOML.

        Returns
        -------
        Path
        """
        path = path_of("save", path)
        path.write_text(self.to_json() if path.suffix.lower() == ".json" else self.to_toml(), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: str | Path, search: Any = None, labels: tuple[Any, Any] | None = None) -> Self:
        """Read a profile that `save` wrote, or somebody by hand.

        Parameters
        ----------
        path : str or Path
            JSON where it ends in .json, else TOML.
        search, labels : optional
            As for `differences`: each difference is a warning.

        Raises
        ------
        ParameterError
            For a name or value that is not declared.
        FormatError
            For a file that is no TOML, or no JSON; for a folder, a pipe or a device.
        OSError
            Where there is no such file.
        """
        path = path_of("load", path)
        check_file(path)
        try:
            text = path.read_text("utf-8-sig")
            profile = cls.from_json(text) if path.suffix.lower() == ".json" else cls.from_toml(text)
        except (FormatError, UnicodeDecodeError) as error:
            raise FormatError(f"{path}: {error}", path=str(path)) from error
        for difference in (*profile.differences(search, labels), *profile._moved_defaults()):
            warnings.warn(f"profile {path.name}: {difference}", UserWarning, stacklevel=2)
        return profile

    def _moved_defaults(self) -> list[str]:
        """A sentence on values that were memkit's defaults when the profile was made, and are no more.

        None for a profile that does not say which values were changed, as one that was written by hand.
        """
        if "changed" not in self.evidence:
            return []
        changed, sections = set(self.evidence["changed"]), {name: getattr(self, name) for name in _SECTIONS}
        differing = (row for row in _differing(sections) if row[0] not in changed)
        moved = [f"{name} ({value!r} here, {now!r} now)" for name, value, now in differing]
        return [f"memkit's defaults have changed since: {', '.join(moved)}. It keeps its values."] if moved else []

    def differences(self, search: Any = None, labels: tuple[Any, Any] | None = None) -> list[str]:
        """What has changed since this profile was measured: corpus, labels or encoder; empty where nothing has.

        Parameters
        ----------
        search : Retriever, optional
            Fitted: its corpus and its encoder are compared.
        labels : tuple of queries and qrels, optional

        Examples
        --------
        >>> import memkit as mk
        >>> old, new = (mk.Retriever(encoder=None).fit(mk.from_table({"text": [word]})) for word in ("чай", "кофе"))
        >>> Profile.of(old).differences(old), Profile.of(old).differences(new)
        ([], ['it was measured on other memories (1 then, 1 now): measure again before you trust it.'])
        """
        now = evidence_of(search) if search is not None else {}
        if labels is not None:
            now["labels"] = labels_fingerprint(*labels)
        comparable = {name for name in ("corpus", "labels", "encoder") if name in now and name in self.evidence}
        changed = [name for name in sorted(comparable) if now[name] != self.evidence[name]]
        counts = f"({self.evidence.get('memories', '?')} then, {now.get('memories', '?')} now)"
        sentences = {
            "corpus": f"other memories {counts}",
            "labels": "other labels",
            "encoder": f"another encoder ({self.evidence.get('encoder')} then, {now.get('encoder')} now)",
        }
        return [f"it was measured on {sentences[name]}: measure again before you trust it." for name in changed]

    @classmethod
    def described(cls) -> pa.Table:
        """The names allowed under [evidence]: name, expected, doc."""
        names = ("name", "expected", "doc")
        return pa.Table.from_pylist(
            [{name: getattr(declared, name) for name in names} for declared in EVIDENCE.values()]
        )


_OBJECTS = tuple(name for name, declared in Retriever.params().items() if declared.kind == "object")
"""Parameters of a search that may be objects; one that is a name is somebody's package or address."""
_SECTIONS = tuple(part.name for part in fields(Profile))


def _parsed(read: Callable[[str], Any], text: str, expected: str) -> Any:
    try:
        return read(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"profile: expected {expected}. {error}") from error


def _declared(section: str) -> Mapping[str, Param]:
    if section == "evidence":
        return EVIDENCE
    if section == "retriever":
        return Retriever.all_params()
    if section == "context":
        return {name: declared for name, declared in ContextBuilder.params().items() if name != "retriever"}
    return Deduplicator.params() if section == "dedup" else policy_class(section).params()


def _default(declared: Param) -> Any:
    """The default as it is stored: a list of words is a tuple, also where None stands for it."""
    return declared.default if declared.default is not None else declared.stands_for


def _same(value: Any, default: Any) -> bool:
    value, default = (tuple(each) if isinstance(each, list) else each for each in (value, default))
    return bool(value == default)


def _differing(sections: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The values that differ from memkit's defaults: name with its section, value, default."""
    tables = {name: (name, sections.get(name, {})) for name in ("retriever", "dedup", "context")}
    tables |= {f"policies.{name}": (name, values) for name, values in sections["policies"].items()}
    for path, (section, values) in tables.items():
        for name, value in values.items():
            if not _same(value, default := _default(_declared(section)[name])):
                yield f"{path}.{name}", value, default


def _typed(declared: Param, value: Any, where: str) -> Any:
    """`value` as the parameter takes it: a list is a tuple, "none" is None where that is not a default."""
    if isinstance(value, str) and value.lower() == "none":
        value = declared.parse(value)
    value = tuple(value) if isinstance(value, list) else value
    declared.check(value, f"profile [{where}]")
    if declared.kind == "object" and not (value is None or isinstance(value, (str, int, float))):
        raise ParameterError(
            f"profile [{where}]: '{declared.name}' must be a name or None, to be written. Got {type(value).__name__};"
            " mk.extend.register gives an encoder a name."
        )
    return float(value) if declared.kind == "float" and type(value) is int else value


def _plain(value: Any) -> Any:
    """The value in types that TOML and JSON have."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        return value.item()
    return "none" if value is None else value


def _key(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else _json(name)


def _json(value: Any) -> str:
    # JSON lets one control character stand that TOML does not.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")


_COUNT, _TEXT, _NUMBER = {"kind": "int", "low": 0}, {"kind": "str"}, {"kind": "float"}
_DECLARED: dict[str, dict[str, Any]] = {
    "corpus": {**_TEXT, "doc": "Fingerprint of the memories: a hash over their ids and texts."},
    "memories": {**_COUNT, "doc": "How many memories the corpus has."},
    "labels": {**_TEXT, "doc": "Fingerprint of the labelled queries and judgements."},
    "encoder": {**_TEXT, "doc": "Fingerprint of the encoder."},
    "arms": {
        "kind": "weights",
        "doc": "The effective weights of the arms, also where they are the encoder's defaults.",
    },
    "metrics": {"kind": "weights", "doc": "Means, by metric."},
    "verdict": {**_TEXT, "doc": "better, worse, practically the same, cannot tell yet; and the reason."},
    "gain": {**_NUMBER, "doc": "Expected gain over the default."},
    "low": {**_NUMBER, "doc": "Lower end of the gain's 95 % interval."},
    "high": {**_NUMBER, "doc": "Upper end of the gain's 95 % interval."},
    "p": {**_NUMBER, "doc": "One-sided p of the choice (selective inference)."},
    "epsilon": {**_NUMBER, "doc": "Differences within ± epsilon count as none."},
    "n_queries": {**_COUNT, "doc": "Queries in the test."},
    "n_groups": {**_COUNT, "doc": "Users, or other groups of queries."},
    "n_settings": {**_COUNT, "doc": "Settings that were tried."},
    "looks": {**_COUNT, "doc": "How often these labels were looked at."},
    "random_state": {"kind": "int", "doc": "Seed of sign flips and folds."},
    "date": {**_TEXT, "doc": "When it was tuned, as its author says."},
    "version": {**_TEXT, "doc": "Version of memkit."},
    "changed": {"kind": "words", "doc": "The values that differed from memkit's defaults when it was made."},
    "note": {**_TEXT, "doc": "Anything else."},
}
EVIDENCE = {name: Param(default=None, name=name, nullable=True, **how) for name, how in _DECLARED.items()}
"""The names of evidence that a profile may hold."""


def corpus_fingerprint(memories: pa.Table) -> str:
    """A hash over ids and texts, whatever order they are in."""
    rows = memories.select(["memory_id", "text"]).sort_by("memory_id")
    return digest_of_rows(pa.chunked_array([*rows["memory_id"].chunks, *rows["text"].chunks], pa.string()))


def labels_fingerprint(queries: Any, qrels: Any) -> str:
    """A hash over what is asked, by whom and when, and what answers it, whatever order it is in."""
    from memkit.evaluation.labels import (  # which need pandas; a search by a profile does without
        read_qrels,
        read_queries,
    )

    queries_read = read_queries(queries).select(["query_id", "text", "user_id", "as_of"]).sort_by("query_id")
    right = read_qrels(qrels).sort_by([("query_id", "ascending"), ("memory_id", "ascending")])
    rows = [*queries_read.to_pylist(), *right.select(["query_id", "memory_id", "relevance"]).to_pylist()]
    return digest_of_rows(json.dumps(row, default=str) for row in rows)


def evidence_of(search: Any) -> dict[str, Any]:
    """The evidence of a fitted Retriever: corpus, memories, encoder and arms."""
    index = search._index()
    arms = {arm: round(weight, 6) for arm, weight in index.weights(search).items()}
    memories = search.corpus_.memories
    values = {"corpus": corpus_fingerprint(memories), "memories": memories.num_rows, "encoder": index.fingerprint}
    return {name: value for name, value in {**values, "arms": arms}.items() if value is not None}
