# The public names, listed here alone: type checkers read this file, and so does memkit itself when it is imported.
# A line a name, ``from … import … as …``; a room, like `memkit.plot`, comes from memkit.

from memkit import errors as errors
from memkit import extend as extend
from memkit import labels as labels
from memkit import panels as panels
from memkit import plot as plot
from memkit import presets as presets
from memkit import records as records
from memkit import schemas as schemas
from memkit import testing as testing
from memkit.change.diff import diff as diff
from memkit.change.edits import Edits as Edits
from memkit.change.export import Export as Export
from memkit.change.export import export as export
from memkit.change.fix import Fix as Fix
from memkit.change.migrate import Migrate as Migrate
from memkit.change.planning import plan as plan
from memkit.change.planning import recover as recover
from memkit.change.planning import undo as undo
from memkit.change.store import store as store
from memkit.change.workspace import MemoryIndex as MemoryIndex
from memkit.change.workspace import MemoryStorage as MemoryStorage
from memkit.change.workspace import SearchResult as SearchResult
from memkit.change.workspace import get_index as get_index
from memkit.change.workspace import get_storage as get_storage
from memkit.context import Context as Context
from memkit.context import ContextBuilder as ContextBuilder
from memkit.corpus_overview import overview as overview
from memkit.decay import Decay as Decay
from memkit.display.notebook import show as show
from memkit.errors import ChangeRefusedError as ChangeRefusedError
from memkit.errors import DamagedIndexError as DamagedIndexError
from memkit.errors import EncoderUnavailableError as EncoderUnavailableError
from memkit.errors import FormatError as FormatError
from memkit.errors import MemkitError as MemkitError
from memkit.errors import MissingExtraError as MissingExtraError
from memkit.errors import NotFittedError as NotFittedError
from memkit.errors import NotFoundError as NotFoundError
from memkit.errors import ParameterError as ParameterError
from memkit.errors import PolicyRefusal as PolicyRefusal
from memkit.errors import QueryError as QueryError
from memkit.errors import StaleIndexError as StaleIndexError
from memkit.errors import StaleSourceError as StaleSourceError
from memkit.errors import VersionError as VersionError
from memkit.evaluation.audit import audit as audit
from memkit.evaluation.compare import compare as compare
from memkit.evaluation.estimator import as_estimator as as_estimator
from memkit.evaluation.estimator import as_objective as as_objective
from memkit.evaluation.evaluation import evaluate as evaluate
from memkit.evaluation.grid import shares as shares
from memkit.evaluation.grid import steps as steps
from memkit.evaluation.known_items import import_log as import_log
from memkit.evaluation.known_items import known_items as known_items
from memkit.evaluation.profile import Profile as Profile
from memkit.evaluation.statistics import queries_needed as queries_needed
from memkit.evaluation.sweep import sweep as sweep
from memkit.evaluation.tune import tune as tune
from memkit.formats.rules import rules as rules
from memkit.index.cache import vector_cache as vector_cache
from memkit.past.history import History as History
from memkit.past.history import history as history
from memkit.policy.admission import Admission as Admission
from memkit.policy.classifier import Classifier as Classifier
from memkit.policy.dedup.deduplicator import Deduplicator as Deduplicator
from memkit.policy.expiry import Expiry as Expiry
from memkit.policy.index_check import IndexCheck as IndexCheck
from memkit.policy.pipeline import Pipeline as Pipeline
from memkit.policy.quota import Quota as Quota
from memkit.policy.replay import forecast as forecast
from memkit.policy.replay import replay as replay
from memkit.policy.split_plan import SplitPlan as SplitPlan
from memkit.scale.buckets import write_buckets as write_buckets
from memkit.search.explain import contributions as contributions
from memkit.search.explain import explain as explain
from memkit.search.retriever import Retriever as Retriever
from memkit.tables.convert import convert_ids as convert_ids
from memkit.tables.corpus import Corpus as Corpus
from memkit.tables.corpus import open_lake
from memkit.tables.corpus import read as read
from memkit.tables.named import named_queries as named_queries
from memkit.tables.samples import sample_data as sample_data
from memkit.tables.table import from_table as from_table

open = open_lake  # under another name there, as it is a builtin's

__version__: str
