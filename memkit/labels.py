"""Labels: queries and judgements read, written and imported, and the scores that labels of decisions give.

>>> import memkit as mk
>>> qrels = mk.labels.read_qrels({"query_id": ["q1"], "memory_id": ["m1"], "relevance": [1]})
>>> qrels.column_names[:3]
['query_id', 'memory_id', 'relevance']
"""

from memkit.evaluation.decisions import admission_scores, context_scores, dedup_scores, tune_scores
from memkit.evaluation.known_items import import_log
from memkit.evaluation.labels import judgements, read_qrels, read_queries, write
from memkit.evaluation.statistics import queries_needed

__all__ = [
    "admission_scores",
    "context_scores",
    "dedup_scores",
    "import_log",
    "judgements",
    "queries_needed",
    "read_qrels",
    "read_queries",
    "tune_scores",
    "write",
]
