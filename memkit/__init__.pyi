# The public names, listed here alone: type checkers read this file, and so does memkit itself when it is imported.
# A line a name, ``from … import … as …``; a room, like `memkit.plot`, comes from memkit or from memkit.change.

from memkit import errors as errors
from memkit import explore as explore
from memkit import extend as extend
from memkit import hosts as hosts
from memkit import labels as labels
from memkit import panels as panels
from memkit import plot as plot
from memkit import presets as presets
from memkit import records as records
from memkit import schemas as schemas
from memkit import testing as testing
from memkit.change import workspace as workspace
from memkit.change.diff import diff as diff
from memkit.change.edits import Edits as Edits
from memkit.change.export import export as export
from memkit.change.migrate import Fix as Fix
from memkit.change.migrate import Migrate as Migrate
from memkit.change.planning import plan as plan
from memkit.change.planning import recover as recover
from memkit.change.planning import undo as undo
from memkit.change.store import store as store
from memkit.context import ContextBuilder as ContextBuilder
from memkit.corpus_overview import overview as overview
from memkit.display.draw import show as show
from memkit.errors import MemkitError as MemkitError
from memkit.evaluation.audit import audit as audit
from memkit.evaluation.compare import compare as compare
from memkit.evaluation.evaluation import Task as Task
from memkit.evaluation.evaluation import evaluate as evaluate
from memkit.evaluation.known_items import known_items as known_items
from memkit.evaluation.profile import Profile as Profile
from memkit.evaluation.sweep import as_estimator as as_estimator
from memkit.evaluation.sweep import sweep as sweep
from memkit.evaluation.tune import tune as tune
from memkit.explore.digest.digest import digest as digest
from memkit.explore.timeline import timeline as timeline
from memkit.explore.topics import topics as topics
from memkit.explore.watching import watch as watch
from memkit.formats.rules import rules as rules
from memkit.index.cache import vector_cache as vector_cache
from memkit.past.history import history as history
from memkit.policy.admission import Admission as Admission
from memkit.policy.admission import Classifier as Classifier
from memkit.policy.dedup.deduplicator import Deduplicator as Deduplicator
from memkit.policy.index_standard import IndexCheck as IndexCheck
from memkit.policy.index_standard import SplitPlan as SplitPlan
from memkit.policy.limits import Decay as Decay
from memkit.policy.limits import Expiry as Expiry
from memkit.policy.limits import Quota as Quota
from memkit.policy.pipeline import Pipeline as Pipeline
from memkit.policy.pipeline import forecast as forecast
from memkit.policy.pipeline import replay as replay
from memkit.search.fitted.chunks import Index as Index
from memkit.search.retriever import Retriever as Retriever
from memkit.search.show import explain as explain
from memkit.tables.corpus import Corpus as Corpus
from memkit.tables.corpus import open_lake
from memkit.tables.corpus import read as read
from memkit.tables.database import named_queries as named_queries
from memkit.tables.samples import sample_data as sample_data
from memkit.tables.table import from_table as from_table

open = open_lake  # under another name there, as it is a builtin's

__version__: str
