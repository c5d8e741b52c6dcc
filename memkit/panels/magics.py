"""``%%memsql`` and ``%memsearch``, which ``%load_ext memkit`` brings."""

from __future__ import annotations

import shlex
import weakref
from typing import Any

import pandas as pd
import pyarrow as pa
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from memkit.base.duck import interruptible
from memkit.errors import ParameterError, did_you_mean
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus


@magics_class
class MemkitMagics(Magics):
    """SQL over a corpus, and a search, in a cell of their own.

    Without a name, they use the corpus or search that the notebook made last.

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
        self.variables: dict[str, Any] = shell.user_ns
        self._recent: dict[str, list[weakref.ref[Any]]] = {}
        shell.events.register("post_run_cell", self.look)

    def look(self, *_: Any) -> None:
        """Remember the corpora and searches that the last cell made."""
        for kind in (Corpus, Retriever):
            references = self._recent.setdefault(kind.__name__, [])
            known_ids = {id(reference()) for reference in references}
            new_values = {id(value): value for value in list(self.variables.values()) if isinstance(value, kind)}
            references += [weakref.ref(value) for number, value in new_values.items() if number not in known_ids]

    @cell_magic
    def memsql(self, line: str, cell: str) -> pd.DataFrame:
        """``%%memsql [corpus]``: the cell's query on the connection of that corpus, as a DataFrame.

        Raises
        ------
        QueryError, duckdb.Error
            For SQL that is refused or fails.
        """
        with interruptible():
            rows: pa.Table = self._named(line.strip(), Corpus).sql(cell).to_arrow_table()
        frame: pd.DataFrame = rows.to_pandas()
        return frame

    @line_magic
    def memsearch(self, line: str) -> pa.Table:
        """``%memsearch [-s search] words``: the hits of the words."""
        words = shlex.split(line) if line.startswith("-s ") else []
        name, query = (words[1], " ".join(words[2:])) if len(words) > 1 else ("", line)
        hits: pa.Table = self._named(name, Retriever).search(query)
        return hits

    def _named(self, name: str, kind: type) -> Any:
        """The variable of that name; without a name the object made last."""
        if name:
            if not isinstance(self.variables.get(name), kind):
                names = [key for key, value in self.variables.items() if isinstance(value, kind)]
                hint = did_you_mean(name, names)
                raise ParameterError(f"expected the name of a {kind.__name__}. Got {name!r}.{hint}")
            return self.variables[name]
        self.look()
        alive = [reference() for reference in self._recent[kind.__name__]]
        last = next((reference for reference in reversed(alive) if reference is not None), None)
        if last is None:
            raise ParameterError(
                f"expected a {kind.__name__} in the notebook. Got none: make one, such as mk.read(path)."
            )
        return last
