"""memkit's estimators are scikit-learn's: its own checks pass where they need no matrix, the others say why not."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import memkit
from memkit.context import ContextBuilder
from memkit.index.centre import Centring
from memkit.params import Estimator
from memkit.policy.admission import Admission
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.policy.expiry import Expiry
from memkit.policy.pipeline import Pipeline
from memkit.policy.quota import Quota
from memkit.search.retriever import Retriever

# What scikit-learn asks of an estimator whatever it is fitted on: these pass for every one.
ASKED = (
    *("estimator_cloneable", "estimator_tags_renamed", "valid_tag_types", "estimator_repr"),
    *("no_attributes_set_in_init", "estimators_unfitted", "do_not_raise_errors_in_init_or_set_params", "mixin_order"),
    *("transformers_unfitted", "transformer_n_iter", "parameters_default_constructible", "get_params_invariance"),
    *("set_params", "fit1d"),
)
_TABLE = "X is a table with named columns, not a matrix of numbers"
_VECTORS = "X are vectors that an encoder gave and checked, in float32 and dense"
NOT_ASKED = {
    **dict.fromkeys(
        (
            *("array_api_input", "complex_data", "dict_unchanged", "dont_overwrite_parameters", "dtype_object"),
            *("estimator_sparse_array", "estimator_sparse_matrix", "estimators_dtypes", "estimators_fit_returns_self"),
            *("estimators_nan_inf", "estimators_overwrite_params", "estimators_pickle", "f_contiguous_array_estimator"),
            *("fit2d_1feature", "fit2d_1sample", "fit2d_predict1d", "fit_check_is_fitted", "fit_idempotent"),
            *("methods_sample_order_invariance", "methods_subset_invariance", "pipeline_consistency"),
            *("readonly_memmap_input", "transformer_data_not_an_array", "transformer_general"),
            *("transformer_preserve_dtypes", "transformers_unfitted_stateless"),
        ),
        _TABLE,
    ),
    "n_features_in": _TABLE + ", so it has no number of features",
    "n_features_in_after_fitting": _TABLE + ", so it has no number of features",
    "positive_only_tag_during_fit": _TABLE + "; no column must be positive",
    "estimator_sparse_tag": _TABLE + ", and never sparse",
    "estimators_empty_data_messages": _TABLE + "; one without rows is fine",
    "fit_score_takes_y": _TABLE + "; `y` is taken and not looked at",
}
NOT_ASKED_OF_VECTORS = {
    **dict.fromkeys(
        (
            *("array_api_input", "complex_data", "estimator_sparse_array", "estimator_sparse_matrix"),
            *("estimator_sparse_tag",),
            *("estimators_empty_data_messages", "fit2d_predict1d", "n_features_in", "n_features_in_after_fitting"),
            *("transformer_data_not_an_array", "transformer_general"),
        ),
        _VECTORS,
    ),
    "fit_score_takes_y": _VECTORS + "; beside them are their texts, under that name",
}


def subclasses(cls: type) -> Iterator[type]:
    for below in cls.__subclasses__():
        yield below
        yield from subclasses(below)


def estimators() -> list[Estimator]:
    """One of every class that memkit declares and that can be fitted, with its defaults."""
    for module in pkgutil.walk_packages(memkit.__path__, "memkit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = {cls for cls in subclasses(Estimator) if cls.__module__.startswith("memkit.") and "__init__" in vars(cls)}
    made: list[Any] = [cls() for cls in found - {Pipeline} if hasattr(cls, "fit")]
    return sorted([*made, Pipeline([Admission(), Quota()])], key=lambda each: type(each).__name__)


ESTIMATORS = estimators()


def name_of(check: Callable[..., object]) -> str:
    return str(getattr(check, "func", check).__name__).removeprefix("check_")


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # scikit-learn remarks that they are not of its own base class
    with_checks = parametrize_with_checks(ESTIMATORS)


@with_checks
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_pass_or_say_why_not(estimator: Any, check: Callable[[Any], None]) -> None:
    reasons = NOT_ASKED_OF_VECTORS if isinstance(estimator, Centring) else NOT_ASKED
    if name_of(check) not in reasons:
        check(estimator)
    else:
        with pytest.raises(Exception):  # noqa: B017, PT011  # each fails in its own way; one that passes leaves the list
            check(estimator)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
@pytest.mark.filterwarnings("ignore")
def test_what_needs_no_matrix_passes_for_every_estimator(estimator: Any, name: str) -> None:
    getattr(estimator_checks, f"check_{name}")(type(estimator).__name__, estimator)


def test_the_list_of_checks_that_are_not_asked_is_no_longer_than_needed() -> None:
    assert not set(ASKED) & {*NOT_ASKED, *NOT_ASKED_OF_VECTORS}


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
