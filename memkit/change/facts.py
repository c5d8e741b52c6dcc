"""The fact store of Memory v2: facts of users in ``profile.md``, ``working.md`` and ``archive.md``."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from memkit.change import users
from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.memories import remove_lines
from memkit.change.migrate import bring_user
from memkit.change.operations import Operations, checked, missing
from memkit.context import ContextBuilder
from memkit.documents import POLICY
from memkit.errors import (
    ChangeRefusedError,
    FormatError,
    MissingExtraError,
    NotFoundError,
    ParameterError,
    PolicyRefusal,
)
from memkit.formats.disk.lock import steady
from memkit.formats.facts import TYPES, format_fact
from memkit.formats.syntax.places import Json, with_values
from memkit.index.cache import shared_cache
from memkit.index.centre import Centring
from memkit.index.encode import as_encoder
from memkit.params import AsOf, check_choice, describe
from memkit.policy.admission import Admission
from memkit.policy.classifier import Classifier
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.policy.expiry import Expiry
from memkit.policy.pipeline import Pipeline
from memkit.policy.quota import Quota
from memkit.schemas import result_schema
from memkit.search.fitted.store import forget
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus
from memkit.tables.table import from_table

if TYPE_CHECKING:
    from memkit.evaluation.profiles.profile import Profile

Row = dict[str, Any]
Work = Callable[[Draft, users.UserFacts, Row], None]
_CANDIDATES = 5
_OWN = ("admission", "classifier")
"""What memkit judges better than the document's lists of words do: the preset memory_v2 has these."""
_POLICY: dict[str, dict[str, Any]] = {name: {} if name in _OWN else of for name, of in POLICY["memory_v2"].items()}
GUESSED = ("delete", "archive")
_MIGRATED = result_schema((pa.string(), "user_id path"), (pa.int64(), "line"), (pa.string(), "text id reason"))
_READ = ("id", "type", "importance", "expires_at", "created_at", "text", "path", "line")


@dataclass(frozen=True)
class Saved:
    """A fact that was saved: its id, how it was classified, and the ids that were evicted for it."""

    id: str
    type: str
    importance: str
    expires_at: date | None
    evicted: tuple[str, ...] = ()


class FactStore(Operations):
    """Saves, reads, finds and forgets the facts of users, by the rules of the Memory v2 document.

    A user's file of the old layout is migrated at the first access that writes, as a step of its own that `mk.undo`
    takes back after the other: `save`, `forget`, `update` and `cleanup` do. What only reads shows its facts as they
    are. With ``dry_run=True`` nothing is migrated: `cleanup` shows the migration among its edits, the others refuse and
    name `migrate_user`.

    Parameters
    ----------
    root : Path
        The folder that holds ``data/memory/users/``, ``memory/users/`` or ``users/``: the first where ``data/memory``
        is there, the second where that or old files in ``memory/`` are, else the third.
    encoder : object, optional
        For search and dedup by meaning, as `Retriever` takes it; None, and one that cannot be had, is by words alone.
    created_tag : bool
        Whether a new fact says its day in ``[created:]``; the original bot knows no such tag.
    profile : Profile, optional
        Parameters of the policies, of search and of the blocks, in place of the document's.
    least_score : float
        What the first hit of a query must score at least to be forgotten or updated with ``confirm``.

    Attributes
    ----------
    migrated : pyarrow.Table
        What this store migrated at a first access: user_id, path, line, text, id, reason.
    """

    policy = "facts"

    def __init__(
        self,
        root: Path,
        encoder: Any = "use",
        *,
        created_tag: bool = True,
        profile: Profile | None = None,
        least_score: float = 0.0,
    ) -> None:
        super().__init__(root)
        if not isinstance(created_tag, bool):
            raise ParameterError(f"created_tag: expected true or false. Got {created_tag!r:.80}.")
        self.encoder, self.created_tag, self.profile = encoder, created_tag, profile
        self.least_score = _score(least_score)
        self.migrated = describe(_MIGRATED.empty_table(), memkit="migrated")
        self._read: users.Read = {}

    @property
    def home(self) -> str:
        """The folder of the users' folders, relative to the root."""
        return users.home(self._reader())

    def save(
        self,
        user: str,
        text: str,
        meta: Mapping[str, Any] | None = None,
        *,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> Saved | Edits:
        """Save one fact: admission, classification, dedup, quotas, in this order.

        Parameters
        ----------
        user : str
            Letters, digits, ``_``, ``.`` and ``-``.
        text : str
            One line.
        meta : mapping, optional
            type, importance, expires_at (or expiresAt): what the model says of it wins over the keywords. An end that
            the keywords gave is noted in the ``guessedEnds`` of meta.json.

        Returns
        -------
        Saved, or Edits with `dry_run`

        Raises
        ------
        PolicyRefusal
            With the reason: length, question, command, secret, duplicate, semantic_duplicate or limit.
        """
        users.check_user(user)
        given = users.given_of({} if meta is None else meta)
        self._first_access(user, now, dry_run)
        return self._do(lambda draft: self._save(draft, user, text, given), now, dry_run)

    def _save(self, draft: Draft, user: str, text: str, given: Row) -> Saved:
        facts = users.load(draft, user, self._read)
        text = users.one_line(text)
        new = {"memory_id": "~new", "format": "facts", "user_id": user, "text": text, "title": "", "tags": [], **given}
        new |= {"extra": "{}", "created_at": draft.moment, "updated_at": draft.moment, "path": "~", "heading_path": ""}
        kept = self._admitted(new, draft.moment)
        new |= {name: kept[name] for name in ("kind", "importance", "expires_at")}
        self._refuse_duplicate(facts, new, draft.moment)
        evicted = self._evicted(facts, new, draft.moment)
        id, meta = users.next_id(users.meta_of(draft, facts), facts, new["kind"])
        if new["expires_at"] is not None and given["expires_at"] is None:
            guessed = [*users.guessed_ends(draft, facts), id]
            meta = with_values(meta, {users.GUESSED: guessed}, Json)
        fact = {"id": id, "t": new["kind"], "imp": new["importance"], "text": text}
        if new["expires_at"] is not None:
            fact["exp"] = new["expires_at"].date().isoformat()
        if self.created_tag:
            fact["created"] = draft.moment.date().isoformat()
        for row in evicted:
            remove_lines(draft, row, "evicted")
        path = f"{facts.home}/{new['kind']}.md"
        users.append(draft, facts, path, format_fact(fact), f"saved as {id}")
        users.write_meta(draft, facts, meta, [new["kind"]], evicted)
        expires = new["expires_at"] and new["expires_at"].date()
        return Saved(id, new["kind"], new["importance"], expires, tuple(row["source_id"] for row in evicted))

    def _admitted(self, new: Row, moment: datetime) -> Row:
        """The row as it is classified, where admission takes it: never what a screen would hide."""
        admission = Admission(**{**self._values("admission"), "known_secrets": True})
        pipeline = Pipeline([admission, Classifier(**self._values("classifier"))])
        row: Row = pipeline.transform(users.table([new]), moment).to_pylist()[0]
        if not row["keep"]:
            raise users.refusal(row, admission)
        return row

    def _refuse_duplicate(self, facts: users.UserFacts, new: Row, moment: datetime, but: str = "") -> None:
        vectors, near = self._near(facts, new, but)
        if not near:
            return
        values = {**self._values("deduplicator"), "encoder": None, "survivor": "oldest", "centre": "none"}
        if vectors is None:
            values["kinds"] = ("substring",)
        table = users.table([*near, new])
        judged = Deduplicator(**values).fit(table, vectors=vectors).transform(table, moment)
        row = judged.filter(pc.equal(judged["memory_id"], "~new")).to_pylist()[0]
        others = judged.filter(pc.equal(judged["duplicate_of"], "~new")).to_pylist()
        if not row["keep"] or others:
            reason = row["reason"] or others[0]["reason"]
            same = row["duplicate_of"] or others[0]["memory_id"]
            own = next(found["source_id"] for found in near if found["memory_id"] == same)
            raise PolicyRefusal(f"{reason}: {own} says it already.", reason)

    def _near(self, facts: users.UserFacts, new: Row, but: str) -> tuple[Any, list[Row]]:
        """The facts that can be a pair with a new one, and the vectors of these and of the new one last."""
        held = [row for row in facts.holding(new["text"]) if row["memory_id"] != but]
        if (encoder := self._encoder()) is None:
            return None, held
        rows = [row for row in facts.rows if row["kind"] in TYPES and row["memory_id"] != but]
        texts = [row["text"] for row in (*rows, new)]
        given = shared_cache().encode(encoder, texts, "query", keep=True)
        vectors = Centring(mode="corpus").fit(given).transform(given)
        ids = {row["memory_id"] for row in held}
        close = vectors[:-1] @ vectors[-1] >= self._values("deduplicator")["floor"]
        places = [place for place, row in enumerate(rows) if close[place] or row["memory_id"] in ids]
        return vectors[[*places, -1]], [rows[place] for place in places]

    def _encoder(self) -> Any:
        """The encoder; None where it cannot be had, as search then goes on by words too."""
        try:
            return None if self.encoder is None else as_encoder(self.encoder)
        except MissingExtraError:
            return None

    def _evicted(self, facts: users.UserFacts, new: Row, moment: datetime) -> list[Row]:
        """The facts that go to make room."""
        quota = Quota(**self._values("quota"))
        kinds = Counter(row["kind"] for row in facts.rows if row["kind"] in TYPES) + Counter([new["kind"]])
        if (
            kinds.total() <= quota.max_facts
            and kinds["profile"] <= quota.max_profile
            and kinds["working"] <= quota.max_working
        ):
            return []
        judged = quota.transform(pa.Table.from_pylist([*facts.rows, new], schema=Quota.needs), moment)
        refused = judged.filter(pc.invert(judged["keep"])).to_pylist()
        for row in refused:
            if row["memory_id"] == "~new":
                raise PolicyRefusal(f"{row['reason']}: there are as many {new['kind']} facts as may be.", row["reason"])
        gone = {row["memory_id"] for row in refused if row["reason"] == "evicted"}
        return [row for row in facts.rows if row["memory_id"] in gone]

    def read(self, user: str, *, now: AsOf = None, expired: bool = False) -> pa.Table:
        """The facts of a user, expired ones left out unless asked for.

        Returns
        -------
        pyarrow.Table
            id, type, importance, expires_at, created_at, text, path, line. The metadata's ``note`` names near users
            where nothing is known of this one.
        """
        users.check_user(user)
        table, note = self._memories(user)
        if not expired:
            kept = Expiry(**self._values("expiry")).transform(table, now)["keep"]
            table = table.filter(kept)
        names = dict(zip(_READ, ("source_id", "kind", *_READ[2:7], "line_start"), strict=True))
        found = pa.table({name: table[column] for name, column in names.items()})
        return describe(found.filter(pc.is_in(found["type"], value_set=pa.array(TYPES))), memkit="facts", note=note)

    def search(self, user: str, query: str, k: int = 5, *, now: AsOf = None) -> pa.Table:
        """The facts of a user that answer a query, best first, decayed by age as the document says.

        Returns
        -------
        pyarrow.Table
            Hits of a Retriever, with the column source_id, the fact's id.
        """
        return self._found(user, query, k, now)

    def _found(self, user: str, query: str, k: int, now: AsOf, **how: Any) -> pa.Table:
        users.check_user(user)
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ParameterError(f"k: expected a whole number, 1 or more. Got {k!r:.80}.")
        corpus, note = self._corpus(user)
        hits = self._retriever(**how).fit(corpus).search(checked(query, "query", filled=False), k=k, as_of=now)
        if corpus.memories.num_rows:
            hits = hits.filter(pc.greater(pc.fill_null(hits["score"], 0.0), 0.0))
        rows = pc.index_in(hits["memory_id"], value_set=corpus.memories["memory_id"].combine_chunks())
        hits = hits.append_column("source_id", corpus.memories["source_id"].take(rows))
        if not note:
            return hits
        own = {name: value for name, value in hits.schema.metadata.items() if name != b"note"}
        return describe(hits.replace_schema_metadata(own), note=note)

    def get(self, user: str, ids: Iterable[str]) -> pa.Table:
        """The facts with these ids, as `read` has them.

        Raises
        ------
        NotFoundError
            For an id that there is none of.
        """
        if isinstance(ids, str):
            raise ParameterError(f"ids: expected a list of ids. Got {ids!r:.80}.")
        facts = self.read(user, expired=True)
        known = facts["id"].to_pylist()
        wanted = list(ids)
        for id in wanted:
            if not isinstance(id, str):
                raise ParameterError(f"ids: expected a list of ids. Got {id!r:.80} in it.")
            if id not in known:
                raise missing("fact", id, [word for word in known if word])
        return facts.take([known.index(id) for id in wanted])

    def forget(
        self,
        user: str,
        id: str | None = None,
        query: str | None = None,
        *,
        confirm: bool = False,
        least_score: float | None = None,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> pa.Table | str | Edits:
        """Delete one fact: by its id, or with `confirm` the first that a query finds.

        Parameters
        ----------
        confirm : bool
            Whether the first hit of `query` is meant; else its candidates come back and nothing changes.
        least_score : float, optional
            In place of the store's own.

        Returns
        -------
        str
            The id of what was deleted. Its text is in the journal until ``mk.undo(root, clear=True)``.
        pyarrow.Table
            For a query without `confirm`: the best five, with their ``score`` and ``gap``, how far the next is below.

        Raises
        ------
        NotFoundError
            For an unknown id, and where a query finds nothing that scores at least `least_score`.
        """

        def work(draft: Draft, facts: users.UserFacts, row: Row) -> None:
            remove_lines(draft, row, "forgotten")
            users.remove_from_backup(draft, facts, user, row["text"])

        found = self._chosen(user, id, query, confirm, least_score, now, dry_run)
        return self._do_to_one(user, found, work, now, dry_run)

    def update(
        self,
        user: str,
        id: str | None = None,
        query: str | None = None,
        *,
        text: str,
        confirm: bool = False,
        least_score: float | None = None,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> pa.Table | str | Edits:
        """Give one fact another text; its tags stay. It is checked as `save` checks, but for quotas.

        Raises
        ------
        NotFoundError, PolicyRefusal
            As `forget` and `save` do.
        """

        def work(draft: Draft, facts: users.UserFacts, row: Row) -> None:
            said = users.one_line(text)
            new = {**row, "memory_id": "~new", "text": said, "created_at": draft.moment, "updated_at": draft.moment}
            self._admitted(new, draft.moment)
            self._refuse_duplicate(facts, new, draft.moment, but=row["memory_id"])
            users.replace_text(draft, row, said)

        found = self._chosen(user, id, query, confirm, least_score, now, dry_run)
        return self._do_to_one(user, found, work, now, dry_run)

    def cleanup(
        self, user: str | None = None, *, guessed: str = "delete", now: AsOf = None, dry_run: bool = False
    ) -> list[str] | Edits:
        """Delete what is past its day in ``working.md``, of one user or of all; the ids of what left that file.

        With ``dry_run=True`` the edits list it first; `mk.undo` brings it back.

        Parameters
        ----------
        guessed : {"delete", "archive"}
            What becomes of facts whose end no one but the classifier said: "archive" moves them to ``archive.md``,
            without an end and under a new id.
        """
        check_choice("guessed", guessed, GUESSED, "cleanup")
        if user is not None:
            users.check_user(user)
        old_files = users.old_files(self._reader())
        unmigrated = {name: path for name, path in old_files.items() if user in (None, name)}
        for name in unmigrated if not dry_run else ():
            self._first_access(name, now, dry_run)

        def work(draft: Draft) -> list[str]:
            gone: list[str] = []
            for path in unmigrated.values() if dry_run else ():
                with draft.attempt(path, None):
                    bring_user(draft, path)
            for name in [user] if user is not None else users.users_of(draft):
                gone += self._cleaned(draft, users.load(draft, name, self._read), guessed == "archive")
            return gone

        return self._do(work, now, dry_run)

    def _cleaned(self, draft: Draft, facts: users.UserFacts, moves: bool) -> list[str]:
        """Draft the cleanup of one user."""
        rows = [row for row in facts.rows if row["path"] == f"{facts.home}/working.md"]
        judged = Expiry(**self._values("expiry")).cleanup(users.table(rows), draft.moment)
        wanted = set(judged["memory_id"].to_pylist())
        gone = [row for row in rows if row["memory_id"] in wanted]
        if not gone:
            return []
        noted = users.guessed_ends(draft, facts)
        meta, kept = users.meta_of(draft, facts) if noted else "", list[str]()
        for row in gone:
            is_moved = moves and row["source_id"] in noted
            remove_lines(draft, row, "expired: it goes to the archive" if is_moved else "expired")
            if is_moved:
                id, meta = users.next_id(meta, facts, "archive", len(kept))
                fact = {"id": id, "t": "archive", "imp": row["importance"] or "normal", "text": row["text"]}
                fact |= {"created": row["created_at"].date().isoformat()} if row["created_at"] else {}
                kept.append(format_fact(fact))
        ids = [row["source_id"] or "" for row in gone]
        if kept:
            newline = "\r\n" if any("\r\n" in file.text for file in facts.files.values()) else "\n"
            users.append(draft, facts, f"{facts.home}/archive.md", newline.join(kept), "its end was a guess")
        if noted:
            left = [id for id in noted if id not in ids]
            meta = with_values(meta, {users.GUESSED: left}, Json)
            users.write_meta(draft, facts, meta, ["archive"] * len(kept), gone)
        return ids

    def migrate_user(self, user: str, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Bring ``{user}.md`` of the old layout into a folder of its own, and keep it as ``{user}.md.bak``.

        Returns
        -------
        pyarrow.Table
            A row a line: user_id, path, line, text, id (null where the line stays text) and the reason.

        Raises
        ------
        NotFoundError
            Where there is no such user, or the user has a folder and no old file.
        ChangeRefusedError
            Where the user was migrated already, has a folder beside the old file, the name of what is kept is taken,
            no line of the file is an item, or it is not read as one of the old layout.
        """
        users.check_user(user)

        def work(draft: Draft) -> pa.Table:
            rows = bring_user(draft, users.old_file(draft, user) or _without_old(draft, user))
            return pa.Table.from_pylist([{"user_id": user, **row} for row in rows], schema=_MIGRATED)

        found = self._do(work, now, dry_run)
        return describe(found, memkit="migrated") if isinstance(found, pa.Table) else found

    def _first_access(self, user: str, now: AsOf, dry_run: bool) -> None:
        """Migrate a user who has an old file; one that cannot be migrated stays, and is read as it is.

        Raises
        ------
        ChangeRefusedError
            With `dry_run`, where there is a file to migrate: ids and places of what is asked for depend on that.
        """
        path = users.old_file(self._reader(), user)
        if path is None:
            return
        try:
            lines = self.migrate_user(user, now=now, dry_run=dry_run)
        except (ChangeRefusedError, FormatError, NotFoundError):
            return
        if not isinstance(lines, pa.Table):
            raise ChangeRefusedError(
                f"dry_run: {path} is of the old layout, and migrated before any other change."
                f" migrate_user({user!r}, dry_run=True) shows that step; after it this one can be shown."
            )
        self.migrated = describe(pa.concat_tables([self.migrated, lines]), memkit="migrated")

    def blocks(self, user: str, message: str, *, now: AsOf = None) -> str:
        """What a prompt gets: the document's ``buildMemoryBlocksForPrompt``."""
        users.check_user(user)
        corpus, _ = self._corpus(user)
        if not corpus.memories.num_rows:
            return ""
        values = dict(self.profile.context) if self.profile else {}
        builder = ContextBuilder(retriever=self._retriever().fit(corpus), **values)
        return str(builder.build(corpus, user, checked(message, "message", filled=False), as_of=now).text)

    def _values(self, policy: str) -> Row:
        """The parameters of a policy: the document's, and over them the profile's."""
        return _POLICY.get(policy, {}) | (self.profile.policy(policy) if self.profile else {})

    def _retriever(self, **how: Any) -> Retriever:
        own = dict(self.profile.retriever) if self.profile else {}
        return Retriever(**{**own, "encoder": self.encoder, **how})

    def _do_to_one(
        self, user: str, found: str | pa.Table, work: Work, now: AsOf, dry_run: bool
    ) -> pa.Table | str | Edits:
        """Do `work` to the fact of an id, and drop the vector of its old text; candidates are given back."""
        if isinstance(found, pa.Table):
            return found
        gone: list[Row] = []

        def to_one(draft: Draft) -> str:
            facts = users.load(draft, user, self._read)
            gone.append(facts.fact(found))
            work(draft, facts, gone[0])
            return found

        result = self._do(to_one, now, dry_run)
        if not dry_run:
            forget(users.table(gone))
        return result

    def _chosen(
        self,
        user: str,
        id: str | None,
        query: str | None,
        confirm: bool,
        least_score: float | None,
        now: AsOf,
        dry_run: bool,
    ) -> str | pa.Table:
        """The id of the one fact that is meant, or the candidates of a query."""
        users.check_user(user)
        if (id is None) == (query is None):
            raise ParameterError("expected an id or a query, one of the two.")
        for name, value in (("id", id), ("query", query)):
            if value is not None:
                checked(value, name, filled=False)
        if not isinstance(confirm, bool):
            raise ParameterError(f"confirm: expected true or false. Got {confirm!r:.80}.")
        least = self.least_score if least_score is None else _score(least_score)
        if id is not None or confirm:
            self._first_access(user, now, dry_run)
        if id is not None:
            return id
        hits = self._found(user, str(query), _CANDIDATES, now, fold="none", min_score=0.0)
        scores = hits["score"].to_pylist()
        if not confirm:
            gaps = [one - other for one, other in pairwise(scores)]
            return hits.append_column("gap", pa.array([*gaps, *[None] * bool(scores)], pa.float64()))
        best = hits["source_id"][0].as_py() if scores and scores[0] >= least else None
        if best is None:
            found = zip(hits["source_id"].to_pylist(), scores, strict=True)
            said = ", ".join(f"{own or 'one without an id'} {score:.2f}" for own, score in found)
            but = f" with a score of {least:.2f}. The best: {said}" if said else ""
            raise NotFoundError(f"no fact answers {query!r:.80}{but}.")
        return str(best)

    def _memories(self, user: str) -> tuple[pa.Table, str]:
        """The lines of a user's files, and a note where nothing is known of the user."""
        with steady(self.root):
            draft = self._reader()
            rows = users.load(draft, user, self._read).rows
            return users.table(rows), "" if rows else users.no_user(draft, user)

    def _corpus(self, user: str) -> tuple[Corpus, str]:
        """The facts of a user alone, and the note."""
        table, note = self._memories(user)
        return from_table(table.filter(pc.is_in(table["kind"], value_set=pa.array(TYPES)))), note


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ParameterError(f"least_score: expected a number of 0 to 1. Got {value!r:.80}.")
    return float(value)


def _without_old(draft: Draft, user: str) -> NoReturn:
    """Say why a user has no old file to migrate."""
    place = users.home(draft)
    path = posixpath.join(posixpath.dirname(place), f"{user}.md")
    if draft.exists(path):
        raise ChangeRefusedError(f"{path}: it is not read as a user's file of the old layout, for what lies beside it.")
    if not draft.exists(f"{place}/{user}"):
        raise NotFoundError(users.no_user(draft, user) or f"there is no user {user!r}.")
    if draft.exists(f"{path}.bak"):
        raise ChangeRefusedError(f"{user}: migrated already: {place}/{user}/ is there, and {path}.bak.")
    raise NotFoundError(f"{user}: there is nothing to migrate: no {path}, and {place}/{user}/ is there.")
