"""The policies by name: memkit's own, and those of other packages (entry points of the group ``memkit.policies``)."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.metadata import entry_points

from memkit.errors import ParameterError, did_you_mean
from memkit.tables.statement import Annotator

POLICIES = {
    "admission": "memkit.policy.admission:Admission",
    "classifier": "memkit.policy.classifier:Classifier",
    "deduplicator": "memkit.policy.dedup.deduplicator:Deduplicator",
    "quota": "memkit.policy.quota:Quota",
    "expiry": "memkit.policy.expiry:Expiry",
    "decay": "memkit.decay:Decay",
    "index_check": "memkit.policy.index_check:IndexCheck",
    "split_plan": "memkit.policy.split_plan:SplitPlan",
}
"""The module and class of each policy, imported on demand; the name is `Annotator.name` of the class."""

_FORMER = {"classify": "classifier", "dedup": "deduplicator"}


def policy_names() -> list[str]:
    """The names that `policy_class` knows, memkit's own first."""
    return [*POLICIES, *sorted({point.name for point in entry_points(group="memkit.policies")} - POLICIES.keys())]


def policy_class(name: str) -> type[Annotator]:
    """The class of a policy: one of memkit's, or one that an installed package names as an entry point.

    Raises
    ------
    ParameterError
        For an unknown name, and for a package whose policy cannot be imported.
    """
    if name in _FORMER:
        warnings.warn(f"the policy {name!r} is now called {_FORMER[name]!r}.", FutureWarning, stacklevel=2)
        name = _FORMER[name]
    modules = {point.name: point.value for point in entry_points(group="memkit.policies")} | POLICIES
    if name not in modules:
        hint = did_you_mean(name, modules)
        raise ParameterError(f"policy: expected one of {', '.join(policy_names())}. Got {name!r}.{hint}")
    module, _, attribute = modules[name].partition(":")
    try:
        cls = getattr(import_module(module), attribute)
    except Exception as error:
        raise ParameterError(f"policy: expected {name!r} to be {modules[name]}. Got {error!r}.") from error
    if not (isinstance(cls, type) and issubclass(cls, Annotator)):
        raise ParameterError(f"policy: expected {modules[name]} to be a Policy. Got {cls!r}.")
    return cls
