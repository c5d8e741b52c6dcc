"""Observations and relations of basic-memory: one line is added, all other bytes stay; and memories as its pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from memkit import Edits
from memkit.errors import ParameterError, PolicyRefusal
from memkit.extend.exports import Group, Job, name_of, pages, vault_head
from memkit.extend.reading import Row, Splice, fences, line_end
from memkit.extend.writing import AsOf, Draft, LayoutStore, checked
from memkit.hosts import basic_memory


class BasicMemoryStore(LayoutStore):
    """Observations and relations of basic-memory's pages; a page is named by its path, permalink or title.

    Examples
    --------
    >>> import memkit as mk, tempfile
    >>> page = "---\\ntitle: Склад\\ntype: note\\npermalink: stock\\n---\\n# Склад\\n\\n- [tech] Go\\n"
    >>> store = mk.store(mk.testing.write_files(tempfile.mkdtemp(), {"Склад.md": page})).basic_memory
    >>> store.add_observation("stock", "Очередь обязательна", "rule", ["очередь"])
    'Склад.md'
    >>> _ = store.add_relation("Склад", "part_of", "Магазин")
    >>> print((store.root / "Склад.md").read_text("utf-8").split("---\\n")[2], end="")
    # Склад
    <BLANKLINE>
    - [tech] Go
    - [rule] Очередь обязательна #очередь
    <BLANKLINE>
    ## Relations
    <BLANKLINE>
    - part_of [[Магазин]]
    """

    policy = layout = "basic_memory"

    def add_observation(
        self,
        page: str,
        text: str,
        category: str | None = None,
        tags: Sequence[str] = (),
        context: str | None = None,
        *,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | Edits:
        """Write an observation below the last one of a page, and return the page's path.

        Raises
        ------
        NotFoundError, ChangeRefusedError
            Where no page, or several, are called so.
        ParameterError
            For an observation that would not read back as it is given.
        PolicyRefusal
            With the reason duplicate, where the page has it already.
        """
        words = _words(tags)
        whole = checked(text, "text") + "".join(f" #{tag}" for tag in words)
        line = f"- {f'[{category}] ' if category else ''}{whole}{f' ({context})' if context else ''}"
        parsed = basic_memory.observation(line)
        is_same = parsed and (parsed.category, parsed.text, parsed.context) == (category, whole, context)
        if "\n" in line or not is_same or not (parsed and set(words) <= set(parsed.tags)):
            raise ParameterError(f"an observation: expected one line that reads back as given. Got {line!r:.200}.")
        return self._add(page, line, "Observations", basic_memory.observation, now, dry_run)

    def add_relation(
        self,
        page: str,
        relation_type: str,
        target: str,
        context: str | None = None,
        *,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> str | Edits:
        """Write a relation below the last one of a page, and return the page's path.

        Raises
        ------
        NotFoundError, ChangeRefusedError, ParameterError, PolicyRefusal
            As for `add_observation`.
        """
        word = checked(relation_type, "relation_type")
        word = word if re.fullmatch(r"[\w-]+", word) else f'"{word}"'
        line = f"- {word} [[{checked(target, 'target')}]]{f' ({context})' if context else ''}"
        parsed = basic_memory.relation(line)
        if (
            "\n" in line
            or parsed is None
            or (parsed.type, parsed.target, parsed.context) != (relation_type, target, context)
        ):
            raise ParameterError(f"a relation: expected one line that reads back as given. Got {line!r:.200}.")
        return self._add(page, line, "Relations", basic_memory.relation, now, dry_run)

    def _add(
        self, page: str, line: str, heading: str, reads: Callable[[str], object], now: AsOf, dry_run: bool
    ) -> str | Edits:
        """Draft a line below the last that reads as it does, else below a new heading at the end."""

        def work(draft: Draft) -> str:
            path = self._page(page)
            text = draft.text(path)
            code, lines = fences(text.replace("\r\n", "\n")), text.split("\n")
            same = [number for number, one in enumerate(lines, 1) if number not in code and reads(one.rstrip("\r"))]
            if any(reads(lines[number - 1].rstrip("\r")) == reads(line) for number in same):
                raise PolicyRefusal(f"duplicate: {path} says it already.", "duplicate")
            if not same:
                self._append(draft, path, f"## {heading}\n\n{line}\n", "added")
                return path
            end = draft.document(path).lines(same[-1], same[-1])[1]
            newline = line_end(text)
            is_open = not text[:end].endswith("\n")
            draft.splice("update", path, Splice(end, end, newline + line if is_open else line + newline), "added")
            return path

        return self._do(work, now, dry_run)


def _words(tags: object) -> list[str]:
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise ParameterError(f"tags: expected a list of words. Got {tags!r:.80}.")
    return [checked(tag, "tags").removeprefix("#") for tag in tags]


def _basic_head(group: Group, job: Job) -> Row:
    source_id = group.shared("source_id") if group.is_page else None
    permalink = source_id or job.paths[group.rows[0]["memory_id"]].removesuffix(".md")
    named = {"title": name_of(group), "type": group.shared("scope") or "note", "permalink": permalink}
    return {**named, **{name: value for name, value in vault_head(group, job).items() if name not in named}}


write = pages(_basic_head)
