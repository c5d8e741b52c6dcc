"""Names that say that a file is a copy, or lies among old ones: archives, backups, conflicts, in both languages."""

from __future__ import annotations

import re
from collections.abc import Iterable

ASIDE = (
    *("archive", "archives", "archived", "attic", "backup", "backups", "bak", "bkp", "old", "copy", "copies", "trash"),
    *("deleted", "recently deleted", "recycle bin", "архив", "архивы", "архивное", "архивные", "бэкап", "бэкапы"),
    *("бекап", "резервная копия", "резервные копии", "копия", "копии", "корзина", "старое", "старые", "старый"),
    *("удаленное", "удаленные"),
)
"""Words that name what is put aside, in lower case, е for ё: a folder of such a name, or a word beside a file's own."""
CONFLICTS = ("conflict", "conflicts", "конфликт", "конфликты")
"""Words beside a file's own name alone: a folder of them may be about conflicts."""


def _any_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(word).replace(r"\ ", "[ ._-]") for word in words)


_FOLDER, _WORD = _any_of(ASIDE), _any_of((*ASIDE, *CONFLICTS))
PLACE = rf"(?i)(?:^|/)(?:\d{{1,4}})?[._$\s-]{{0,8}}(?:{_FOLDER})(?:[ _-]?\d{{4}})?[._\s-]{{0,8}}/"
"""A folder of archives, backups or copies in a path, as an RE2 pattern; ё is written е."""
_NUMBER = r"[ _][2-9]"
# All repetitions are bounded: a name of one sign alone leaves nothing to come back to.
_MARKS = (
    r"\.sync-conflict-[\w-]{1,60}",
    r"[ _.-]{0,3}\((?:\d{1,3}|[^()]{0,60}(?:conflict|conflicted|copy|копия|конфликт)[^()]{0,60})\)",
    r"[ _.-]{1,3}_{0,3}BACKUP_{0,3}[\w.-]{0,60}",
    rf"[ _.—-]{{1,3}}(?:{_WORD})(?:[ _-]{{0,3}}[\d-]{{1,20}})?",
    r"~",
)
_AFTER = "|".join(_MARKS)
_BEFORE = rf"(?:{_WORD})[ _.-]{{1,3}}(?:of[ _]|[—-][ _])?|_{{0,3}}BACKUP_{{1,3}}"
MARKED = rf"(?i)^(?:.*/)?(?:(?:{_BEFORE})[^/]+|[^/]+?(?:{_AFTER}|{_NUMBER}))(?:\.[A-Za-z]{{1,8}}(?:\.bak)?)?$|\.bak$"
"""The path of a file whose name says that it is a copy, as an RE2 pattern; ё is written е."""
_MARK = re.compile(rf"^(?:{_BEFORE})(?=\w)|(?:{_AFTER}){{1,3}}$", re.IGNORECASE)
_NUMBERED = re.compile(rf"{_NUMBER}$")


def without_mark(stem: str) -> str:
    """The name of a file, without its ending, as it was before it was copied; ё is written е.

    >>> [without_mark(stem) for stem in ("заметка (1)", "note copy", "plan.sync-conflict-20260102-AB", "tea", "part 2")]
    ['заметка', 'note', 'plan', 'tea', 'part 2']
    """
    plain = stem.replace("Ё", "Е").replace("ё", "е")
    return _MARK.sub("", plain).strip(" ._—-") or plain


def copied_from(path: str) -> str | None:
    """The path of the file beside it that a file is a copy of by its name; None where its name says nothing of that.

    A lone digit at the end says nothing: a second meeting is no copy of the first.

    >>> [copied_from(path) for path in ("a/чай (1).md", "a/чай — копия.md", "tea.md", "tea 2.md")]
    ['a/чай.md', 'a/чай.md', None, None]
    """
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    original = _MARK.sub("", stem).strip(" ._—-")
    return f"{folder}{slash}{original}{dot}{ending}" if original and original != stem else None


def without_number(stem: str) -> str:
    """The name of a file without a lone digit at its end, which marks a copy where a file of that name exists.

    >>> without_number("note 2"), without_number("2026 10"), without_number("note-2")
    ('note', '2026 10', 'note-2')
    """
    return _NUMBERED.sub("", stem)


def is_aside(path: str) -> bool:
    """Whether a path lies below a folder, or under a name, of an archive, a backup or a copy.

    >>> [is_aside(path) for path in ("archive/Проект/чай.md", "Проект/чай.md", "чай (1).md", "old tea/чай.md")]
    [True, False, True, False]
    """
    plain = path.replace("Ё", "Е").replace("ё", "е")
    return bool(re.search(PLACE, plain) or re.search(MARKED, plain))
