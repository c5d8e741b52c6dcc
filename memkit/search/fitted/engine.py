"""An index whose rows another engine holds, which finds the candidates; all that follows is memkit's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from memkit.errors import ParameterError
from memkit.index.engine import EngineArm, as_engine
from memkit.search.fitted.arms import Arm
from memkit.search.fitted.index import MemoryIndex
from memkit.search.settings import QuerySettings


@dataclass
class EngineIndex(MemoryIndex):
    """As a `MemoryIndex`, whose arms tell what an engine is given and asked.

    Attributes
    ----------
    held : dict of str to EngineArm
        The arms as the engine holds them.
    """

    held: dict[str, EngineArm] = field(default_factory=dict)

    def ready(self, how: QuerySettings) -> None:
        """As `MemoryIndex.ready`; the engine gets the rows that it has not yet.

        Raises
        ------
        ParameterError
            Where the engine is none, or turns of a conversation are to be found by their neighbours.
        """
        as_engine(self.settings.engine)
        super().ready(how)
        if self.context is not None:
            raise ParameterError(
                "Retriever: 'context_column' looks at all rows of a conversation: engine='local' alone."
            )
        for name in self.arms:
            _ = (arm := self._held(name)).collection
            arm.let_go()

    def finder(self, name: str) -> Arm:
        """The engine, by the rows of the arm."""
        return cast(Arm, self._held(name))

    def _held(self, name: str) -> EngineArm:
        engine = as_engine(self.settings.engine)
        if name not in self.held and engine is not None:
            s, encoder = self.settings, self.fingerprint if name == "vector" else None
            state = repr((self.digests, s.analyser, s.lexical, s.centre, encoder))
            owner = self.rows.owner[self.rows.memory]
            self.held[name] = EngineArm(engine, self.arms[name], name, state, owner, self.rows.filled)
        return self.held[name]

    @property
    def is_steady(self) -> bool:
        """No engine promises that the best n are the first of the best 2 n."""
        return False
