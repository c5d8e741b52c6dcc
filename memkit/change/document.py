"""One file as a plan found it: its text, and where things stand in it, each worked out once."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from memkit.errors import ChangeRefusedError
from memkit.formats.records.write import Place, json_places, yaml_places
from memkit.formats.syntax.places import Json, Steps
from memkit.formats.syntax.yaml import ENDINGS

_BLANK = re.compile(r"\s*")


class Document:
    """A file that a plan looks at; what is asked of it often costs as much as to ask once.

    Attributes
    ----------
    text : str
        Every character of it.
    sha256 : str
        Of its bytes.
    """

    def __init__(self, path: str, text: str, sha256: str) -> None:
        self.path, self.text, self.sha256 = path, text, sha256

    @cached_property
    def json(self) -> Json:
        """The text as JSON.

        Raises
        ------
        ChangeRefusedError
            Where it is none.
        """
        return Json(self.text)

    @cached_property
    def entries(self) -> dict[int, list[Steps]]:
        """Of an index: the paths of its entries, by the line that they begin on."""
        above: Steps = [] if self.text.startswith("[", self.json.start) else ["files"]
        whole = self.json.find(above)
        found: dict[int, list[Steps]] = {}
        for place, part in enumerate(self.json.parts(whole.value) if whole else ()):
            found.setdefault(self.json.line(part.value), []).append([*above, place])
        return found

    @cached_property
    def named(self) -> dict[tuple[int, str], list[Steps]]:
        """The entries of lines that hold several, by line and by the file that they name."""
        found: dict[tuple[int, str], list[Steps]] = {}
        for line, paths in self.entries.items():
            for path in paths if len(paths) > 1 else ():
                parts = (self.json.find([*path, key]) for key in ("file", "path"))
                for file in {self.json.value(part) for part in parts if part and self.text[part.value] == '"'}:
                    found.setdefault((line, file), []).append(path)
        return found

    def lines(self, first: int, last: int) -> tuple[int, int]:
        """Where lines begin and end, their own line ends included; a BOM is not part of the first."""
        starts = self._starts
        start = 1 if first == 1 and self.text.startswith("\ufeff") else starts[first - 1]
        return start, starts[min(last, len(starts) - 1)]

    @cached_property
    def newline(self) -> str:
        """What ends its lines; nothing where there is one alone."""
        return "" if "\n" not in self.text.strip() else "\r\n" if "\r\n" in self.text else "\n"

    def indent(self, at: int) -> str | None:
        """The blank that stands before a place on its line; None where something else does."""
        start = self._starts[bisect_right(self._starts, at) - 1]
        match = _BLANK.match(self.text, start, at)
        return match.group() if match and match.end() == at else None

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        while (found := self.text.find("\n", starts[-1])) >= 0:
            starts.append(found + 1)
        return [*starts, len(self.text)]

    def records(self) -> list[Place] | None:
        """The places of the records, in order; None where the file is one record.

        Raises
        ------
        ChangeRefusedError
            Where they cannot be told.
        """
        if isinstance(self._records, ChangeRefusedError):
            raise ChangeRefusedError(str(self._records)) from self._records
        return self._records

    @cached_property
    def _records(self) -> list[Place] | ChangeRefusedError | None:
        try:
            return yaml_places(self.text) if self.path.lower().endswith(ENDINGS) else json_places(self.json)
        except ChangeRefusedError as error:  # kept too: else each record of the file would look again
            return error
