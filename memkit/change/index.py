"""The operations of the index standard: categories and entries, each checked by the three rules before it is saved."""

from __future__ import annotations

import posixpath
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, as_of_time, check_value
from memkit.change.draft import Draft, Operations, answer, applied, checked, missing
from memkit.change.edits import Edits
from memkit.change.memories import (
    entry_path,
    join,
    one_entry,
    parts_of,
    remove_entry,
    split_anew,
    split_file,
    split_files,
)
from memkit.change.planning import clean_entries
from memkit.errors import ChangeRefusedError, FormatError, ParameterError
from memkit.formats.fields import words_given
from memkit.formats.index_tree.format import ANY_INDEX, DRIVE
from memkit.formats.index_tree.index import FIELDS, below, format_branch, format_branch_line, format_root, ordered_entry
from memkit.formats.rows import Row
from memkit.formats.syntax.places import Json, Splice, with_values
from memkit.policy.index_standard import IndexCheck, SplitPlan
from memkit.tables.corpus import Corpus, read

MEMORY_FOLDERS = ("memory", "")
"""Folders that may hold the root index; the first that does counts."""


class IndexStore(Operations):
    """Entries of index trees; an operation changes only what it names (index standard, 2 and 6).

    Parameters
    ----------
    root : Path
        The folder that holds ``memory/``, or that folder itself.
    auto_clean_invalid, auto_clean_missing : bool
        Whether saving an entry removes other entries that break a rule of section 4; else a warning names them.
    max_tokens_per_file : int, tokens
        `split` splits longer files: the standard's ``memory_settings.max_tokens_per_file``.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> index = mk.store(mk.testing.write_files(tempfile.mkdtemp(), {"memory/lessons/tea.md": "# Чай\\n"})).index
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
        *,
        auto_clean_invalid: bool = False,
        auto_clean_missing: bool = False,
        max_tokens_per_file: int = 4096,
    ) -> None:
        super().__init__(root)
        self.index_check = IndexCheck(auto_clean_invalid=auto_clean_invalid, auto_clean_missing=auto_clean_missing)
        self.split_plan = SplitPlan(max_tokens_per_file=max_tokens_per_file)
        for policy in (self.index_check, self.split_plan):
            policy.check_params()

    def load(self) -> Corpus:
        """The folder as `memkit.read` reads it."""
        return read(self.root)

    def check(self) -> pa.Table:
        """The entries with the verdicts of `IndexCheck`."""
        return IndexCheck().transform(self.load())

    def create_root(self, *, now: AsOf = None, dry_run: bool = False) -> str | Edits:
        """Write an empty root index, and return its path.

        Raises
        ------
        ChangeRefusedError
            Where it exists already.
        """

        def work(draft: Draft) -> str:
            root = posixpath.join(self._home(draft), "index.json")
            if draft.exists(root):
                raise ChangeRefusedError(f"{root}: it exists already.")
            draft.write(root, format_root([]), "a root index")
            return root

        return self._do(work, now, dry_run)

    def add_category(
        self, category: str, path: str | None = None, *, now: AsOf = None, dry_run: bool = False
    ) -> str | Edits:
        """Write the index of a new category, name it in the root index, and return its path; a missing root is made.

        Where the root names the category already and its index is missing, the index is written where the root says.

        Raises
        ------
        ChangeRefusedError
            Where the category has its index already, or the root names another path for it.
        """
        name = f"{category}/index.json" if path is None else path
        line = format_branch_line({"category": category, "path": name})
        if posixpath.basename(name) != "index.json":
            raise FormatError(f"field 'path' must be a path to an index.json. Got {name!r:.80}.", field="path")

        def work(draft: Draft) -> str:
            home = self._home(draft)
            root = posixpath.join(home, "index.json")
            text = draft.text_or_none(root)
            named = _categories(Json(text)).get(category) if text is not None else None
            if text is None:
                draft.write(root, format_root([{"category": category, "path": name}]), "a root index")
            elif named is None:
                draft.splice("update", root, _branch_line(Json(text), line), f"category {category}")
            elif path is not None and _normal_path(path) != _normal_path(named):
                raise ChangeRefusedError(f"{root}: it names the category {category!r} already, at {named}.")
            branch = posixpath.normpath(posixpath.join(home, (named or name).removeprefix("memory/")))
            if not below(branch, home) or not ANY_INDEX.search(branch):
                raise ChangeRefusedError(f"{root}: {named or name} is no index.json inside of the memory folder.")
            if draft.exists(branch):
                raise ChangeRefusedError(f"{branch}: it exists already.")
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
        """Add an entry for an existing file to the index of a category, and return the file as the entry names it.

        The path is relative to the memory folder, as in the standard's examples; it begins with ``memory/`` where all
        entries of the index do.

        Raises
        ------
        FormatError
            For a field that breaks the standard's rules.
        ChangeRefusedError
            Where the file is missing, outside of its branch's folder, a file of the plugin, an index, or named by
            another entry.
        NotFoundError
            For an unknown category.
        """
        checked(category, "category")
        day = as_of_time(now).date().isoformat() if updated is None else updated
        fields = {"title": title, "file": file, "tags": words_given(tags), "priority": priority, "version": version}
        entry = ordered_entry({**fields, "updated": day, **more})

        def work(draft: Draft) -> str:
            corpus = self.load()
            index = self._branch(draft, category)
            written = self._file_as_written(draft, corpus, index, file)
            self._clean_others(draft, corpus)
            new = draft.document(index).json.append(["files"], {**entry, "file": written})
            draft.splice("update", index, new, f"a new entry for {written}")
            return written

        return self._do(work, now, dry_run)

    def update_entry(
        self, file: str, /, *, nth: int | None = None, now: AsOf = None, dry_run: bool = False, **changed: Any
    ) -> str | Edits:
        """Change fields of an entry, and return its file; other fields, their order and unknown ones stay.

        ``updated`` becomes today unless given, and an existing ``edit_count`` grows by one. Where several entries name
        the file, `nth` chooses one, from 1 in the order of ``load().tables["entries"]``.
        """
        if not changed:
            raise ParameterError("update_entry: expected a field and its value. Got none.")
        if "tags" in changed:
            changed["tags"] = words_given(changed["tags"])
        FIELDS.only(*changed).strict(changed)

        def work(draft: Draft) -> str:
            corpus = self.load()
            row = self._entry(corpus, file, nth)
            index = row["index_path"]
            document = draft.document(index)
            place = entry_path(document, row)
            values = {"updated": draft.moment.date().isoformat(), **changed}
            if row["edit_count"] is not None and "edit_count" not in changed:
                values["edit_count"] = row["edit_count"] + 1
            if "file" in changed and _normal_path(changed["file"]) != _normal_path(row["file"]):
                values["file"] = self._file_as_written(draft, corpus, index, changed["file"])
            new = with_values(document.text, values, Json, *place)
            part, old = Json(new).find(place), document.json.find(place)
            assert part is not None  # as it was before
            assert old is not None  # entry_path found it
            splice = Splice(old.start, old.end, new[part.start : part.end])
            draft.splice("update", index, splice, f"changed {', '.join(changed)}", memory_id=row["memory_id"])
            self._clean_others(draft, corpus, row)
            return str(values.get("file", row["file"]))

        return self._do(work, now, dry_run)

    def remove_entry(
        self,
        file: str,
        *,
        delete_file: bool = False,
        nth: int | None = None,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | Edits:
        """Remove an entry from its index, and return its file; `delete_file` deletes the file and its parts too.

        Where several entries name the file, `nth` chooses one, from 1 in the order of ``load().tables["entries"]``.

        Raises
        ------
        NotFoundError
            Where no entry names the file.
        ChangeRefusedError
            Where several do and `nth` is not given, or `delete_file` is; and where the entry is pinned.
        """

        def work(draft: Draft) -> str:
            corpus = self.load()
            row = self._entry(corpus, file, nth)
            if delete_file:
                # Asked again without `nth`: a file that several entries name is not deleted for one of them.
                self._entry(corpus, file)
            remove_entry(draft, row, "removed", delete_file=delete_file)
            return str(row["file"])

        return self._do(work, now, dry_run)

    def clean(
        self,
        *,
        invalid: bool | None = None,
        missing: bool | None = None,
        pinned: bool = False,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> pa.Table | Edits:
        """Remove invalid entries, or those whose file is missing; `pinned` includes pinned ones.

        Returns
        -------
        pyarrow.Table
            The changed files: path, op, sha256_before, sha256_after; and a row with op ``refused`` and the reason for
            each entry that could not be removed. With `dry_run`, the `Edits`.

        Raises
        ------
        ParameterError
            Where neither is true. None takes the store's ``auto_clean_invalid`` and ``auto_clean_missing``.
        """
        defaults = self.index_check.get_params()
        options = {"auto_clean_invalid": invalid, "auto_clean_missing": missing}
        policy = IndexCheck(**{name: defaults[name] if value is None else value for name, value in options.items()})
        if not any(policy.check_params().values()):
            raise ParameterError("clean: expected invalid=True or missing=True. Got neither.")
        return self._apply_draft("index_check", lambda draft: clean_entries(policy, draft, pinned), now, dry_run)

    def split(self, file: str | None = None, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Split a file that is too long, or all such files, into parts with an ``index.md`` (section 5).

        A file that is already split is split again: from the text of its parts, or from the file itself where it
        exists again. Where that text is short enough, it becomes one file. Without `file`, this is done to files with
        a part that is too long, and to those that exist again.

        Returns
        -------
        pyarrow.Table
            The changed files: path, op, sha256_before, sha256_after. Without `file`, also a row with op ``refused`` and
            the reason for each file that could not be split. A named file within the limit is one row with op
            ``kept``. With `dry_run`, the `Edits`.

        Raises
        ------
        NotFoundError, ChangeRefusedError
            Where no entry names the file, or it cannot be split.
        """
        policy = self.split_plan
        if file is None:
            return self._apply_draft("split_plan", lambda draft: split_files(policy, draft), now, dry_run)
        corpus = self.load()
        entry = self._entry(corpus, file)
        if entry["path"] is None:
            raise ChangeRefusedError(f"{entry['status']}: {file}: {entry['reason']}.")
        if entry["parts"]:
            return self._apply_draft("split_plan", lambda draft: split_anew(policy, draft, entry), now, dry_run)
        tokens = policy.count(Draft(self.root, as_of_time(now), corpus).text(entry["path"]))
        # A dry run answers with edits, of which there are none then.
        if tokens <= policy.max_tokens_per_file and not dry_run:
            reason = f"{tokens} tokens, no more than {policy.max_tokens_per_file}"
            return answer(None, [{"path": entry["path"], "reason": reason}], "kept")
        return self._apply_draft("split_plan", lambda draft: split_file(policy, draft, entry["path"]), now, dry_run)

    def rejoin(self, file: str, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Join the parts of a split file into one file again, byte for byte.

        Returns
        -------
        pyarrow.Table
            The files: path, op, sha256_before, sha256_after. With `dry_run`, the `Edits`.

        Raises
        ------
        NotFoundError, ChangeRefusedError
            For an unknown file, and for one that is not split.
        """
        entry = self._entry(self.load(), file)
        return self._apply_draft("split_plan", lambda draft: join(draft, entry), now, dry_run)

    def _apply_draft(self, policy: str, work: Callable[[Draft], None], now: AsOf, dry_run: bool) -> pa.Table | Edits:
        """Apply what `work` drafts for `policy`, however many entries it removes: the caller asked for them."""
        draft = Draft(self.root, as_of_time(now), self.load())
        with draft.as_policy(policy):
            work(draft)
        edits = draft.edits([("as_of", draft.moment.isoformat())])
        return edits if dry_run else applied(edits, force=True)

    def _home(self, draft: Draft) -> str:
        """The memory folder, relative to the root: the one with a root index, else ``memory/`` or the root itself."""
        homes = (home for home in MEMORY_FOLDERS if draft.exists(posixpath.join(home, "index.json")))
        is_memory_folder = self.root.resolve().name == MEMORY_FOLDERS[0] and not draft.exists(MEMORY_FOLDERS[0])
        return next(homes, MEMORY_FOLDERS[is_memory_folder])

    def _branch(self, draft: Draft, category: str) -> str:
        """The path of the index of a category."""
        home = self._home(draft)
        text = draft.text_or_none(posixpath.join(home, "index.json")) or '{"branches": []}'
        categories = _categories(Json(text))
        if category not in categories:
            raise missing("category", category, categories)
        return posixpath.normpath(posixpath.join(home, categories[category].removeprefix("memory/")))

    def _file_as_written(self, draft: Draft, corpus: Corpus, index: str, file: str) -> str:
        """The path as `index` writes it; raises where a rule of section 4 is broken or another entry names the file."""
        home, folder = self._home(draft), posixpath.dirname(index)
        path = posixpath.normpath(posixpath.join(home, _normal_path(file)))
        if file.startswith("/") or "\\" in file or DRIVE.match(file) or not below(path, home):
            raise ChangeRefusedError(f"invalid: {file} lies outside of the memory folder.")
        if "sofia-memory-plugin" in path.split("/"):
            raise ChangeRefusedError(f"invalid: {file} is a file of the plugin.")
        if not below(path, folder):
            shown = posixpath.relpath(folder, home or ".")
            raise ChangeRefusedError(f"invalid: {file} lies outside of {shown}/, the folder of its branch.")
        if ANY_INDEX.search(path):
            raise ChangeRefusedError(f"invalid: {file} is an index.")
        if not draft.exists(path):
            raise ChangeRefusedError(f"missing: there is no file {file}.")
        entries = corpus.tables["entries"].to_pylist()
        if any(row["path"] == path for row in entries):
            raise ChangeRefusedError(f"{file}: another entry names it already.")
        if whole := next((row["file"] for row in entries if path in parts_of(row)), None):
            raise ChangeRefusedError(f"{file}: it is a part of {whole}.")
        siblings = [row["file"] or "" for row in entries if row["index_path"] == index]
        # Both spellings are in use, so a new entry is written as its neighbours are.
        prefix = "memory/" if siblings and all(name.startswith("memory/") for name in siblings) else ""
        return f"{prefix}{posixpath.relpath(path, home or '.')}"

    def _clean_others(self, draft: Draft, corpus: Corpus, exclude: Row | None = None) -> None:
        """Draft the removal of the other entries that `index_check` cleans, and warn of the invalid ones that stay."""
        judged = self.index_check.transform(corpus)
        invalid = judged.filter(pc.invert(judged["keep"])).to_pylist()
        if exclude is not None:
            invalid = [
                row for row in invalid if any(row[name] != exclude[name] for name in ("index_path", "line", "file"))
            ]
        remaining = [
            f"{row['file']} is {row['reason']}{' and stays, as it is pinned' if row['pinned'] else ''}"
            for row in invalid
            if not row["would_remove"]
        ]
        if remaining:
            message = f"{len(remaining)} other entries break a rule: {'; '.join(remaining[:3])}."
            warnings.warn(message, RuntimeWarning, stacklevel=6)
        for row in invalid:
            if row["would_remove"]:
                remove_entry(draft, row, str(row["reason"]))

    def _entry(self, corpus: Corpus, file: str, nth: int | None = None) -> Row:
        """The entry that names a file, or the `nth` of several, with what `entry_path` needs on a shared line."""
        wanted = _normal_path(checked(file, "file"))
        entries = corpus.tables["entries"].to_pylist()
        rows: list[Row] = [row for row in entries if wanted == _normal_path(row["file"] or "")]
        if not rows:
            raise missing("entry for", file, [row["file"] for row in entries if row["file"]])
        if nth is None:
            return one_entry(file, rows, says_nth=True)
        check_value("index", "nth", nth, "int", low=1, high=len(rows))
        chosen = rows[nth - 1]
        position = tuple(chosen[name] for name in ("index_path", "line", "file"))
        before = [row for row in rows[: nth - 1] if (row["index_path"], row["line"], row["file"]) == position]
        return {**chosen, "nth": len(before)}


def _normal_path(file: str) -> str:
    """A path relative to the memory folder, written with ``memory/`` or without."""
    return posixpath.normpath(posixpath.normpath(file).removeprefix("memory/")) if file else ""


def _categories(json: Json) -> dict[str, str]:
    """The branches of a root: category to path."""
    branches = json.find(["branches"])
    categories: dict[str, str] = {}
    for part in json.parts(branches.value) if branches else ():
        fields = {inner.key: json.value(inner) for inner in json.parts(part.value) if json.text[inner.value] == '"'}
        if "category" in fields and "path" in fields:
            categories[fields["category"]] = fields["path"]
    return categories


def _branch_line(json: Json, line: str) -> Splice:
    """The edit that adds a branch to the root, on a line of its own as in the standard's example."""
    text, branches = json.text, json.find(["branches"])
    if branches is None or text[branches.value] != "[":
        raise ChangeRefusedError("the root index has no list of branches.")
    parts = json.parts(branches.value)
    newline = "\r\n" if "\r\n" in text else "\n" if "\n" in text else ""
    if not parts:
        return Splice(branches.value, branches.end, f"[{newline}    {line}{newline}  ]" if newline else f"[{line}]")
    before = text[: parts[-1].start]
    indent = before[before.rfind("\n") + 1 :] if newline else ""
    gap = f"{newline}{indent}" if not indent.strip() and newline else " "
    return Splice(parts[-1].end, parts[-1].end, f",{gap}{line}")
