"""The operations of the index standard: categories and entries, each saved only after the three rules were checked."""

from __future__ import annotations

import posixpath
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.memories import entry_path, one_entry, remove_entry
from memkit.change.operations import Operations, answer, applied, checked, missing
from memkit.change.planning import clean_entries
from memkit.change.split import join, parts_of, split_anew, split_file, split_files
from memkit.errors import ChangeRefusedError, FormatError, ParameterError
from memkit.formats.fields import words_given
from memkit.formats.index_tree.index import FIELDS, format_branch, format_branch_line, format_root, ordered_entry
from memkit.formats.index_tree.survey import ANY_INDEX
from memkit.formats.index_tree.whole import below
from memkit.formats.syntax.places import Json, Splice, with_values
from memkit.params import AsOf, as_of_time
from memkit.policy.index_check import IndexCheck
from memkit.policy.split_plan import SplitPlan
from memkit.tables.corpus import Corpus
from memkit.tables.sources import read

HOMES = ("memory", "")
"""Where the root index may lie; the first that has one counts."""
_DRIVE = re.compile(r"[A-Za-z]:")
Row = dict[str, Any]


class IndexStore(Operations):
    """Entries of index trees: what is there stays, and only what is asked for changes (index standard, 2 and 6).

    Parameters
    ----------
    root : Path
        The folder that holds ``memory/``, or is it.
    auto_clean_invalid, auto_clean_missing : bool
        Whether saving an entry removes the others that break a rule of section 4; else a warning says which.
    max_tokens_per_file : int, tokens
        A longer file is split: the standard's ``memory_settings.max_tokens_per_file``.

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
        self.checked = IndexCheck(auto_clean_invalid=auto_clean_invalid, auto_clean_missing=auto_clean_missing)
        self.parting = SplitPlan(max_tokens_per_file=max_tokens_per_file)
        for policy in (self.checked, self.parting):
            policy.check_params()

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
        name = f"{category}/index.json" if path is None else path
        line = format_branch_line({"category": category, "path": name})
        if posixpath.basename(name) != "index.json":
            raise FormatError(f"field 'path' must be a path to an index.json. Got {name!r:.80}.", field="path")

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

        A path is written from the memory folder, as the standard's examples have it, or with ``memory/`` before it
        where all entries of the index have that.

        Raises
        ------
        FormatError
            Where a field is not as the standard wants it.
        ChangeRefusedError
            Where the file is missing, lies outside of the folder of its branch, is the plugin's or an index, or is
            named already.
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
            written = self._written(draft, corpus, index, file)
            self._clean_others(draft, corpus)
            new = draft.document(index).json.append(["files"], {**entry, "file": written})
            draft.splice("update", index, new, f"a new entry for {written}")
            return written

        return self._do(work, now, dry_run)

    def update_entry(
        self, file: str, /, *, nth: int | None = None, now: AsOf = None, dry_run: bool = False, **changed: Any
    ) -> str | Edits:
        """Give fields of an entry other values; all others, their order and unknown ones stay. Its file.

        ``updated`` becomes today unless given, and ``edit_count`` grows by one where there is one. Where several
        entries name the file, `nth` says which, from 1 in the order of ``load().tables["entries"]``.
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
            if "file" in changed and _plain_path(changed["file"]) != _plain_path(row["file"]):
                values["file"] = self._written(draft, corpus, index, changed["file"])
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
        """Take an entry out of its index; the file, which goes too, with its parts, where `delete_file` says so.

        Where several entries name the file, `nth` says which, from 1 in the order of ``load().tables["entries"]``.

        Raises
        ------
        NotFoundError
            Where no entry names the file.
        ChangeRefusedError
            Where several do and `nth` is not given, or the file of one of them is to go; or the entry is pinned.
        """

        def work(draft: Draft) -> str:
            corpus = self.load()
            row = self._entry(corpus, file, nth)
            if delete_file:
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
        """Remove invalid or missing entries, pinned ones if asked.

        Returns
        -------
        pyarrow.Table
            The files: path, op, sha256_before, sha256_after; and with op ``refused`` each entry that stays, with the
            reason. With `dry_run`, the `Edits`.

        Raises
        ------
        ParameterError
            Where neither is asked for, here or where the store was made (``auto_clean_invalid``,
            ``auto_clean_missing``), which is what None stands for.
        """
        of_store = self.checked.get_params()
        asked = {"auto_clean_invalid": invalid, "auto_clean_missing": missing}
        policy = IndexCheck(**{name: of_store[name] if own is None else own for name, own in asked.items()})
        if not any(policy.check_params().values()):
            raise ParameterError("clean: expected invalid=True or missing=True. Got neither.")
        return self._asked("index_check", lambda draft: clean_entries(policy, draft, pinned), now, dry_run)

    def split(self, file: str | None = None, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Split a file that is too long, or all that are, into parts with an ``index.md`` (section 5).

        A file that is split is split anew from what its parts hold, or from itself where it is back; one that is short
        again is one file again. Of all files that is done where a part is too long, or the file is back.

        Returns
        -------
        pyarrow.Table
            The files: path, op, sha256_before, sha256_after; and of all files, with op ``refused`` each that could not
            be split, with the reason. A named file within the limit is one row with op ``kept``. With `dry_run`, the
            `Edits`.

        Raises
        ------
        NotFoundError, ChangeRefusedError
            Where no entry names the file, or it cannot be split.
        """
        policy = self.parting
        if file is None:
            return self._asked("split_plan", lambda draft: split_files(policy, draft), now, dry_run)
        corpus = self.load()
        entry = self._entry(corpus, file)
        if entry["path"] is None:
            raise ChangeRefusedError(f"{entry['status']}: {file}: {entry['reason']}.")
        if entry["parts"]:
            return self._asked("split_plan", lambda draft: split_anew(policy, draft, entry), now, dry_run)
        tokens = policy.count(Draft(self.root, as_of_time(now), corpus).text(entry["path"]))
        if tokens <= policy.max_tokens_per_file and not dry_run:
            why = f"{tokens} tokens, no more than {policy.max_tokens_per_file}"
            return answer(None, [{"path": entry["path"], "reason": why}], "kept")
        return self._asked("split_plan", lambda draft: split_file(policy, draft, entry["path"]), now, dry_run)

    def rejoin(self, file: str, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Put the parts of a split file together again, byte for byte.

        Returns
        -------
        pyarrow.Table
            The files: path, op, sha256_before, sha256_after. With `dry_run`, the `Edits`.

        Raises
        ------
        NotFoundError, ChangeRefusedError
            For an unknown file, and one that is not split.
        """
        entry = self._entry(self.load(), file)
        return self._asked("split_plan", lambda draft: join(draft, entry), now, dry_run)

    def _asked(self, policy: str, work: Callable[[Draft], None], now: AsOf, dry_run: bool) -> pa.Table | Edits:
        """What `work` drafts as `policy` would, applied however many entries go: they were asked for."""
        draft = Draft(self.root, as_of_time(now), self.load())
        with draft.of(policy):
            work(draft)
        edits = draft.edits([("as_of", draft.moment.isoformat())])
        return edits if dry_run else applied(edits, force=True)

    def _home(self, draft: Draft) -> str:
        """The memory folder, seen from the root: the one with a root index, else ``memory/`` unless the root is it."""
        found = (home for home in HOMES if draft.exists(posixpath.join(home, "index.json")))
        is_it = self.root.resolve().name == HOMES[0] and not draft.exists(HOMES[0])
        return next(found, HOMES[is_it])

    def _branch(self, draft: Draft, category: str) -> str:
        """The index of a category."""
        home = self._home(draft)
        text = draft.tail_of(posixpath.join(home, "index.json")) or '{"branches": []}'
        known = _categories(Json(text))
        if category not in known:
            raise missing("category", category, known)
        return posixpath.normpath(posixpath.join(home, known[category].removeprefix("memory/")))

    def _written(self, draft: Draft, corpus: Corpus, index: str, file: str) -> str:
        """A path as `index` writes it, once the three rules of section 4 hold, and no other entry names the file."""
        home, folder = self._home(draft), posixpath.dirname(index)
        path = posixpath.normpath(posixpath.join(home, _plain_path(file)))
        if file.startswith("/") or "\\" in file or _DRIVE.match(file) or not below(path, home):
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
            raise ChangeRefusedError(f"{file}: an entry names it already.")
        if whole := next((row["file"] for row in entries if path in parts_of(row)), None):
            raise ChangeRefusedError(f"{file}: it is a part of {whole}.")
        beside = [row["file"] or "" for row in entries if row["index_path"] == index]
        prefix = "memory/" if beside and all(name.startswith("memory/") for name in beside) else ""
        return f"{prefix}{posixpath.relpath(path, home or '.')}"

    def _clean_others(self, draft: Draft, corpus: Corpus, own: Row | None = None) -> None:
        """Draft that the entries go that are to be cleaned, but for `own`, and say which are wrong and stay."""
        judged = self.checked.transform(corpus)
        wrong = judged.filter(pc.invert(judged["keep"])).to_pylist()
        if own is not None:
            wrong = [row for row in wrong if any(row[name] != own[name] for name in ("index_path", "line", "file"))]
        left = [f"{row['file']} is {row['reason']}" for row in wrong if not row["would_remove"]]
        if left:
            said = f"{len(left)} other entries break a rule: {'; '.join(left[:3])}."
            warnings.warn(said, RuntimeWarning, stacklevel=6)
        for row in wrong:
            if row["would_remove"]:
                remove_entry(draft, row, str(row["reason"]))

    def _entry(self, corpus: Corpus, file: str, nth: int | None = None) -> Row:
        """The entry that names a file, or the `nth` of those that do; `entry_path` finds it even on a shared line."""
        wanted = _plain_path(checked(file, "file"))
        entries = corpus.tables["entries"].to_pylist()
        rows: list[Row] = [row for row in entries if wanted == _plain_path(row["file"] or "")]
        if not rows:
            raise missing("entry for", file, [row["file"] for row in entries if row["file"]])
        if nth is None:
            return one_entry(file, rows)
        if not isinstance(nth, int) or isinstance(nth, bool) or not 1 <= nth <= len(rows):
            raise ParameterError(f"nth: expected a whole number from 1 to {len(rows)}. Got {nth!r:.80}.")
        found = rows[nth - 1]
        place = tuple(found[name] for name in ("index_path", "line", "file"))
        before = [row for row in rows[: nth - 1] if (row["index_path"], row["line"], row["file"]) == place]
        return {**found, "nth": len(before)}


def _plain_path(file: str) -> str:
    """A path from the memory folder, whichever way it is written."""
    return posixpath.normpath(posixpath.normpath(file).removeprefix("memory/")) if file else ""


def _categories(json: Json) -> dict[str, str]:
    """The branches of a root: category to path."""
    whole = json.find(["branches"])
    found: dict[str, str] = {}
    for part in json.parts(whole.value) if whole else ():
        own = {inner.key: json.value(inner) for inner in json.parts(part.value) if json.text[inner.value] == '"'}
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
