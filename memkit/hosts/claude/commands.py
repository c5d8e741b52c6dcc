"""The verb that shortens a MEMORY.md."""

from __future__ import annotations

from memkit.extend.verbs import repair_verb
from memkit.hosts.claude.budget import IndexBudget

budget = repair_verb(
    "budget",
    lambda: IndexBudget,
    "Show how to shorten a MEMORY.md above its host's limits without loss, or with --yes shorten it.",
)
