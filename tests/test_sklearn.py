"""memkit's estimators are scikit-learn's: its own checks pass, and those that need a matrix end in memkit's refusal."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple
from unittest import SkipTest

import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

import memkit
from memkit.base.params import Estimator
from memkit.context import ContextBuilder
from memkit.errors import ParameterError
from memkit.index.ann import Centring
from memkit.policy.admission import Admission
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.policy.limits import Expiry, Quota
from memkit.policy.pipeline import Pipeline
from memkit.search.retriever import Retriever

# What scikit-learn asks of an estimator whatever it is fitted on: these pass for every one.
ASKED = (
    *("estimator_cloneable", "estimator_tags_renamed", "valid_tag_types", "estimator_repr"),
    *("no_attributes_set_in_init", "estimators_unfitted", "do_not_raise_errors_in_init_or_set_params", "mixin_order"),
    *("transformers_unfitted", "transformer_n_iter", "parameters_default_constructible", "get_params_invariance"),
    *("set_params", "fit1d"),
)


class Cannot(NamedTuple):
    """Why a check cannot pass: how it ends, and in which words."""

    error: type[BaseException]
    words: str


# The other checks fit a matrix of numbers, and memkit's estimators take tables with named columns. So each check ends
# in the estimator's refusal, at once or as the cause of what scikit-learn then says.
REFUSALS = {
    **dict.fromkeys(("BM25", "CharGrams", "Grams"), "fit: expected a table of chunks. Got"),
    **dict.fromkeys(("ContextBuilder", "Retriever"), "Retriever: expected a Corpus. Got"),
    "Chunker": "Chunker: expected a table with memory_id and text. Got",
    "Dense": "'texts' must hold strings. Got",
    "SearchEstimator": "SearchEstimator: expected one that mk.as_estimator made.",
}
REFUSAL = "table must be a pyarrow.Table, a pandas.DataFrame or a Corpus. Got"
# This one asks for nothing before an environment variable is set.
NOT_RUN = {"array_api_input": Cannot(SkipTest, "SCIPY_ARRAY_API is not set")}
# Centring takes vectors that an encoder gave and memkit checked, dense and in float32. So it passes what needs a
# matrix, but it does not check again what came, and beside the vectors are their texts, not targets.
OF_VECTORS = {
    **NOT_RUN,
    "complex_data": Cannot(AssertionError, "Did not raise: [<class 'ValueError'>]"),
    "fit2d_predict1d": Cannot(AssertionError, "Did not raise: [<class 'ValueError'>]"),
    "estimators_empty_data_messages": Cannot(AssertionError, "does not raise a ValueError when an empty data is used"),
    "estimator_sparse_array": Cannot(AssertionError, "doesn't seem to fail gracefully on sparse data"),
    "estimator_sparse_matrix": Cannot(AssertionError, "doesn't seem to fail gracefully on sparse data"),
    "estimator_sparse_tag": Cannot(AssertionError, "failed when fitted on sparse data in accordance with its tag"),
    "fit_score_takes_y": Cannot(AssertionError, "Expected y or Y as second argument for method fit of Centring"),
    "n_features_in": Cannot(AssertionError, ""),
    "n_features_in_after_fitting": Cannot(AssertionError, "does not set the `n_features_in_` attribute"),
    "transformer_data_not_an_array": Cannot(AttributeError, "no attribute 'fit_transform'"),
    "transformer_general": Cannot(AttributeError, "no attribute 'fit_transform'"),
}


Check = Callable[[Any], None]


def subclasses(cls: type) -> Iterator[type]:
    for below in cls.__subclasses__():
        yield below
        yield from subclasses(below)


def estimators() -> list[Estimator]:
    """One of every class that memkit declares and that can be fitted, with its defaults."""
    for module in pkgutil.walk_packages(memkit.__path__, "memkit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    classes = {
        cls for cls in subclasses(Estimator) if cls.__module__.startswith("memkit.") and "_declared" in vars(cls)
    }
    fittable: list[Any] = [cls() for cls in classes - {Pipeline} if hasattr(cls, "fit")]
    return sorted([*fittable, Pipeline([Admission(), Quota()])], key=lambda each: type(each).__name__)


@cache
def checks() -> list[tuple[Estimator, list[Check]]]:
    """The checks that scikit-learn has for each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it remarks that they are not of its own base class
        return [(each, [check for _, check in estimator_checks_generator(each)]) for each in estimators()]


def name_of(check: Callable[..., object]) -> str:
    return str(getattr(check, "func", check).__name__).removeprefix("check_")


def reason_of(estimator: Estimator, check: Check) -> Cannot | None:
    """Why the check cannot pass; None for one that must."""
    name, kind = name_of(check), type(estimator).__name__
    if isinstance(estimator, Centring):
        return OF_VECTORS.get(name)
    if name in ASKED:
        return None
    return NOT_RUN.get(name, Cannot(ParameterError, REFUSALS.get(kind, REFUSAL)))


def is_said(reason: Cannot, error: Cannot) -> bool:
    """Whether the error is the one declared; no words stand for a bare assertion."""
    is_worded = reason.words in error.words if reason.words else not error.words
    return is_worded and issubclass(error.error, reason.error)


def ending(estimator: Any, check: Check) -> list[Cannot]:
    """The error that the check ends in, and what caused it; none where it passes."""
    error: BaseException | None = None
    try:
        check(estimator)
    except Exception as raised:
        error = raised
    errors = []
    while error is not None:
        errors.append(Cannot(type(error), str(error)))
        error = error.__cause__ or error.__context__
    return errors


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore")
def test_what_scikit_learn_asks_holds_for_every_estimator(subtests: pytest.Subtests) -> None:
    for estimator, checks_of_it in checks():
        kind = type(estimator).__name__
        held = [(name_of(check), check) for check in checks_of_it if not reason_of(estimator, check)]
        beside = {*ASKED} - {name for name, _ in held}  # what scikit-learn would not ask of it, as of no transformer
        held += [(name, partial(getattr(estimator_checks, f"check_{name}"), kind)) for name in sorted(beside)]
        for name, check in held:
            with subtests.test(kind, check=name):
                check(estimator)


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore")
def test_a_check_that_cannot_pass_ends_in_the_reason_that_is_declared() -> None:
    other = {}
    for estimator, checks_of_it in checks():
        for check in checks_of_it:
            if reason := reason_of(estimator, check):
                errors = ending(estimator, check)
                if not any(is_said(reason, error) for error in errors):
                    other[type(estimator).__name__, name_of(check)] = errors
    assert other == {}


@pytest.mark.quick
def test_each_declared_reason_is_that_of_a_check() -> None:
    pairs = {(type(each).__name__, name_of(check)) for each, checks_of_it in checks() for check in checks_of_it}
    later = {"array_api_input", "estimator_sparse_tag"}  # scikit-learn 1.6 does not ask for these
    assert {("Centring", name) for name in OF_VECTORS.keys() - later} <= pairs
    assert {*REFUSALS} <= {kind for kind, _ in pairs}
    assert not {*ASKED} & {*OF_VECTORS}


TABLE = pa.table({"text": ["Как дела сегодня?", "Любит зелёный чай.", "Любит кофе."], "kind": ["archive"] * 3})


def test_policies_stand_in_a_pipeline_of_scikit_learn() -> None:
    steps = make_pipeline(Admission(), Expiry(), Quota(max_facts=2))
    judged = steps.fit_transform(TABLE)
    alone = Quota(max_facts=2).transform(Expiry().transform(Admission().transform(TABLE)))
    assert judged.drop_columns([]).to_pylist() == alone.to_pylist()
    assert steps.set_params(quota__max_facts=3).transform(TABLE)["keep"].to_pylist() == [True] * 3
    assert clone(steps).get_params()["quota__max_facts"] == 3


def test_what_learns_is_fitted_after_fit_and_what_does_not_always_is() -> None:
    check_is_fitted(Quota())
    dedup = Deduplicator(encoder=None)
    assert get_tags(dedup).requires_fit
    assert not get_tags(Quota()).requires_fit
    assert not Pipeline([Quota(), dedup]).is_fitted
    check_is_fitted(dedup.fit(TABLE))
    assert Pipeline([Quota(), dedup]).is_fitted


def test_the_parameters_of_an_estimator_within_are_reached_by_name() -> None:
    builder = ContextBuilder(Retriever(pool=7))
    assert builder.get_params()["retriever__pool"] == 7
    assert "retriever__pool" not in builder.get_params(deep=False)
    assert builder.set_params(retriever__pool=9).retriever.pool == 9
    copied = clone(builder)
    assert copied.retriever is not builder.retriever
    assert copied.retriever.pool == 9


def test_the_display_shows_what_was_changed_and_escapes_it() -> None:
    shown = Retriever(encoder="<script>alert(1)</script>", pool=7)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "<b>7</b>" in shown
    assert "<td>rrf_k</td><td>60</td>" in shown
    assert "not fitted" in shown
    assert "&lt;b&gt;bold" in make_pipeline(Admission(commands=("<b>bold",)))._repr_html_()
