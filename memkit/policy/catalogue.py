"""The policies by name: memkit's own, registered ones, and those of other packages (entry points of the group
``memkit.policies``)."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from memkit.base.plugins import of_packages
from memkit.errors import ParameterError, did_you_mean
from memkit.tables.statement import Annotator

_GROUP = "memkit.policies"
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

_REGISTERED: dict[str, type[Annotator]] = {}


def register_policy(cls: type[Annotator]) -> None:
    """Make a policy of your own known by its name in this process; it comes before one of a package.

    Raises
    ------
    ParameterError
        Where memkit has a policy of that name.
    """
    if cls.name in POLICIES:
        raise ParameterError(f"a policy must have a name of its own. Got {cls.name!r} of {cls.__name__}.")
    _REGISTERED[cls.name] = cls


def forget_policy(name: str) -> None:
    """Undo `register_policy`; unknown names are ignored."""
    _REGISTERED.pop(name, None)


def policy_names() -> list[str]:
    """The names that `policy_class` knows, memkit's own first."""
    others = {*_REGISTERED, *(point.name for point in of_packages(_GROUP))}
    return [*POLICIES, *sorted(others - POLICIES.keys())]


def policy_class(name: str) -> type[Annotator]:
    """The class of a policy: one of memkit's, a registered one, or one that a package names as an entry point.

    Raises
    ------
    ParameterError
        For an unknown name, and for a package whose policy cannot be imported.
    """
    if name in _REGISTERED:
        return _REGISTERED[name]
    modules = {point.name: point.value for point in of_packages(_GROUP)} | POLICIES
    if name not in modules:
        hint = did_you_mean(name, modules)
        raise ParameterError(f"policy: expected one of {', '.join(policy_names())}. Got {name!r}.{hint}")
    try:
        cls = EntryPoint(name, modules[name], _GROUP).load()
    except Exception as error:
        raise ParameterError(f"policy: expected {name!r} to be {modules[name]}. Got {error!r}.") from error
    if not (isinstance(cls, type) and issubclass(cls, Annotator)):
        raise ParameterError(f"policy: expected {modules[name]} to be a Policy. Got {cls!r}.")
    return cls
