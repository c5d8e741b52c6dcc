"""One declaration of a parameter gives its check, message, help, slider, command-line option and docs row.

>>> @estimator
... class Example(Estimator):
...     '''An example.'''
...     decay_days: float = param(60.0, low=0, low_open=True, unit="days", doc="Age at which 1/e is left.")
>>> Example().get_params()
{'decay_days': 60.0}
>>> Example(decay_days=-1).check_params()
Traceback (most recent call last):
memkit.errors.ParameterError: Example: 'decay_days' must be a float in (0, inf), days. Got -1.
>>> print(Example.__doc__)
An example.
<BLANKLINE>
Parameters
----------
decay_days : float in (0, inf), days, default 60.0
    Age at which 1/e is left.
"""

from memkit.params.declare import (
    REQUIRED,
    AsOf,
    Param,
    as_of_time,
    check_choice,
    check_column,
    check_value,
    describe,
    param,
    record_as_of,
    revision_of,
)
from memkit.params.estimator import Estimator, estimator

__all__ = [
    "REQUIRED",
    "AsOf",
    "Estimator",
    "Param",
    "as_of_time",
    "check_choice",
    "check_column",
    "check_value",
    "describe",
    "estimator",
    "param",
    "record_as_of",
    "revision_of",
]
