"""The public names: each there, each documented, each shown by an example."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import inspect
import re
import types
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import jedi
import pyarrow as pa
import pytest

import memkit as mk
from memkit.base.params import Estimator
from memkit.cli.common import settings
from memkit.evaluation.scores import Grid
from memkit.formats.facts import format_fact
from memkit.policy.dedup.deduplicator import precision_recall
from memkit.presets import DOCUMENTS, cite, evidence

OBJECTS = {name: getattr(mk, name) for name in mk.__all__}
CALLABLES = {
    name: value for name, value in OBJECTS.items() if not isinstance(value, types.ModuleType) and name != "MemkitError"
}
for room in (mk.plot, mk.labels, mk.explore, mk.workspace):
    CALLABLES |= {f"{room.__name__.rpartition('.')[2]}.{name}": getattr(room, name) for name in room.__all__}
CALLABLES |= {f"presets.{name}": getattr(mk.presets, name) for name in ("steps", "shares")}


def public_methods(cls: type) -> dict[str, Any]:
    """The methods and properties that memkit itself defines on a class or its bases."""
    methods: dict[str, Any] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("memkit"):
            for name, value in vars(base).items():
                if not name.startswith("_") and isinstance(value, (types.FunctionType, property, classmethod)):
                    methods.setdefault(f"{cls.__name__}.{name}", value)
    return methods


METHODS = {
    name: method
    for value in CALLABLES.values()
    if inspect.isclass(value)
    for name, method in public_methods(value).items()
}


@pytest.mark.quick
def test_the_lists_of_public_names_agree() -> None:
    assert sorted(mk.__all__) == mk.__all__
    assert all(issubclass(getattr(mk.errors, name), mk.MemkitError) for name in mk.errors.__all__)
    assert set(dir(mk)) >= {*mk.__all__, "__version__"}


STUB = ast.parse(Path(mk.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))


@pytest.mark.quick
def test_a_name_is_where_the_stub_says_that_it_is() -> None:
    """By Python's own reading of the stub, as a type checker takes it."""
    namespace: dict[str, Any] = {}
    for node in STUB.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                exec(f"from {node.module} import {alias.name} as {alias.asname or alias.name}", namespace)  # noqa: S102  # memkit's own lines
        elif isinstance(node, ast.Assign):
            exec(ast.unparse(node), namespace)  # noqa: S102  # as above
            del namespace[ast.unparse(node.value)]
    assert {name: namespace[name] for name in mk.__all__} == {name: getattr(mk, name) for name in mk.__all__}
    assert namespace.keys() - {"__builtins__"} == {*mk.__all__}


@pytest.mark.quick
def test_an_editor_completes_the_names() -> None:
    completed = jedi.Script("import memkit as mk\nmk.rep").complete(2, 6)
    assert [completion.name for completion in completed] == [name for name in mk.__all__ if name.startswith("rep")]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"'Corpora'\. Expected one of Admission, .* mean 'Corpus'"):
        _ = mk.Corpora
    with pytest.raises(
        AttributeError, match=r"^((?!map,).)*\bmap, ((?!map).)*$"
    ):  # a plugin of memkit's own is named once
        _ = mk.panels.weights


def test_a_name_of_an_older_memkit_is_refused_with_what_to_do_instead() -> None:
    for name, instead in mk._GONE.items():
        with pytest.raises(AttributeError, match=rf"no attribute '{name}' any more\. {re.escape(instead)}"):
            getattr(mk, name)
    for place, names in mk._MOVED.items():
        room = mk if place.startswith("mk.") else importlib.import_module(place)
        for name in names.split():
            assert getattr(getattr(room, place.removeprefix("mk.")) if room is mk else room, name).__name__ == name


def test_every_module_and_package_has_a_docstring() -> None:
    package = Path(mk.__file__).parent
    bare = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "_shipped" not in path.parts
        and path.stat().st_size
        and not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert bare == []


def sections(text: str) -> set[str]:
    lines = text.splitlines()
    return {line.strip() for line, under in pairwise(lines) if set(under.strip()) == {"-"}}


def takes(value: Any) -> bool:
    """Whether a caller has to know of an argument."""
    return any(name not in ("self", "cls") for name in inspect.signature(value).parameters)


def gives(value: Any) -> bool:
    returned = inspect.signature(value).return_annotation
    return returned not in (None, "None", inspect.Signature.empty)


def doc(value: object) -> str:
    return inspect.getdoc(value) or ""


def test_a_public_name_has_a_docstring() -> None:
    assert [name for name, value in (OBJECTS | CALLABLES).items() if len(doc(value)) <= 20] == []


def test_a_public_name_has_an_example_that_shows_a_result(subtests: pytest.Subtests) -> None:
    for name, value in CALLABLES.items():
        text = doc(value)
        if inspect.isclass(value):
            text += "".join(map(doc, public_methods(value).values()))
        with subtests.test(name):
            assert any(example.want for example in doctest.DocTestParser().get_examples(text))
            assert "+SKIP" not in text


def test_a_public_function_says_what_it_takes_and_gives(subtests: pytest.Subtests) -> None:
    for name, value in CALLABLES.items():
        if not inspect.isclass(value):
            with subtests.test(name):
                assert "Parameters" in sections(doc(value)) or not takes(value)
                assert "Returns" in sections(doc(value)) or not gives(value)


def test_a_public_method_has_a_docstring() -> None:
    assert [name for name, method in METHODS.items() if len(doc(method)) <= 10] == []


OWN = {
    name: method for name, method in METHODS.items() if name.startswith("Corpus.") and not isinstance(method, property)
}


def test_a_method_of_a_corpus_says_what_it_takes_and_gives_and_shows_it(subtests: pytest.Subtests) -> None:
    for name, method in OWN.items():
        with subtests.test(name):
            assert "Parameters" in sections(doc(method)) or not takes(method)
            assert "Returns" in sections(doc(method)) or not gives(method)
            assert doctest.DocTestParser().get_examples(doc(method))


def documented(text: str) -> set[str]:
    """The parameters that a docstring names."""
    lines = text.splitlines()
    parameters: set[str] = set()
    for line in lines[lines.index("Parameters") + 2 :] if "Parameters" in lines else ():
        if set(line) == {"-"}:
            break
        if line and not line.startswith(" ") and " : " in line:
            parameters |= {word.strip(" *") for word in line.partition(" : ")[0].split(",")}
    return parameters


SIGNATURES = {
    name: inspect.signature(value.__func__ if isinstance(value, classmethod) else value)
    for name, value in (CALLABLES | METHODS).items()
    if not isinstance(value, property)
}


def test_parameters_that_are_documented_are_there() -> None:
    unknown = {
        name: documented(doc((CALLABLES | METHODS)[name])) - set(signature.parameters)
        for name, signature in SIGNATURES.items()
    }
    assert {name: words for name, words in unknown.items() if words} == {}


def test_every_argument_has_a_type() -> None:
    bare = [
        f"{name}({argument.name})"
        for name, value in CALLABLES.items()
        if callable(value)
        for argument in inspect.signature(value.__init__ if inspect.isclass(value) else value).parameters.values()
        if argument.name != "self" and argument.annotation is inspect.Parameter.empty
    ]
    assert bare == []


ESTIMATORS = {
    name: value for name, value in CALLABLES.items() if inspect.isclass(value) and issubclass(value, Estimator)
}


def test_help_on_an_estimator_explains_each_parameter_once(subtests: pytest.Subtests) -> None:
    for name, cls in ESTIMATORS.items():
        text = doc(cls)
        with subtests.test(name):
            assert text.count("\nParameters\n----------\n") == (1 if cls.params() else 0)
        for declared in cls.params().values():
            with subtests.test(name, parameter=declared.name):
                (line,) = (line for line in text.splitlines() if line.startswith(f"{declared.name} : "))
                assert declared.type in line
                assert declared.unit in line
                assert line.endswith(declared.default_text)
                words = " ".join(text[text.index(line) :].split())
                assert f"{declared.doc}{' Acts at fit.' if declared.refit else ''}" in words
                assert not declared.source or f"Source: {declared.source}." in words


def test_a_signature_can_be_read(subtests: pytest.Subtests) -> None:
    for name, signature in SIGNATURES.items():
        defaults = [p.default for p in signature.parameters.values() if p.default is not p.empty]
        with subtests.test(name):
            assert len(str(signature)) <= 1500
            assert max([len(repr(default)) for default in defaults], default=0) <= 40


def test_a_source_is_a_section_of_one_of_the_documents_or_a_paper() -> None:
    cited = {cite(key, section) for key, document in DOCUMENTS.items() for section in document.sections}
    papers = {"Cormack et al. 2009", "Okapi at TREC-8"}
    sources = {p.source for cls in ESTIMATORS.values() for p in cls.params().values() if p.source}
    assert sources <= cited | papers
    assert all(any(text in words for text in cited) for name, words in evidence.items() if not name.startswith("rec"))


LABELLED = {"query_id": ["1"], "memory_id": ["a"], "relevance": [1]}
SLIPS: dict[str, tuple[str, Callable[[mk.Corpus, mk.Retriever], object]]] = {
    "a table in SQL": ("memories", lambda corpus, search: corpus.ask("select * from memorie")),
    "a named query": ("near_empty", lambda corpus, search: corpus.named("near_emty")),
    "a column of a table": ("txt", lambda corpus, search: mk.from_table({"txt": ["чай"]})),
    "a column of a policy": ("txt", lambda corpus, search: mk.Admission().transform(pa.table({"txt": ["чай"]}))),
    "a column of labels": ("label_", lambda corpus, search: precision_recall(PAIRS, pa.table({"label_": [True]}))),
    "a word of labels": ("duplicate", lambda corpus, search: precision_recall(PAIRS, ABOUT)),
    "a column of pairs": ("similarty", lambda corpus, search: mk.plot.similarity(pa.table({"similarty": [1.0]}))),
    "a column of a log": ("usd", lambda corpus, search: mk.labels.import_log({"text": ["чай"], "usd": [["a"]]})),
    "a metric": ("ndcg", lambda corpus, search: mk.evaluate(search, ["чай"], pa.table(LABELLED), ["ndgc@10"])),
    "a kind that decays": ("archive", lambda corpus, search: search.with_params(decay_kinds=("archiv",)).search("чай")),
    "a kind of the policy": ("archive", lambda corpus, search: mk.Decay(decay_kinds=("archiv",)).transform(corpus)),
    "a kind's weight": ("archive", lambda corpus, search: search.with_params(kind_weights={"archiv": 1}).search("чай")),
    "a memory": ("a", lambda corpus, search: mk.explain(search, "чай", "aa")),
    "a tag of a fact": ("exp", lambda corpus, search: format_fact({"id": "a", "t": "b", "imp": "c", "expp": "d"})),
    "a format": ("notes", lambda corpus, search: mk.read(mk.sample_data(), format="note")),
    "a preset": ("workspace", lambda corpus, search: mk.presets.workspce),
}
PAIRS = pa.table({"a_id": ["1"], "b_id": ["2"], "kind": ["exact"], "similarity": [1.0], "contradiction": [False]})
ABOUT = pa.table({"a_id": ["1"], "b_id": ["2"], "label": ["duplicat"]})


def test_a_slip_in_a_name_is_answered_with_the_one_that_was_meant(subtests: pytest.Subtests) -> None:
    corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["чай", "кофе"], "kind": ["profile", "archive"]})
    search = mk.Retriever(encoder=None).fit(corpus)
    for slip, (meant, act) in SLIPS.items():
        with (
            subtests.test(slip),
            pytest.raises((mk.MemkitError, AttributeError), match=rf"Did you mean [^?]*'{meant}'"),
        ):
            act(corpus, search)


@pytest.mark.parametrize("document", ["workspace", "memory_v2"])
def test_a_parameter_names_a_document_only_where_its_default_is_the_documents(document: str) -> None:
    preset = mk.presets.RETRIEVER[document]
    named = [p for p in mk.Retriever.params().values() if p.source and p.source.startswith(DOCUMENTS[document].name)]
    assert {p.name: p.default for p in named if p.kind in ("int", "float")}.items() <= preset.items()


def test_an_old_name_of_a_parameter_is_refused_with_its_new_one_wherever_it_is_written(
    subtests: pytest.Subtests,
) -> None:
    search = mk.Retriever(encoder=None)
    written: dict[str, Callable[[dict[str, Any]], object]] = {
        "a call": lambda given: mk.Retriever(**given),
        "set_params": lambda given: search.set_params(**given),
        "with_params": lambda given: search.with_params(**given),
        "a profile": lambda given: mk.Profile(retriever=given),
        "--set": lambda given: settings(mk.Retriever.all_params(), [f"{n}={v}" for n, v in given.items()], "Retriever"),
        "a grid": lambda given: Grid({name: [value] for name, value in given.items()}, refits=True),
        "a grid without a fit": lambda given: Grid({name: [value] for name, value in given.items()}),
    }
    former = {
        "normalise": ("normalize", "max"),
        "analyser": ("index__analyzer", "none"),
        "chunk_tokens": ("index__chunk_tokens", 400),
    }
    for old, (now, value) in former.items():
        for where, write in written.items():
            with subtests.test(where, old=old), pytest.raises(mk.MemkitError, match=rf"It is called '{now}' now\.$"):
                write({old: value})


def test_a_function_refuses_an_old_name_of_a_parameter_with_its_new_one(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    corpus = mk.from_table({"memory_id": ["a", "b"], "text": ["чай", "кофе"]})
    search, labels = mk.Retriever(encoder=None).fit(corpus), ({"query_id": ["1"], "text": ["чай"]}, LABELLED)
    storage = mk.workspace.get_storage(tmp_path)
    calls: list[tuple[str, str, Callable[..., object]]] = [
        ("seed", "random_state", lambda **old: mk.evaluate(search, *labels, **old)),
        ("seed", "random_state", lambda **old: mk.compare(search, search, *labels, **old)),
        ("seed", "random_state", lambda **old: mk.Task(search, *labels, **old)),
        ("seed", "random_state", lambda **old: mk.known_items(corpus, **old)),
        ("seed", "random_state", lambda **old: mk.topics(search, **old)),
        ("seed", "random_state", lambda **old: mk.panels.judge(search, *labels, **old)),
        ("seed", "random_state", lambda **old: mk.Profile(evidence=old)),
        ("sample", "n", lambda **old: mk.sweep(search, *labels, {"pool": [5]}, **old)),
        ("sample", "n", lambda **old: mk.tune(search, *labels, {"pool": [5]}, **old)),
        ("user", "user_id", lambda **old: mk.export(corpus, tmp_path / "new", "facts", **old)),
        ("user", "user_id", lambda **old: mk.store(tmp_path).facts.read(**old)),
        ("folder", "path", lambda **old: mk.open(**old)),
        ("folder", "path", lambda **old: corpus.save(**old)),
        ("folder", "path", lambda **old: search.save(**old)),
        ("now", "as_of", lambda **old: storage.get_recent_context(**old)),
        ("now", "as_of", lambda **old: mk.workspace.MemoryIndex(storage, encoder=None).search("чай", **old)),
    ]
    for place, (old, now, call) in enumerate(calls):
        with (
            subtests.test(old, place=place),
            pytest.raises(
                mk.errors.ParameterError, match=rf"no (\[evidence\] )?parameter '{old}'.* is called '{now}' now\.$"
            ),
        ):
            call(**{old: 1})


def test_a_task_stands_for_a_search_and_its_labels() -> None:
    """Each verb says the same of a task and of its parts, and what is given beside a task counts."""
    texts = {"memory_id": ["a", "b"], "text": ["зелёный чай", "чай с мёдом"], "kind": ["profile", "archive"]}
    search = mk.Retriever(encoder=None).fit(mk.from_table(texts))
    labels = {"query_id": ["1"], "text": ["чай"]}, {"query_id": ["1"], "memory_id": ["b"], "relevance": [1]}
    asked, grid, other = {"where": "kind = 'archive'", "as_of": "2026-03-01"}, {"min_score": [0.0, 0.9]}, search
    task = mk.Task(search, *labels, **asked)
    verbs: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "evaluate": (mk.evaluate, ("mrr",)),
        "sweep": (mk.sweep, (grid, "mrr")),
        "tune": (mk.tune, (grid, "mrr")),
    }
    for verb, rest in verbs.values():
        assert verb(task, *rest).table == verb(search, *labels, *rest, **asked).table
    assert mk.compare(task, other, "mrr").details == mk.compare(search, other, *labels, "mrr", **asked).details
    assert mk.evaluate(task, "mrr").table["value"].to_pylist() == [1.0], "the one memory of that kind"
    assert mk.evaluate(task, "mrr", where=None).hits.num_rows == 2, "what is given beside a task counts"
    assert task.where == asked["where"], "and leaves the task as it is"
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.where = None  # type: ignore[misc]
    with pytest.raises(mk.errors.ParameterError, match="a Task has queries and qrels of its own"):
        mk.evaluate(task, qrels=labels[1])
    with pytest.raises(mk.errors.ParameterError, match=r"evaluate: no parameter 'wher'\. Did you mean 'where'"):
        mk.evaluate(task, wher="true")
