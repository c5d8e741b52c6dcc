"""The operations of the index standard: categories and entries, each saved only after the three rules were checked."""

from __future__ import annotations

import posixpath
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.memories import entry_path, remove_entry
from memkit.change.operations import Operations, missing
from memkit.change.planning import clean_entries, plan
from memkit.change.split import join, split_anew
from memkit.duck import literal
from memkit.errors import ChangeRefusedError, FormatError, ParameterError
from memkit.formats.fields import words_given
from memkit.formats.index_tree.index import FIELDS, format_branch, format_branch_line, format_root, ordered_entry
from memkit.formats.syntax.places import Json, Splice, with_values
from memkit.params import AsOf, as_of_time
from memkit.policy.index_check import IndexCheck
from memkit.policy.split_plan import SplitPlan
from memkit.tables.corpus import Corpus
from memkit.tables.sources import read

HOMES = ("memory", "")
"""Where the root index may lie; the first that has one counts, and `HOMES[0]` where none does."""
Row = dict[str, Any]


class IndexStore(Operations):
    """Entries of index trees: what is there stays, and only what is asked for changes (index standard, 2 and 6).

    Parameters
    ----------
    root : Path
        The folder that holds ``memory/``, or is it.
    max_tokens : int
        A longer file is split: the standard's ``memory_settings.max_tokens_per_file``.
    auto_clean_invalid, auto_clean_missing : bool
        Whether saving an entry removes the others that break a rule of section 4; else a warning says which.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> index = mk.store(mk.write_files(tempfile.mkdtemp(), {"memory/lessons/tea.md": "# Чай\\n"})).index
    >>> _ = index.add_category("lessons")
    >>> index.add_entry("lessons", "Чай", "lessons/tea.md", ["чай"], "high", now="2026-03-01")
    'lessons/tea.md'
    >>> index.load().tables["entries"].select(["title", "status"]).to_pylist()
    [{'title': 'Чай', 'status': 'valid'}]
    """

    policy = "index"

    def __init__(
        self,
        root: Path,
        max_tokens: int = 4096,
        *,
        auto_clean_invalid: bool = False,
        auto_clean_missing: bool = False,
    ) -> None:
        super().__init__(root)
        self.max_tokens = max_tokens
        self.checked = IndexCheck(auto_clean_invalid=auto_clean_invalid, auto_clean_missing=auto_clean_missing)

    def load(self) -> Corpus:
        """What is there, as `memkit.read` reads it."""
        return read(self.root)

    def check(self) -> pa.Table:
        """The entries as `IndexCheck` judges them."""
        return IndexCheck().transform(self.load())

    def create_root(self, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """An empty root index; its path.

        Raises
        ------
        ChangeRefusedError
            Where there is one.
        """

        def work(draft: Draft) -> str:
            root = posixpath.join(self._home(draft), "index.json")
            if draft.exists(root):
                raise ChangeRefusedError(f"{root}: it is there already.")
            draft.write(root, format_root([]), "a root index")
            return root

        return self._do(work, now, dry_run)

    def add_category(
        self, category: str, path: str | None = None, *, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        """A branch of its own for a category, named by the root, which is made where there is none; its path.

        Raises
        ------
        ChangeRefusedError
            Where the root names the category already.
        """
        name = path or f"{category}/index.json"
        line = format_branch_line({"category": category, "path": name})

        def work(draft: Draft) -> str:
            home = self._home(draft)
            root = posixpath.join(home, "index.json")
            text = draft.tail_of(root)
            if text is None:
                draft.write(root, format_root([{"category": category, "path": name}]), "a root index")
            else:
                json = Json(text)
                if category in _categories(json):
                    raise ChangeRefusedError(f"{root}: it names the category {category!r} already.")
                draft.splice("update", root, _branch_line(json, line), f"category {category}")
            branch = posixpath.join(home, name.removeprefix("memory/"))
            if draft.exists(branch):
                raise ChangeRefusedError(f"{branch}: it is there already.")
            draft.write(branch, format_branch(category), f"category {category}")
            return branch

        return self._do(work, now, dry_run)

    def add_entry(
        self,
        category: str,
        title: str,
        file: str,
        tags: Sequence[str],
        priority: str,
        version: str = "1.0",
        updated: str | None = None,
        *,
        now: AsOf = None,
        dry_run: bool = False,
        **more: Any,
    ) -> str | Edits:
        """An entry in the index of a category for a file that is there; the file, as it is written.

        Raises
        ------
        FormatError
            Where a field is not as the standard wants it.
        ChangeRefusedError
            Where the file is missing, lies outside of the memory folder, is the plugin's, or is named already.
        NotFoundError
            For an unknown category.
        """
        day = updated or as_of_time(now).date().isoformat()
        fields = {"title": title, "file": file, "tags": words_given(tags), "priority": priority, "version": version}
        entry = ordered_entry({**fields, "updated": day, **more})

        def work(draft: Draft) -> str:
            corpus = self.load()
            index = self._branch(draft, category)
            self._check_file(draft, corpus, file)
            self._clean_others(draft, corpus, file)
            new = draft.document(index).json.append(["files"], entry)
            draft.splice("update", index, new, f"a new entry for {file}")
            return file

        return self._do(work, now, dry_run)

    def update_entry(self, file: str, /, *, now: AsOf = None, dry_run: bool = False, **changed: Any) -> str | Edits:
        """Give fields of an entry other values; all others, their order and unknown ones stay. Its file.

        ``updated`` becomes today unless given, and ``edit_count`` grows by one where there is one.
        """
        if not changed:
            raise ParameterError("update_entry: expected a field and its value. Got none.")

        def work(draft: Draft) -> str:
            row = self._entry(file)
            index = row["index_path"]
            document = draft.document(index)
            place = entry_path(document, row)
            values = {"updated": draft.moment.date().isoformat(), **changed}
            if row["edit_count"] is not None and "edit_count" not in changed:
                values["edit_count"] = row["edit_count"] + 1
            FIELDS.only(*values).strict(values)
            named = str(values.get("file", file))
            if named != file:
                self._check_file(draft, self.load(), named)
            new = with_values(document.text, values, Json, *place)
            part, old = Json(new).find(place), document.json.find(place)
            assert part is not None  # as it was before
            assert old is not None  # entry_path found it
            splice = Splice(old.start, old.end, new[part.start : part.end])
            draft.splice("update", index, splice, f"changed {', '.join(changed)}", memory_id=row["memory_id"])
            self._clean_others(draft, self.load(), row["file"])
            return named

        return self._do(work, now, dry_run)

    def remove_entry(self, file: str, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Take an entry out of its index, and its file and parts off the disk; the file."""

        def work(draft: Draft) -> str:
            remove_entry(draft, self._entry(file), "removed")
            return file

        return self._do(work, now, dry_run)

    def clean(
        self,
        *,
        invalid: bool = False,
        missing: bool = False,
        pinned: bool = False,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> pa.Table | Edits:
        """Remove invalid or missing entries (``auto_clean_invalid``, ``auto_clean_missing``), pinned ones if asked."""
        policy = IndexCheck(auto_clean_invalid=invalid, auto_clean_missing=missing)
        return self._asked("index_check", lambda draft: clean_entries(policy, draft, pinned), now, dry_run)

    def split(self, file: str | None = None, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Split a file that is too long, or all that are, into parts with an ``index.md`` (section 5).

        A file that is split is split anew from what its parts hold, or from itself where it is back; one that is short
        again is one file again. Of all files that is done where a part is too long, or the file is back.
        """
        policy = SplitPlan(max_tokens_per_file=self.max_tokens)
        entry = None if file is None else self._entry(file)
        if entry is not None and entry["parts"]:
            return self._asked("split_plan", lambda draft: split_anew(policy, draft, entry), now, dry_run)
        edits = plan(self.load(), policy, now)
        if entry is not None:
            word = f"split {entry['path']}"
            edits = edits.filter(f"together = {literal(word)}")
        return edits if dry_run else edits.apply(force=True)

    def rejoin(self, file: str, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Put the parts of a split file together again, byte for byte.

        Raises
        ------
        NotFoundError, ChangeRefusedError
            For an unknown file, and one that is not split.
        """
        entry = self._entry(file)
        return self._asked("split_plan", lambda draft: join(draft, entry), now, dry_run)

    def _asked(self, policy: str, work: Callable[[Draft], None], now: AsOf, dry_run: bool) -> pa.Table | Edits:
        """What `work` drafts as `policy` would, applied however many entries go: they were asked for."""
        draft = Draft(self.root, as_of_time(now), self.load())
        with draft.of(policy):
            work(draft)
        edits = draft.edits([("as_of", draft.moment.isoformat())])
        return edits if dry_run else edits.apply(force=True)

    def _home(self, draft: Draft) -> str:
        found = (home for home in HOMES if draft.exists(posixpath.join(home, "index.json")))
        return next(found, HOMES[0])

    def _branch(self, draft: Draft, category: str) -> str:
        """The index of a category."""
        home = self._home(draft)
        text = draft.tail_of(posixpath.join(home, "index.json")) or '{"branches": []}'
        known = _categories(Json(text))
        if category not in known:
            raise missing("category", category, known)
        return posixpath.normpath(posixpath.join(home, known[category].removeprefix("memory/")))

    def _check_file(self, draft: Draft, corpus: Corpus, file: str) -> None:
        """The three rules of section 4, and that no other entry names the file."""
        home = self._home(draft)
        path = posixpath.normpath(posixpath.join(home, file.removeprefix("memory/")))
        if file.startswith("/") or "\\" in file or (home and not path.startswith(f"{home}/")) or path.startswith(".."):
            raise ChangeRefusedError(f"invalid: {file} lies outside of the memory folder.")
        if "sofia-memory-plugin" in path.split("/"):
            raise ChangeRefusedError(f"invalid: {file} is a file of the plugin.")
        if not draft.exists(path):
            raise ChangeRefusedError(f"missing: there is no file {file}.")
        if path in corpus.tables["entries"]["path"].to_pylist():
            raise ChangeRefusedError(f"{file}: an entry names it already.")

    def _clean_others(self, draft: Draft, corpus: Corpus, file: str) -> None:
        """Draft that the other entries go that are to be cleaned, and say which are wrong and stay."""
        judged = self.checked.transform(corpus)
        wrong = [row for row in judged.filter(pc.invert(judged["keep"])).to_pylist() if row["file"] != file]
        left = [f"{row['file']} is {row['reason']}" for row in wrong if not row["would_remove"]]
        if left:
            said = f"{len(left)} other entries break a rule: {'; '.join(left[:3])}."
            warnings.warn(said, RuntimeWarning, stacklevel=6)
        for row in wrong:
            if row["would_remove"]:
                remove_entry(draft, row, str(row["reason"]))

    def _entry(self, file: str) -> Row:
        entries = self.load().tables["entries"].to_pylist()
        wanted = file.removeprefix("memory/")
        rows = [row for row in entries if (row["file"] or "").removeprefix("memory/") == wanted]
        if not rows:
            raise missing("entry for", file, [row["file"] for row in entries if row["file"]])
        if len(rows) > 1:
            raise FormatError(f"{file}: {len(rows)} entries name it.")
        found: Row = rows[0]
        return found


def _categories(json: Json) -> dict[str, str]:
    """The branches of a root: category to path."""
    whole = json.find(["branches"])
    found: dict[str, str] = {}
    for part in json.parts(whole.value) if whole else ():
        own = {inner.key: json.text[inner.value : inner.end].strip('"') for inner in json.parts(part.value)}
        if "category" in own and "path" in own:
            found[own["category"]] = own["path"]
    return found


def _branch_line(json: Json, line: str) -> Splice:
    """A branch on a line of its own, as the standard's example has it."""
    text, whole = json.text, json.find(["branches"])
    if whole is None or text[whole.value] != "[":
        raise ChangeRefusedError("the root index has no list of branches.")
    parts = json.parts(whole.value)
    newline = "\r\n" if "\r\n" in text else "\n" if "\n" in text else ""
    if not parts:
        return Splice(whole.value, whole.end, f"[{newline}    {line}{newline}  ]" if newline else f"[{line}]")
    before = text[: parts[-1].start]
    indent = before[before.rfind("\n") + 1 :] if newline else ""
    gap = f"{newline}{indent}" if not indent.strip() and newline else " "
    return Splice(parts[-1].end, parts[-1].end, f",{gap}{line}")
