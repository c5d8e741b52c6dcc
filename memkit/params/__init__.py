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

from memkit.params.declare import REQUIRED as REQUIRED
from memkit.params.declare import AsOf as AsOf
from memkit.params.declare import Moment as Moment
from memkit.params.declare import Param as Param
from memkit.params.declare import Rev as Rev
from memkit.params.declare import Zone as Zone
from memkit.params.declare import as_of_time as as_of_time
from memkit.params.declare import check_choice as check_choice
from memkit.params.declare import check_column as check_column
from memkit.params.declare import check_corpus as check_corpus
from memkit.params.declare import check_value as check_value
from memkit.params.declare import describe as describe
from memkit.params.declare import param as param
from memkit.params.declare import path_of as path_of
from memkit.params.declare import record_as_of as record_as_of
from memkit.params.declare import rev_text as rev_text
from memkit.params.declare import revision_of as revision_of
from memkit.params.declare import said_until as said_until
from memkit.params.declare import zone_name as zone_name
from memkit.params.declare import zone_of as zone_of
from memkit.params.estimator import Estimator as Estimator
from memkit.params.estimator import estimator as estimator
