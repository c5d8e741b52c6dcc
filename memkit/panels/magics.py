"""``%%memsql`` and ``%memsearch``, which ``%load_ext memkit`` brings."""

from __future__ import annotations

import shlex
import weakref
from typing import Any

import pandas as pd
import pyarrow as pa
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from memkit.duck import interruptible
from memkit.errors import ParameterError, did_you_mean
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus


@magics_class
class MemkitMagics(Magics):
    """SQL over a corpus, and a search, in a cell of their own.

    Where no name is given, what was made last in the notebook answers.

    Examples
    --------
    >>> from IPython.core.interactiveshell import InteractiveShell
    >>> import memkit as mk
    >>> shell = InteractiveShell()
    >>> shell.user_ns["corpus"] = mk.from_table({"text": ["чай", "кофе"]})
    >>> MemkitMagics(shell).memsql("corpus", "select count(*) as n from memories")["n"].tolist()
    [2]
    """

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.space: dict[str, Any] = shell.user_ns
        self._made: dict[str, list[weakref.ref[Any]]] = {}
        shell.events.register("post_run_cell", self.look)

    def look(self, *_: Any) -> None:
        """Note what the last cell made."""
        for kind in (Corpus, Retriever):
            known = self._made.setdefault(kind.__name__, [])
            seen = {id(one()) for one in known}
            own = {id(value): value for value in list(self.space.values()) if isinstance(value, kind)}
            known += [weakref.ref(value) for number, value in own.items() if number not in seen]

    @cell_magic
    def memsql(self, line: str, cell: str) -> pd.DataFrame:
        """``%%memsql [corpus]``: the cell's query on the connection of that corpus, as a DataFrame.

        Raises
        ------
        QueryError, duckdb.Error
            For what cannot be asked.
        """
        with interruptible():
            found: pa.Table = self._named(line.strip(), Corpus).sql(cell).to_arrow_table()
        frame: pd.DataFrame = found.to_pandas()
        return frame

    @line_magic
    def memsearch(self, line: str) -> pa.Table:
        """``%memsearch [-s search] words``: the hits of the words."""
        words = shlex.split(line) if line.startswith("-s ") else []
        name, query = (words[1], " ".join(words[2:])) if len(words) > 1 else ("", line)
        hits: pa.Table = self._named(name, Retriever).search(query)
        return hits

    def _named(self, name: str, kind: type) -> Any:
        """The variable of that name, else what was made last."""
        if name:
            if not isinstance(self.space.get(name), kind):
                known = [key for key, value in self.space.items() if isinstance(value, kind)]
                hint = did_you_mean(name, known)
                raise ParameterError(f"expected the name of a {kind.__name__}. Got {name!r}.{hint}")
            return self.space[name]
        self.look()
        alive = [one() for one in self._made[kind.__name__]]
        last = next((one for one in reversed(alive) if one is not None), None)
        if last is None:
            raise ParameterError(
                f"expected a {kind.__name__} in the notebook. Got none: make one, such as mk.read(path)."
            )
        return last
