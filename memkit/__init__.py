"""memkit: agents' memory folders as Arrow tables, with SQL, search that explains itself, and policies to replay.

>>> import memkit as mk
>>> corpus = mk.from_table({"text": ["Пул соединений вырос до десяти", "The pool grew to ten connections"]})
>>> corpus.sql("select memory_id from fts('пулы')").fetchall()
[('0',)]
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from memkit.errors import did_you_mean as _did_you_mean

if TYPE_CHECKING:
    from memkit import errors as errors
    from memkit import panels as panels
    from memkit import plot as plot
    from memkit import presets as presets
    from memkit import schemas as schemas
    from memkit.change.diff import diff as diff
    from memkit.change.edits import Edits as Edits
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
    from memkit.decay import Decay as Decay
    from memkit.display.notebook import show as show
    from memkit.evaluation.audits.audit import audit as audit
    from memkit.evaluation.labels.known import import_log as import_log
    from memkit.evaluation.labels.known import known_items as known_items
    from memkit.evaluation.labels.labels import read_qrels as read_qrels
    from memkit.evaluation.labels.labels import read_queries as read_queries
    from memkit.evaluation.labels.labels import write_labels as write_labels
    from memkit.evaluation.profiles.profile import Profile as Profile
    from memkit.evaluation.scores.compare import compare as compare
    from memkit.evaluation.scores.evaluation import evaluate as evaluate
    from memkit.evaluation.scores.statistics import queries_needed as queries_needed
    from memkit.evaluation.settings.estimator import as_estimator as as_estimator
    from memkit.evaluation.settings.estimator import as_objective as as_objective
    from memkit.evaluation.settings.grid import shares as shares
    from memkit.evaluation.settings.grid import steps as steps
    from memkit.evaluation.settings.sweep import sweep as sweep
    from memkit.evaluation.tuning.decisions import admission_scores as admission_scores
    from memkit.evaluation.tuning.decisions import context_scores as context_scores
    from memkit.evaluation.tuning.decisions import dedup_scores as dedup_scores
    from memkit.evaluation.tuning.tune import tune as tune
    from memkit.evaluation.tuning.tune import tune_scores as tune_scores
    from memkit.formats.facts import format_fact as format_fact
    from memkit.formats.facts import parse_fact as parse_fact
    from memkit.formats.format import Format as Format
    from memkit.formats.records.adapters import Adapter as Adapter
    from memkit.formats.records.adapters import register_adapter as register_adapter
    from memkit.formats.registry import forget_format as forget_format
    from memkit.formats.registry import known_formats as known_formats
    from memkit.formats.registry import register_format as register_format
    from memkit.formats.rules import rules as rules
    from memkit.glance import overview as overview
    from memkit.index.cache import vector_cache as vector_cache
    from memkit.index.encode import as_encoder as as_encoder
    from memkit.index.encode import register_encoder as register_encoder
    from memkit.index.milvus import Milvus as Milvus
    from memkit.past.history import History as History
    from memkit.past.history import history as history
    from memkit.past.samples import write_commits as write_commits
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
    from memkit.search.reports.contributions import contributions as contributions
    from memkit.search.reports.explain import explain as explain
    from memkit.search.retriever import Retriever as Retriever
    from memkit.tables.buckets import write_buckets as write_buckets
    from memkit.tables.convert import convert_ids as convert_ids
    from memkit.tables.corpus import Corpus as Corpus
    from memkit.tables.named import named_queries as named_queries
    from memkit.tables.records import rank_pathways as rank_pathways
    from memkit.tables.records import stale_pathways as stale_pathways
    from memkit.tables.records import wisdom_support as wisdom_support
    from memkit.tables.samples import sample_data as sample_data
    from memkit.tables.samples import write_files as write_files
    from memkit.tables.sources import open_lake as open  # noqa: F401 - mk.open, under another name in its module
    from memkit.tables.sources import read as read
    from memkit.tables.table import from_table as from_table
    from memkit.text.analyse import analyse as analyse
    from memkit.text.chunk import Chunker as Chunker
    from memkit.text.snippet import snippet as snippet

__version__ = "0.1.0"

# Public names by the module that has them: a name is imported when it is first used.
_MODULES = {
    "change.diff": "diff",
    "change.edits": "Edits",
    "change.fix": "Fix",
    "change.migrate": "Migrate",
    "change.planning": "plan recover undo",
    "change.store": "store",
    "change.workspace": "MemoryIndex MemoryStorage SearchResult get_index get_storage",
    "context": "Context ContextBuilder",
    "decay": "Decay",
    "display.notebook": "show",
    "evaluation.audits.audit": "audit",
    "evaluation.scores.compare": "compare",
    "evaluation.tuning.decisions": "admission_scores context_scores dedup_scores",
    "evaluation.settings.estimator": "as_estimator as_objective",
    "evaluation.scores.evaluation": "evaluate",
    "evaluation.settings.grid": "shares steps",
    "evaluation.labels.known": "import_log known_items",
    "evaluation.labels.labels": "read_qrels read_queries write_labels",
    "evaluation.profiles.profile": "Profile",
    "evaluation.scores.statistics": "queries_needed",
    "evaluation.settings.sweep": "sweep",
    "evaluation.tuning.tune": "tune tune_scores",
    "formats.facts": "format_fact parse_fact",
    "formats.format": "Format",
    "formats.records.adapters": "Adapter register_adapter",
    "formats.registry": "forget_format known_formats register_format",
    "formats.rules": "rules",
    "glance": "overview",
    "index.cache": "vector_cache",
    "index.encode": "as_encoder register_encoder",
    "index.milvus": "Milvus",
    "policy.admission": "Admission",
    "policy.classifier": "Classifier",
    "policy.dedup.deduplicator": "Deduplicator",
    "policy.expiry": "Expiry",
    "policy.index_check": "IndexCheck",
    "policy.pipeline": "Pipeline",
    "policy.quota": "Quota",
    "policy.replay": "forecast replay",
    "policy.split_plan": "SplitPlan",
    "search.reports.explain": "explain",
    "search.reports.contributions": "contributions",
    "search.retriever": "Retriever",
    "tables.buckets": "write_buckets",
    "tables.convert": "convert_ids",
    "tables.corpus": "Corpus",
    "past.history": "History history",
    "past.samples": "write_commits",
    "tables.named": "named_queries",
    "tables.records": "rank_pathways stale_pathways wisdom_support",
    "tables.samples": "sample_data write_files",
    "tables.sources": "read",
    "tables.table": "from_table",
    "text.analyse": "analyse",
    "text.chunk": "Chunker",
    "text.snippet": "snippet",
}
_PUBLIC = {name: (f"memkit.{module}", name) for module, names in _MODULES.items() for name in names.split()}
_PUBLIC |= {room: (f"memkit.{room}", "") for room in ("errors", "panels", "plot", "presets", "schemas")}
_PUBLIC["open"] = ("memkit.tables.sources", "open_lake")  # under another name there, as it is a builtin's
_PUBLIC = dict(sorted(_PUBLIC.items()))
"""Public name to its module, and its name there; a room has none."""
_ERRORS = [name for name, kind in globals().items() if isinstance(kind, type) and issubclass(kind, MemkitError)]

__all__ = [*_PUBLIC, *_ERRORS]  # names, from the tables above


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        hint = _did_you_mean(name, __all__)
        raise AttributeError(f"module 'memkit' has no attribute {name!r}. Expected one of {', '.join(_PUBLIC)}.{hint}")
    module, attribute = _PUBLIC[name]
    value = import_module(module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext memkit``: ``%%memsql`` and ``%memsearch``; results show themselves, as after an import in IPython."""
    from memkit.panels.magics import MemkitMagics

    _show_in(ipython)
    ipython.register_magics(MemkitMagics(ipython))


def _show_in(ipython: Any) -> None:
    from memkit.display.notebook import register

    register(ipython)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _show_in_ipython() -> None:
    module = sys.modules.get("IPython")  # never imported for this: who uses it has it
    shell = module.get_ipython() if module else None
    if shell is not None:
        _show_in(shell)


_show_in_ipython()
