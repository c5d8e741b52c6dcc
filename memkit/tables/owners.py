"""Whose fact each memory is, from the declarations of the formats: equal words of two owners are two facts.

Owners are one where the user and the store are, and one of these is: the subject, the file (within one MEMORY.md the
headings divide nothing), or both texts lie in logs. Texts with two subjects have one owner still where the text names
its subject itself, as then it says the same wherever it stands; but never where they apply to two scopes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memkit.base.parallel import bar
from memkit.formats.finished import is_aside, original_name
from memkit.formats.format import NONE, PAGE, UNDIVIDED, Owner
from memkit.formats.linked.page import comparable
from memkit.formats.registry import owner_of
from memkit.schemas import Ints, Mask, kinds_where, present
from memkit.text.analyse import ranges
from memkit.text.languages import FUNCTION_WORDS, folded

COLUMNS = ("user_id", "format", "layout", "kind", "scope", "title", "heading_path", "path", "line_start", "description")
"""The columns of ``memories`` that tell an owner."""
NOBODY = -1
_CODES = ("user", "store", "subject", "log", "file")
# Guesses, which tests of templates hold; in a small folder four pages may share a heading by chance.
_MANY, _SHARE = 5, 0.1
"""A heading that so many pages have, and such a share of all, belongs to a template and is no subject."""
# As in `text/sentences`: forms of a word mostly differ after the fifth letter.
_STEM = 5
# A round bound: pairs grow with its square.
_MOST_NAMING = 100
"""A title that more texts name than this is a word like any other: only equal texts are compared by it."""
_SHOWN = 2_000
"""Of so many texts and titles it is said how far it is."""
_WORD = re.compile(r"[^\W_]+")
_SLUG = re.compile(r"[\w-]+")
_ID = re.compile(r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=.*\d)[0-9a-f]{12,}|[\d\W_]+)", re.IGNORECASE)
_FIRST = re.compile(r"\s*#[ \t]+([^\n]*)")
_MAY_OPEN = r"\A[\s\pZ\v\x1c-\x1f\x85]*#[ \t]"
"""With what `_FIRST` opens, for RE2, whose blanks are fewer."""
_JOINT = " / "


@dataclass(frozen=True)
class Owners:
    """The owners of some rows.

    Attributes
    ----------
    users, stores : ndarray of int64, shape (n,)
    labels : ndarray of int64, shape (3, n)
        Subject, log and file; `NOBODY` where a row has none. Rows that share one have one owner.
    titles : list of str
        What a text has to name; empty where it has no title. Where the layout declares a scope, it is the second line.
    texts : pyarrow.ChunkedArray
        The texts of memories, which name a title or not.
    places : ndarray of int64, shape (n,)
        The row of each in `texts`.
    in_log : ndarray of bool, shape (n,)
        Whether a row is of a log, whose dates are no part of what it says.
    """

    users: Ints
    stores: Ints
    labels: Ints
    titles: Sequence[str]
    texts: pa.ChunkedArray = field(repr=False)
    places: Ints
    in_log: Mask

    @classmethod
    def of(cls, memories: pa.Table) -> Self:
        """The owners of rows of ``memories``; a column that is absent tells nothing apart."""
        n = memories.num_rows
        names = present(memories, COLUMNS)
        rows = {name: memories[name].to_pylist() for name in names}
        rows |= {name: [None] * n for name in COLUMNS if name not in names}
        known, logs_are = dict[tuple[str | None, ...], int](), kinds_where(log=True)
        sorts_of = zip(rows["format"], rows["layout"], rows["kind"], strict=True)
        sorts = np.array([known.setdefault(sort, len(known)) for sort in sorts_of], np.int64)
        declared, kinds = [owner_of(*sort[:2]) for sort in known], [sort[2] for sort in known]
        is_log = np.array([kind in logs_are for kind in kinds], dtype=bool)
        are_told = (
            owner.subject != NONE and (not owner.kinds or kind in owner.kinds)
            for owner, kind in zip(declared, kinds, strict=True)
        )
        is_told = ~is_log & np.fromiter(are_told, bool, len(kinds))
        is_page = np.array([owner.subject == PAGE for owner in declared], dtype=bool)
        of_rows = [declared[sort] for sort in sorts.tolist()]
        told = _Told([""] * n, [""] * n, [NOBODY] * n)
        for row in np.flatnonzero((is_told & ~is_page)[sorts]).tolist():
            scope = (rows["scope"][row] or "") if of_rows[row].by_scope else ""
            told.subjects[row] = told.titles[row] = f"{_plain(rows['title'][row] or '')}\n{scope}".rstrip("\n")
        pages = np.flatnonzero((is_told & is_page)[sorts]).tolist()
        _read_pages(pages, rows, memories["text"], of_rows, told)
        stores = _stores([path or "" for path in rows["path"]], sorts, of_rows)
        logs = np.where(is_log[sorts], 0, NOBODY).astype(np.int64)
        users = _coded([user or "" for user in rows["user_id"]])
        labels = np.stack([_coded(told.subjects), logs, np.array(told.files, np.int64)])
        return cls(users, stores, labels, told.titles, memories["text"], np.arange(n), logs != NOBODY)

    def to_table(self) -> pa.Table:
        """The owners of memories as columns, without their texts, for `of_table`.

        >>> table = pa.table({"title": ["Анна", "Павел", "Анна"], "text": ["пьёт чай"] * 3})
        >>> owners = Owners.of_table(Owners.of(table).to_table(), table)
        >>> owners.titles, owners.parts(np.zeros(3, int)).tolist()
        (['анна', 'павел', 'анна'], [0, 1, 0])
        """
        codes = zip(_CODES, (self.users, self.stores, *self.labels), strict=True)
        return pa.table({**dict(codes), "title": pa.array(self.titles, pa.string())})

    @classmethod
    def of_table(cls, table: pa.Table, memories: pa.Table) -> Self:
        """What `of` says of `memories`, from what `to_table` made of it."""
        users, stores, *labels = (table[name].to_numpy() for name in _CODES)
        titles, in_log = table["title"].to_pylist(), labels[1] != NOBODY
        return cls(users, stores, np.stack(labels), titles, memories["text"], np.arange(len(titles)), in_log)

    def since(self, before: pa.Table, memories: pa.Table) -> Self:
        """The owners of `memories`, where these are those of `before`: few edits change what tells them."""
        alike = [name for name in present(memories, COLUMNS) if name != "line_start"]
        if before.select(alike) == memories.select(alike) and np.array_equal(_in_files(before), _in_files(memories)):
            edited = pc.fill_null(pc.not_equal(before["text"], memories["text"]), True)
            old, new = (map(_opening, table["text"].filter(edited).to_pylist()) for table in (before, memories))
            if [*old] == [*new]:
                return replace(self, texts=memories["text"])
        return type(self).of(memories)

    def __len__(self) -> int:
        return len(self.users)

    def take(self, rows: Ints) -> Self:
        """The owners of some of the rows."""
        titles = [self.titles[row] for row in rows.tolist()]
        some = self.users[rows], self.stores[rows], self.labels[:, rows], titles
        return type(self)(*some, self.texts, self.places[rows], self.in_log[rows])

    def alone(self) -> Self:
        """The same without the texts of other rows."""
        return replace(self, texts=self.texts.take(pa.array(self.places)), places=np.arange(len(self)))

    def across_users(self) -> Self:
        """The same, as if all were of one user."""
        return replace(self, users=np.zeros_like(self.users))

    def of_users(self) -> Self:
        """The same, as if a user had one store and one subject."""
        none = np.zeros_like(self.labels)
        return replace(self, stores=none[0], labels=none, titles=[""] * len(self))

    @cached_property
    def apart(self) -> Ints:
        """A number for each user and store: rows of two never have one owner, whatever their texts name."""
        return numbered(self.users, self.stores)

    def same(self, left: Ints, right: Ints) -> Mask:
        """Whether two rows have one owner by user, store and label, whatever their texts name; shapes broadcast."""
        is_same: Mask = np.zeros(np.broadcast_shapes(left.shape, right.shape), bool)
        for code in self.labels:
            is_same |= (code[left] == code[right]) & (code[left] != NOBODY)
        for codes in (self.users, self.stores):
            is_same &= codes[left] == codes[right]
        return is_same

    def one(self, left: Ints, right: Ints) -> Mask:
        """Whether each pair of rows has one owner, by label or as their texts name it; `apart` is the same."""
        is_one = self.same(left, right)
        unlike, says = np.flatnonzero(~is_one), cache(self._says)  # a text is mostly in several pairs
        if not len(unlike):
            return is_one
        # One of the two names its own subject, which is asked once a row.
        names_own = cache(lambda row: self.names(row, row, says))
        pairs = zip(left[unlike].tolist(), right[unlike].tolist(), strict=True)
        is_one[unlike] = [any(map(names_own, pair)) and self.names(*pair, says) for pair in pairs]
        return is_one

    def names(self, left: int, right: int, says: Callable[[int, frozenset[str]], bool] | None = None) -> bool:
        """Whether both texts name the subject of the one or of the other; `says` remembers what a text says.

        A subject is a title, and where they apply to two scopes, both of these.
        """
        titles, says = {self.titles[left], self.titles[right]}, says or self._says
        one, other = self.places[left], self.places[right]  # chunks of a memory have its text

        def both_say(words: frozenset[str]) -> bool:
            return bool(words) and says(one, words) and says(other, words)

        if not any(map(both_say, map(words_of, titles))):
            return False
        scopes = {title.partition("\n")[2] for title in titles}
        return len(scopes) < 2 or all(map(both_say, map(applied, scopes)))

    def parts(self, group: Ints) -> Ints:
        """A number for each row, the same for rows of one `group` (of equal texts) and one owner.

        >>> table = pa.table({"title": ["Анна", "Павел", "Анна"], "text": ["пьёт чай"] * 3})
        >>> Owners.of(table).parts(np.zeros(3, int)).tolist()
        [0, 1, 0]
        """
        whole = numbered(group, self.apart)
        rows = np.flatnonzero(np.bincount(whole)[whole] > 1)
        edges = [np.empty((0, 2), np.int64)]
        for code in self.labels:
            some = rows[code[rows] != NOBODY]
            edges.append(np.stack([some, _firsts(numbered(whole[some], code[some]), some)], axis=1))
        # A long text may be that of many rows, its equal chunks.
        scopes, says = [title.partition("\n")[2] for title in self.titles], cache(self._says)
        told = [bool(words := applied(scopes[row])) and says(self.places[row], words) for row in rows.tolist()]
        # A text that names the subject of one of its rows says the same in all of a scope, and of scopes that it names.
        for of_one, some in ((numbered(whole, _coded(scopes)), rows), (whole, rows[np.array(told, bool)])):
            named = [row for row in some.tolist() if self.titles[row] and self.names(row, row, says)]
            spoken = some[np.isin(of_one[some], of_one[np.array(named, np.int64)])]
            edges.append(np.stack([spoken, _firsts(of_one[spoken], spoken)], axis=1))
        return _joined(len(group), np.concatenate(edges))

    def _says(self, place: int, title: frozenset[str]) -> bool:
        """Whether a text has the words of a title."""
        letters = folded(self.texts[int(place)].as_py() or "")
        return all(_has(letters, word) for word in title)

    def scopes(self, nodes: Ints, texts: pa.Array) -> Scopes:
        """The owners by which texts are compared; `nodes` is the text of each row, -1 for none."""
        rows = np.flatnonzero(nodes >= 0)
        scopes, members, done = list[Ints](), list[Ints](), 0
        for code in self.labels:
            some = rows[code[rows] != NOBODY]
            scopes.append(done + numbered(self.apart[some], code[some]))
            members.append(nodes[some])
            done = int(scopes[-1].max(initial=done - 1)) + 1
        owned = [np.ones(len(part), bool) for part in members]
        for some, is_subject in self._named(rows, nodes, texts):
            members.append(some)
            owned.append(is_subject)
            scopes.append(np.full(len(some), done))
            done += 1
        return Scopes.of(np.concatenate(members), np.concatenate(scopes), np.concatenate(owned))

    def _named(self, rows: Ints, nodes: Ints, texts: pa.Array) -> Iterator[tuple[Ints, Mask]]:
        """The texts that name a title, and which of them stand under it, by user, store and what they apply to.

        Of two scopes they are those texts that name both scopes too. Each set is cut from its smallest part.
        """
        under: dict[tuple[int, str, frozenset[str]], set[int]] = defaultdict(set)
        within: dict[tuple[int, str], set[int]] = defaultdict(set)
        scopes: dict[int, set[str]] = defaultdict(set)
        node_of, apart_of = nodes[rows].tolist(), self.apart[rows].tolist()
        for row, node, place in zip(rows.tolist(), node_of, apart_of, strict=True):
            title, _, scope = self.titles[row].partition("\n")
            within[place, scope].add(node)
            scopes[node].add(scope)
            if words := words_of(title):
                under[place, scope, words].add(node)
        if len(under) < 2:
            return
        asked = frozenset(word for _, scope, title in under for word in title | applied(scope))
        holds: dict[tuple[int, str], set[int]] = defaultdict(set)
        once = dict(zip(node_of, apart_of, strict=True)).items()
        for node, place in bar("words of texts", once, silent=len(once) < _SHOWN, leave=False):
            for word in _words(texts[node].as_py()) & asked:
                holds[place, word].add(node)
        shown = bar("texts that name a title", under.items(), silent=len(under) < _SHOWN, leave=False)
        for (place, scope, title), own in shown:
            holding, own_scope = [holds[place, word] for word in title], within[place, scope]
            found = [_in_all([own_scope, *holding])]
            words = applied(scope)
            told = _in_all([*holding, *(holds[place, word] for word in words)]) if words else set[int]()
            for other in {of for node in told for of in scopes[node]} if len(told) <= _MOST_NAMING else ():
                if other != scope and applied(other):
                    both = (told & own_scope) | (told & within[place, other])
                    found.append(_in_all([both, *(holds[place, word] for word in applied(other))]))
            for some in found:
                if 1 < len(some) <= _MOST_NAMING and not some.isdisjoint(own) and some - own:
                    members = np.array(sorted(some), np.int64)
                    yield members, np.isin(members, list(own))


def _in_all(sets: Iterable[set[int]]) -> set[int]:
    return set.intersection(*sorted(sets, key=len))  # the first is copied


@dataclass(frozen=True)
class Scopes:
    """Which texts are compared: those of one scope. A text may lie in several.

    Attributes
    ----------
    members, scopes : ndarray of int64, shape (n,)
        A text, and a scope that it lies in.
    owned : ndarray of bool, shape (n,)
        Whether the scope is its own; two texts that a scope only mentions are no pair.
    """

    members: Ints
    scopes: Ints
    owned: Mask = field(repr=False)

    @cached_property
    def own(self) -> Ints:
        """The rows of scopes of which all members are their own, as those of a title that others name are not."""
        return np.flatnonzero(np.bincount(self.scopes, ~self.owned)[self.scopes] == 0)

    def met(self) -> tuple[Ints, Ints]:
        """The pairs of rows of each other scope that may have one owner: what it owns with each of its members."""
        sizes = np.bincount(self.scopes)
        left = np.setdiff1d(np.flatnonzero(self.owned), self.own, assume_unique=True)
        n = sizes[self.scopes[left]]
        left, right = np.repeat(left, n), ranges((np.cumsum(sizes) - sizes)[self.scopes[left]], n)
        once = (left < right) | ((left > right) & ~self.owned[right])
        return left[once], right[once]

    @classmethod
    def of(cls, members: Ints, scopes: Ints, owned: Mask) -> Self:
        """Each text once in a scope, without scopes of a single text."""
        order = np.lexsort((~owned, members, scopes))
        members, scopes, owned = members[order], scopes[order], owned[order]
        first = np.ones(len(order), bool)
        first[1:] = (members[1:] != members[:-1]) | (scopes[1:] != scopes[:-1])
        members, scopes, owned = members[first], scopes[first], owned[first]
        several = np.bincount(scopes)[scopes] > 1 if len(scopes) else np.empty(0, bool)
        return cls(members[several], numbered(scopes[several]), owned[several])


def _joined(n: int, ends: NDArray[np.int64]) -> Ints:
    """A number for each of `n` rows, the same for those that pairs of rows join, in the order of their first rows.

    SciPy would need a tenth of a second to be imported, a search over few memories as long as for all it does.

    >>> _joined(6, np.array([[4, 3], [3, 1], [5, 2]])).tolist()
    [0, 1, 2, 1, 1, 2]
    """
    part, before = np.arange(n), np.full(n, -1)
    while not np.array_equal(part, before):
        before, least = part, part[ends].min(axis=1)
        # A copy: each round is compared with the one before.
        part = before.copy()
        for side in ends.T:
            np.minimum.at(part, before[side], least)
            np.minimum.at(part, side, least)
        # Each row follows what its part was joined to, so that a long chain takes few rounds.
        part = part[part]
    return np.unique(part, return_inverse=True)[1].astype(np.int64)


class _Told(NamedTuple):
    """Subject, title and file of each row; "" and `NOBODY` where it has none."""

    subjects: list[str]
    titles: list[str]
    files: list[int]


def _read_pages(
    pages: list[int],
    rows: dict[str, list],  # type: ignore[type-arg]  # columns of several types
    texts: pa.ChunkedArray,
    declared: list[Owner],
    told: _Told,
) -> None:
    """Fill in what is told of each row of a page."""
    if not pages:
        return
    by_path: dict[str, list[int]] = defaultdict(list)
    for row in pages:
        by_path[rows["path"][row] or f"\n{row}"].append(row)
    stems = cache(lambda: {folded(_stem(path)) for path in by_path})
    is_headed = pc.fill_null(pc.match_substring_regex(texts, _MAY_OPEN), False).to_numpy()
    above: dict[int, list[str]] = {}
    of_page: dict[str, str] = {}
    for number, (path, some) in enumerate(by_path.items()):
        some.sort(key=lambda row: rows["line_start"][row] or 0)
        names = {row: [*_below(path, rows["heading_path"][row] or ""), rows["title"][row] or ""] for row in some}
        if path.rpartition("/")[2].casefold() in UNDIVIDED:
            title = ""
            for row in some:
                told.files[row] = number
        elif rows["layout"][some[0]]:
            title = names[some[0]][0]
        else:
            opening = (texts[row].as_py() for row in some if is_headed[row])
            heads = [match[1].rstrip(" \t#") for text in opening if (match := _FIRST.match(text))]
            title = heads[0] if len(heads) == 1 else _stem(path)
        of_page[path], own = _title(title, path, declared[some[0]], stems), _compared(title)
        for row in some:
            said = (_compared(name) for name in names[row] if name and name != rows["description"][row])
            above[row] = [name for name in said if name and name != own]
    most = max(_MANY, _SHARE * len(by_path))
    pages_with = Counter(name for some in by_path.values() for name in {name for row in some for name in above[row]})
    often = {title for title, count in Counter(of_page.values()).items() if count >= most}
    named = {(title, original_name(_stem(path), stems)) for path, title in of_page.items() if title in often}
    titled = Counter(title for title, _ in named)
    for path, some in by_path.items():
        # A title that many pages of other names have is a template's too.
        title = of_page[path] if titled[of_page[path]] < most else f"{of_page[path]} {_plain(_stem(path))}".strip()
        for row in some:
            told.titles[row] = title
            kept = (name for name in above[row] if pages_with[name] < most)
            told.subjects[row] = "\n".join(filter(None, (title, *kept)))


def _in_files(memories: pa.Table) -> Ints:
    """The rows in the order of their files, and of their lines in these."""
    files = pc.fill_null(memories["path"].combine_chunks(), "").dictionary_encode().indices
    rows: Ints = np.lexsort((pc.fill_null(memories["line_start"], 0), files))
    return rows


def _opening(text: str | None) -> str:
    """The heading that a text opens with, with the blanks above it."""
    match = _FIRST.match(text or "")
    return match[0] if match else ""


def _title(title: str, path: str, declared: Owner, stems: Callable[[], set[str]]) -> str:
    """The title of a page as owners are compared; that of a copy is the original's, and an id is none."""
    stem = _stem(path)
    if _compared(title) == _compared(stem) and not declared.by_name:
        if not declared.slugs and _SLUG.fullmatch(title):
            return ""
        title = original_name(stem, stems)
    return _plain(title)


# Round bounds, here and below: subjects and words of titles recur in a folder.
@lru_cache(65_536)
def _compared(name: str) -> str:
    return comparable(name)


@lru_cache(65_536)
def _plain(title: str) -> str:
    return "" if _ID.fullmatch(title.strip()) else comparable(folded(title))


def _stem(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


@lru_cache(4096)
def _folders(folder: str) -> str:
    return _JOINT.join(part for part, _ in groupby(filter(None, folder.split("/"))))


def _below(path: str, heading_path: str) -> list[str]:
    """The names above a memory that are no folders: of its page, and the headings."""
    folder, slash, name = path.rpartition("/")
    folders = _folders(folder) if slash else ""
    rest = heading_path
    if folders and (rest == folders or rest.startswith(folders + _JOINT)):
        rest = rest[len(folders) + len(_JOINT) :]
        if folders.rpartition(_JOINT)[2] == name.rpartition(".")[0]:  # a page of its folder's name stands there once
            rest = _JOINT.join(filter(None, (name.rpartition(".")[0], rest)))
    return rest.split(_JOINT) if rest else []


def _stores(paths: Sequence[str], sorts: Ints, declared: Sequence[Owner]) -> Ints:
    """The store of each row, by number, each file of one sort looked at once."""
    if not any(owner.store or owner.homes for owner in declared):
        return np.zeros(len(paths), np.int64)
    known = set(paths) if any(owner.homes for owner in declared) else set[str]()
    files = numbered(sorts, _coded(paths))
    first = np.unique(files, return_index=True)[1]
    order = np.argsort(first)  # numbers by first appearance
    stores = np.empty(len(first), np.int64)
    stores[order] = _coded([_store(declared[row], paths[row], known) for row in first[order].tolist()])
    return stores[files]


def _store(declared: Owner, path: str, known: Collection[str]) -> str:
    """The store of a file among `known` paths; it bears the name of no other format's."""
    if declared.store and (match := re.match(declared.store, path)) and match[0]:
        return match[0]
    folder = path.rpartition("/")[0] if declared.homes else ""
    while folder and (not any(f"{folder}/{name}" in known for name in declared.homes) or is_aside(f"{folder}/")):
        folder = folder.rpartition("/")[0]
    return folder


def _short(word: str) -> str:
    """What is compared of a word: its begin, as forms of it differ in their ends; a name with a number is whole."""
    return word[:_STEM] if word.isalpha() else word


def _words(text: str) -> set[str]:
    return set(map(_short, _WORD.findall(folded(text))))


@lru_cache(65_536)
def words_of(title: str) -> frozenset[str]:
    """The content words of a title, shortened, as they are looked for in a text; its scope is none of them.

    >>> sorted(words_of("Склады в Казани"))
    ['казан', 'склад']
    """
    return _content(title.partition("\n")[0])


@lru_cache(65_536)
def applied(scope: str) -> frozenset[str]:
    """The content words of what a note applies to, shortened, without its sort.

    >>> sorted(applied("area:Казань")), sorted(applied("global")), sorted(applied(""))
    (['казан'], ['globa'], [])
    """
    return _content(scope.rpartition(":")[2])


def _has(letters: str, beginning: str) -> bool:
    """Whether a folded text has a content word that is shortened to this; it is not cut into words, as most have none.

    >>> _has("у склада", "склад"), _has("подскладе", "склад"), _has("в казань", "каз")
    (True, False, False)
    """
    place = letters.find(beginning)
    while place >= 0:
        word = _WORD.match(letters, place)
        is_whole = word is not None and not letters[place - 1 : place].isalnum()
        if word is not None and is_whole and _short(word[0]) == beginning and word[0] not in FUNCTION_WORDS:
            return True
        place = letters.find(beginning, place + 1)
    return False


def _content(text: str) -> frozenset[str]:
    return frozenset(_short(word) for word in _WORD.findall(folded(text)) if word not in FUNCTION_WORDS)


def _coded(values: Sequence[str]) -> Ints:
    codes: Ints = pa.array(values, pa.string()).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def numbered(*codes: Ints) -> Ints:
    """A number from 0 for each combination of values.

    >>> numbered(np.array([5, 5, 7]), np.array([0, -1, 0])).tolist()
    [1, 0, 2]
    """
    whole = codes[0]
    for code in codes[1:]:
        low = int(code.min(initial=0))
        whole = whole * (int(code.max(initial=0)) - low + 1) + (code - low)
        # From 0 again after each column, or the products would not fit 64 bits.
        whole = np.unique(whole, return_inverse=True)[1].astype(np.int64)
    return whole if len(codes) > 1 else np.unique(whole, return_inverse=True)[1].astype(np.int64)


def _firsts(group: Ints, rows: Ints) -> Ints:
    """The first of the rows of each row's group."""
    if not len(rows):
        return rows
    first = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, group, rows)
    return first[group]
