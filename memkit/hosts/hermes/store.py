"""The entries of Hermes: add, replace and remove one, by the host's own rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from memkit import Edits
from memkit.errors import ChangeRefusedError, ParameterError, PolicyRefusal
from memkit.extend.reading import Row, Splice, line_end
from memkit.extend.verbs import PathArgument, Saving, TextArgument, grouped
from memkit.extend.writing import AsOf, Draft, Operations, check_choice, check_value, checked, describe, missing
from memkit.hosts import hermes
from memkit.hosts.hermes import DELIMITER, FILES, LIMITS, Entry
from memkit.schemas import result_schema

TARGETS = {"memory": "MEMORY.md", "user": "USER.md"}
"""What the host's tool calls the two files."""
_USAGE = result_schema((pa.string(), "path"), (pa.int64(), "entries chars limit"), (pa.float64(), "share"))


class HermesStore(Operations):
    """MEMORY.md and USER.md of a Hermes agent: entries between lines ``§``.

    Every other entry keeps its bytes. As the host does, it refuses what would pass a file's limit in characters, an
    entry that stands there already, and a text that is in several entries where one is meant.

    Parameters
    ----------
    root : Path
        The folder that holds the two files, or one above it.
    memory_chars, user_chars : int, characters
        The limits of MEMORY.md and USER.md, delimiters included.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> agent = mk.store(mk.testing.write_files(tempfile.mkdtemp(), {"MEMORY.md": "Сервер: arm64\\n§\\nЧай"})).hermes
    >>> agent.add("Деплой по вторникам")
    'MEMORY.md'
    >>> _ = agent.replace("arm64", "Сервер: x86")
    >>> agent.entries()["text"].to_pylist()
    ['Сервер: x86', 'Чай', 'Деплой по вторникам']
    """

    policy = format = "hermes"

    def __init__(
        self, root: Path, *, memory_chars: int = LIMITS["MEMORY.md"], user_chars: int = LIMITS["USER.md"]
    ) -> None:
        super().__init__(root)
        for name, value in (("memory_chars", memory_chars), ("user_chars", user_chars)):
            check_value("hermes", name, value, "int", low=1)
        self.limits = {"MEMORY.md": memory_chars, "USER.md": user_chars}

    def add(self, text: str, target: str = "memory", *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Append an entry to a file, which is made where it is missing, and return the file's path.

        Raises
        ------
        PolicyRefusal
            With the reason: duplicate or limit.
        ParameterError
            For a text with a line that is just ``§``.
        """
        entry, name = _entry(text), _file(target)

        def work(draft: Draft) -> str:
            path = self._path(draft, name)
            before = draft.text_or_none(path)
            known = hermes.entries(before or "")
            self._check(known, [*known, entry], entry, name)
            if before is None or not known:
                draft.write(path, entry, "added")
                return path
            end = len(before.rstrip())
            new = f"{DELIMITER}{entry}".replace("\n", line_end(before))
            draft.splice("update", path, Splice(end, len(before), new), "added")
            return path

        return self._do(work, now, dry_run)

    def replace(
        self, old: str, text: str, target: str = "memory", *, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        """Put another text in place of the one entry that contains `old`, and return the file's path.

        Raises
        ------
        NotFoundError
            Where no entry contains `old`.
        ChangeRefusedError
            Where different entries do.
        PolicyRefusal
            With the reason: duplicate or limit.
        """
        entry, name = _entry(text), _file(target)

        def work(draft: Draft) -> str:
            path, part = self._one_entry(draft, name, old)
            before = draft.text(path)
            known = hermes.entries(before)
            kept = [one for one in known if one != _text_of(part)]
            self._check(kept, [*kept, entry], entry, name)
            start, end = _span(before, part)
            new = entry.replace("\n", line_end(before))
            draft.splice("update", path, Splice(start, end, new), "replaced")
            return path

        return self._do(work, now, dry_run)

    def remove(self, old: str, target: str = "memory", *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Remove the one entry that contains `old`, and return the file's path.

        Raises
        ------
        NotFoundError
            Where no entry contains `old`.
        ChangeRefusedError
            Where different entries do.
        """
        name = _file(target)

        def work(draft: Draft) -> str:
            path, part = self._one_entry(draft, name, old)
            parts = draft.document(path).parsed(_filled)
            draft.splice("delete", path, hermes.cut(parts, parts.index(part), lambda other: False), "removed")
            return path

        return self._do(work, now, dry_run)

    def entries(self) -> pa.Table:
        """All entries: path, line, text and scope, in the files' order."""
        rows = self._memories_where("format", "hermes")
        names = {"path": "path", "line_start": "line", "text": "text", "scope": "scope"}
        return describe(rows.select(list(names)).rename_columns(list(names.values())), memkit="entries")

    def usage(self) -> pa.Table:
        """What each file takes of its limit: path, entries, chars, limit and share, the ratio of the last two."""
        reader, rows = self._reader(), []
        for name in FILES:
            path = self._path(reader, name)
            if (text := reader.text_or_none(path)) is not None:
                entries, limit = hermes.entries(text), self.limits[name]
                used = hermes.chars(entries)
                counts = {"entries": len(entries), "chars": used, "limit": limit, "share": used / limit}
                rows.append({"path": path, **counts})
        return describe(pa.Table.from_pylist(rows, schema=_USAGE), memkit="usage")

    @staticmethod
    def draft_removal(draft: Draft, memory: Row, reason: str) -> None:
        """Draft the removal of an entry between two ``§``, with one of these."""
        path, place = memory["path"], draft.ordinal(memory["path"], memory["memory_id"])
        parts, rows = draft.document(path).parsed(_filled), draft.memories_in(path)
        if len(parts) != len(rows) or parts[place].line != memory["line_start"]:
            raise ChangeRefusedError(f"{path}:{memory['line_start']}: the place of the entry is not certain.")
        piece = hermes.cut(parts, place, lambda other: rows[other]["memory_id"] in draft.gone)
        draft.splice("delete", path, piece, reason, memory_id=memory["memory_id"])

    def _path(self, draft: Draft, name: str) -> str:
        """The file of a name: beside the entries that are there already, else at the root."""
        paths = self._memories_where("format", "hermes")["path"].to_pylist()
        homes = sorted({path.rpartition("/")[0] for path in paths})
        if len(homes) > 1:
            raise ChangeRefusedError(f"there are entries in {', '.join(homes)}; open a store on one of these folders.")
        home = f"{homes[0]}/" if homes and homes[0] else ""
        if not homes and draft.exists(name) and (draft.text_or_none(name) or "").strip():
            text = draft.text_or_none(name) or ""
            if any(line.startswith("#") for line in text.split("\n")):
                raise ChangeRefusedError(f"{name}: it is Markdown with headings, no file of entries.")
        return home + name

    def _one_entry(self, draft: Draft, name: str, old: str) -> tuple[str, Entry]:
        """The file of a name, and the part of the one entry that contains `old`; the first of equal ones."""
        wanted = checked(old, "old").strip()
        path = self._path(draft, name)
        text = draft.text_or_none(path)
        # Reversed, so that of equal entries the first stays.
        matches = {
            _text_of(part): part for part in reversed(list(hermes.parts(text or ""))) if wanted in _text_of(part)
        }
        if not matches:
            raise missing("entry with", wanted, hermes.entries(text or ""))
        if len(matches) > 1:
            listed = "; ".join(f"line {part.line} {entry[:40]!r}" for entry, part in reversed(matches.items()))
            raise ChangeRefusedError(
                f"{path}: {len(matches)} entries contain {wanted!r:.80}, one is expected. {listed}."
            )
        return path, next(iter(matches.values()))

    def _check(self, known: list[str], new: list[str], entry: str, name: str) -> None:
        if entry in known:
            raise PolicyRefusal(f"duplicate: {name} has this entry already.", "duplicate")
        limit, used = self.limits[name], hermes.chars(new)
        if used > limit:
            raise PolicyRefusal(f"limit: {name} would have {used:,} of {limit:,} characters.", "limit")


def _span(text: str, part: Entry) -> tuple[int, int]:
    """Where the entry of a part begins and ends, without the blanks around it."""
    entry = text[part.start : part.end]
    start = part.start + len(entry) - len(entry.lstrip())
    return start, start + len(entry.strip())


def _text_of(part: Entry) -> str:
    return part.text.replace("\r\n", "\n").strip()


def _filled(text: str) -> list[Entry]:
    """The parts of a file that hold an entry."""
    return [part for part in hermes.parts(text) if part.text]


def _entry(text: str) -> str:
    """The text of an entry, checked to come back as one."""
    entry = checked(text, "text").replace("\r\n", "\n").strip()
    if any(line.strip() == "§" for line in entry.split("\n")):
        raise ParameterError("text: expected no line that is just '§', which parts entries.")
    return entry


def _file(target: str) -> str:
    check_choice("target", target, tuple(TARGETS), "hermes")
    return TARGETS[target]


@grouped
def add_entry(
    path: PathArgument,
    text: TextArgument,
    target: Annotated[str, typer.Option("--target", help="memory or user.")] = "memory",
    *,
    saving: Saving,
) -> None:
    """Show what saving an entry of Hermes would write, or with --yes write it."""
    saving.save(path, lambda memory: memory.hermes.add, text, target)
