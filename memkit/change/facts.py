"""The fact store of Memory v2: facts of users in ``profile.md``, ``working.md`` and ``archive.md``."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, check_choice, check_value, current_names, describe
from memkit.change import users
from memkit.change.draft import Draft, Operations, checked, missing
from memkit.change.edits import Edits
from memkit.change.memories import remove_lines
from memkit.change.migrate import bring_user
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
from memkit.formats.rows import Row
from memkit.formats.syntax.places import Json, with_values
from memkit.index.ann import Centring
from memkit.index.cache import shared_cache
from memkit.index.encode import as_encoder
from memkit.policy.admission import Admission, Classifier
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.policy.limits import Expiry, Quota
from memkit.policy.pipeline import Pipeline
from memkit.schemas import result_schema
from memkit.search.fitted.store import forget
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus
from memkit.tables.table import from_table
from memkit.text.secrets import mask

if TYPE_CHECKING:
    from memkit.evaluation.profile import Profile

Change = Callable[[Draft, users.UserFacts, Row], None]
# A round number: who forgets picks one by hand.
_CANDIDATES = 5
"""Hits that are shown to who forgets or updates by a query."""
_MEMKIT_POLICIES = ("admission", "classifier")
"""Policies with memkit's own word lists, which judge better; the preset memory_v2 has the document's lists."""
_POLICY_PARAMS: dict[str, dict[str, Any]] = {
    name: {} if name in _MEMKIT_POLICIES else values for name, values in POLICY["memory_v2"].items()
}
GUESSED = ("delete", "archive")
_MIGRATED = result_schema((pa.string(), "user_id path"), (pa.int64(), "line"), (pa.string(), "text id reason"))
_FACT_COLUMNS = ("id", "type", "importance", "expires_at", "created_at", "text", "path", "line")


@dataclass(frozen=True)
class Saved:
    """A fact that was saved: its id, how it was classified, and the ids that were evicted for it."""

    id: str
    type: str
    importance: str
    expires_at: date | None
    evicted: tuple[str, ...] = ()


class _Meant(NamedTuple):
    """By what a caller names the fact to change: its id or a query, and whether and from which score its first hit."""

    id: str | None
    query: str | None
    confirm: bool
    least_score: float | None


# A guess: calibrated scores of what answers lie far above.
LEAST_SCORE = 0.1
"""Below it, what a query returns first is hardly ever what it asks for: nothing is forgotten or updated for it."""


class FactStore(Operations):
    """Saves, reads, searches and forgets the facts of users, by the rules of the Memory v2 document.

    `save`, `forget`, `update` and `cleanup` first migrate a user's file of the old layout. The migration is a step of
    its own, which a second `mk.undo` takes back. Methods that only read show the old file's facts as they are. With
    ``dry_run=True`` nothing is migrated: `cleanup` shows the migration among its edits, the others refuse and name
    `migrate_user`.

    Parameters
    ----------
    root : Path
        The folder above the users' folders. These lie in ``data/memory/users/`` where ``data/memory`` exists, in
        ``memory/users/`` where that or old files in ``memory/`` exist, else in ``users/``.
    encoder : object, optional
        The encoder of search and of dedup by meaning, as `Retriever` takes it. Without one (None, or a missing
        package) both use words alone.
    created_tag : bool
        Whether a new fact gets a tag ``[created:]`` with its day; the original bot has no such tag.
    profile : Profile, optional
        Parameters of the policies, of search and of the blocks, in place of the document's.
    least_score : float
        The least score of the first hit at which ``confirm`` forgets or updates that fact.

    Attributes
    ----------
    migrated : pyarrow.Table
        The lines that this store migrated at a first access: user_id, path, line, text, id, reason.
    """

    policy = "facts"

    def __init__(
        self,
        root: Path,
        encoder: Any = "use",
        *,
        created_tag: bool = True,
        profile: Profile | None = None,
        least_score: float = LEAST_SCORE,
    ) -> None:
        super().__init__(root)
        check_value("store", "created_tag", created_tag, "bool")
        check_value("store", "least_score", least_score, "float", low=0, high=1)
        self.encoder, self.created_tag, self.profile, self.least_score = encoder, created_tag, profile, least_score
        self.migrated = describe(_MIGRATED.empty_table(), memkit="migrated")
        self._parsed_files: users.ParsedFiles = {}

    @property
    def home(self) -> str:
        """The folder of the users' folders, relative to the root."""
        return users.home(self._reader())

    @current_names
    def save(
        self,
        user_id: str,
        text: str,
        meta: Mapping[str, Any] | None = None,
        *,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> Saved | Edits:
        """Save one fact: admission, classification, dedup, quotas, in this order.

        Parameters
        ----------
        user_id : str
            Letters, digits, ``_``, ``.`` and ``-``.
        text : str
            One line.
        meta : mapping, optional
            type, importance, expires_at (or expiresAt), as the model gives them; they win over the keywords. A fact
            with an end and without a type is working. A last day that the keywords gave is listed in ``guessedEnds``
            of meta.json.

        Returns
        -------
        Saved, or Edits with `dry_run`

        Raises
        ------
        PolicyRefusal
            With the reason: length, question, command, secret, duplicate, semantic_duplicate or limit; expired for an
            end that is past, and bad_value for an end of a profile or archive fact, which has none.
        """
        users.check_user(user_id)
        columns = users.meta_columns({} if meta is None else meta)
        self._first_access(user_id, now, dry_run)
        return self._do(lambda draft: self._save(draft, user_id, text, columns), now, dry_run)

    def _save(self, draft: Draft, user_id: str, text: str, columns: Row) -> Saved:
        facts = users.load(draft, user_id, self._parsed_files)
        text = users.one_line(text)
        new = {
            "memory_id": "~new",
            "format": "facts",
            "user_id": user_id,
            "text": text,
            "title": "",
            "tags": [],
            **columns,
        }
        new |= {"extra": "{}", "created_at": draft.moment, "updated_at": draft.moment, "path": "~", "heading_path": ""}
        kept = self._admit(new, draft.moment)
        _refuse_end(columns, draft.moment)
        new |= {name: kept[name] for name in ("kind", "importance", "expires_at")}
        # In the document's order, so that a duplicate evicts nothing.
        self._refuse_duplicate(facts, new, draft.moment)
        evicted = self._to_evict(facts, new, draft.moment)
        id, meta = users.next_id(users.meta_text(draft, facts), facts, new["kind"])
        if new["expires_at"] is not None and columns["expires_at"] is None:
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

    def _admit(self, new: Row, moment: datetime) -> Row:
        """The classified row; admission refuses it where needed, and always refuses what memkit masks on a screen."""
        admission = Admission(**{**self._policy_params("admission"), "known_secrets": True})
        pipeline = Pipeline([admission, Classifier(**self._policy_params("classifier"))])
        row: Row = pipeline.transform(users.table([new]), moment).to_pylist()[0]
        if not row["keep"]:
            raise users.refusal(row, admission)
        return row

    def _refuse_duplicate(self, facts: users.UserFacts, new: Row, moment: datetime, exclude: str = "") -> None:
        vectors, candidates = self._near_facts(facts, new, exclude)
        if not candidates:
            return
        # The vectors are centred already, over all facts of the user and not over these few.
        values = {**self._policy_params("deduplicator"), "encoder": None, "survivor": "oldest", "centre": "none"}
        if vectors is None:
            values["kinds"] = ("substring",)
        table = users.table([*candidates, new])
        judged = Deduplicator(**values).fit(table, vectors=vectors).transform(table, moment)
        row = judged.filter(pc.equal(judged["memory_id"], "~new")).to_pylist()[0]
        shadowed = judged.filter(pc.equal(judged["duplicate_of"], "~new")).to_pylist()
        if not row["keep"] or shadowed:
            reason = row["reason"] or shadowed[0]["reason"]
            duplicate_of = row["duplicate_of"] or shadowed[0]["memory_id"]
            known_id = next(fact["source_id"] for fact in candidates if fact["memory_id"] == duplicate_of)
            raise PolicyRefusal(f"{reason}: {known_id} says it already.", reason)

    def _near_facts(self, facts: users.UserFacts, new: Row, exclude: str) -> tuple[Any, list[Row]]:
        """The facts that may duplicate a new one, and their vectors with that of the new one last."""
        matches = [row for row in facts.substring_matches(new["text"]) if row["memory_id"] != exclude]
        if (encoder := self._encoder()) is None:
            return None, matches
        rows = [row for row in facts.rows if row["kind"] in TYPES and row["memory_id"] != exclude]
        texts = [row["text"] for row in (*rows, new)]
        raw = shared_cache().encode(encoder, texts, "query", keep=True)
        vectors = Centring(mode="corpus").fit(raw).transform(raw)
        ids = {row["memory_id"] for row in matches}
        is_close = vectors[:-1] @ vectors[-1] >= self._policy_params("deduplicator")["floor"]
        places = [place for place, row in enumerate(rows) if is_close[place] or row["memory_id"] in ids]
        return vectors[[*places, -1]], [rows[place] for place in places]

    def _encoder(self) -> Any:
        """The encoder; None where its package is missing, since search then uses words alone too."""
        try:
            return None if self.encoder is None else as_encoder(self.encoder)
        except MissingExtraError:
            return None

    def _to_evict(self, facts: users.UserFacts, new: Row, moment: datetime) -> list[Row]:
        """The facts that are evicted to make room for a new one."""
        quota = Quota(**self._policy_params("quota"))
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
                raise PolicyRefusal(f"{row['reason']}: the quota of {new['kind']} facts is full.", row["reason"])
        evicted_ids = {row["memory_id"] for row in refused if row["reason"] == "evicted"}
        return [row for row in facts.rows if row["memory_id"] in evicted_ids]

    @current_names
    def read(self, user_id: str, *, as_of: AsOf = None, expired: bool = False) -> pa.Table:
        """The facts of a user; `expired` includes those that have expired.

        Returns
        -------
        pyarrow.Table
            id, type, importance, expires_at, created_at, text, path, line. For an unknown user it is empty, and the
            metadata's ``note`` names similar ids.
        """
        users.check_user(user_id)
        table, note = self._memories(user_id)
        if not expired:
            kept = Expiry(**self._policy_params("expiry")).transform(table, as_of)["keep"]
            table = table.filter(kept)
        names = dict(zip(_FACT_COLUMNS, ("source_id", "kind", *_FACT_COLUMNS[2:7], "line_start"), strict=True))
        renamed = pa.table({name: table[column] for name, column in names.items()})
        return describe(renamed.filter(pc.is_in(renamed["type"], value_set=pa.array(TYPES))), memkit="facts", note=note)

    @current_names
    def search(self, user_id: str, query: str, k: int = 5, *, as_of: AsOf = None) -> pa.Table:
        """Search the facts of a user, best first, with the document's decay by age.

        Returns
        -------
        pyarrow.Table
            Hits of a Retriever, with the column source_id, the fact's id.
        """
        return self._hits(user_id, query, k, as_of)

    def _hits(self, user_id: str, query: str, k: int, as_of: AsOf, **parameters: Any) -> pa.Table:
        users.check_user(user_id)
        check_value("search", "k", k, "int", low=1)
        corpus, note = self._corpus(user_id)
        hits = self._retriever(**parameters).fit(corpus).search(checked(query, "query", filled=False), k=k, as_of=as_of)
        if corpus.memories.num_rows:
            hits = hits.filter(pc.greater(pc.fill_null(hits["score"], 0.0), 0.0))
        rows = pc.index_in(hits["memory_id"], value_set=corpus.memories["memory_id"].combine_chunks())
        hits = hits.append_column("source_id", corpus.memories["source_id"].take(rows))
        if not note:
            return hits
        metadata = {name: value for name, value in hits.schema.metadata.items() if name != b"note"}
        return describe(hits.replace_schema_metadata(metadata), note=note)

    @current_names
    def get(self, user_id: str, ids: Iterable[str]) -> pa.Table:
        """The facts with these ids, as `read` has them.

        Raises
        ------
        NotFoundError
            For an unknown id.
        """
        if isinstance(ids, str):
            raise ParameterError(f"ids: expected a list of ids. Got {ids!r:.80}.")
        facts = self.read(user_id, expired=True)
        known_ids = facts["id"].to_pylist()
        wanted = list(ids)
        for id in wanted:
            if not isinstance(id, str):
                raise ParameterError(f"ids: expected a list of ids. Got {id!r:.80} in it.")
            if id not in known_ids:
                raise missing("fact", id, [known_id for known_id in known_ids if known_id])
        return facts.take([known_ids.index(id) for id in wanted])

    def forget(
        self,
        user_id: str,
        id: str | None = None,
        query: str | None = None,
        *,
        confirm: bool = False,
        least_score: float | None = None,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> pa.Table | str | Edits:
        """Delete one fact: by its id, or, with `confirm`, the first hit of a query.

        Parameters
        ----------
        confirm : bool
            Delete the first hit of `query`. Without it nothing changes, and the candidates are returned.
        least_score : float, optional
            Overrides the store's `least_score`.

        Returns
        -------
        str
            The id of the deleted fact. Its text stays in the journal until ``mk.undo(root, clear=True)``.
        pyarrow.Table
            For a query without `confirm`: the best five hits, with ``score`` and ``gap`` (the difference to the next).

        Raises
        ------
        NotFoundError
            For an unknown id, and where no hit scores at least `least_score`.
        """

        def work(draft: Draft, facts: users.UserFacts, row: Row) -> None:
            remove_lines(draft, row, "forgotten")
            users.remove_from_backup(draft, facts, user_id, row["text"])

        return self._change_fact(user_id, _Meant(id, query, confirm, least_score), work, now, dry_run)

    @current_names
    def update(
        self,
        user_id: str,
        id: str | None = None,
        query: str | None = None,
        *,
        text: str,
        confirm: bool = False,
        least_score: float | None = None,
        now: AsOf = None,
        dry_run: bool = False,
    ) -> pa.Table | str | Edits:
        """Replace the text of one fact; its tags stay. The text is checked as in `save`, without the quotas.

        Raises
        ------
        NotFoundError, PolicyRefusal
            As `forget` and `save` do.
        """

        def work(draft: Draft, facts: users.UserFacts, row: Row) -> None:
            line = users.one_line(text)
            new = {**row, "memory_id": "~new", "text": line, "created_at": draft.moment, "updated_at": draft.moment}
            self._admit(new, draft.moment)
            self._refuse_duplicate(facts, new, draft.moment, exclude=row["memory_id"])
            users.replace_text(draft, row, line)

        return self._change_fact(user_id, _Meant(id, query, confirm, least_score), work, now, dry_run)

    @current_names
    def cleanup(
        self, user_id: str | None = None, *, guessed: str = "delete", now: AsOf = None, dry_run: bool = False
    ) -> list[str] | Edits:
        """Delete expired facts from ``working.md``, of one user or of all, and return their ids.

        ``dry_run=True`` lists them first; `mk.undo` restores them. A user whose files cannot be changed holds up no
        other: ``dry_run=True`` names them in ``refused``.

        Parameters
        ----------
        guessed : {"delete", "archive"}
            What happens to facts whose last day was only guessed by the classifier: "archive" moves them to
            ``archive.md``, without a last day and under a new id.
        """
        check_choice("guessed", guessed, GUESSED, "cleanup")
        if user_id is not None:
            users.check_user(user_id)
        old_files = users.old_files(self._reader())
        unmigrated = {name: path for name, path in old_files.items() if user_id in (None, name)}
        for name in unmigrated if not dry_run else ():
            self._first_access(name, now, dry_run)

        def work(draft: Draft) -> list[str]:
            removed_ids: list[str] = []
            reasons: set[tuple[str, str]] = set()
            for name, path in unmigrated.items() if dry_run else ():
                before = len(draft.refused)
                with draft.attempt(path, None):
                    bring_user(draft, path)
                reasons |= {(name, row["reason"]) for row in draft.refused[before:]}
            for name in [user_id] if user_id is not None else users.user_folders(draft):
                before = len(draft.refused)
                with draft.attempt(f"{users.home(draft)}/{name}", None) if user_id is None else nullcontext():
                    facts = users.load(draft, name, self._parsed_files)
                    removed_ids += self._clean_user(draft, facts, guessed == "archive")
                # What holds up a user's migration holds up the cleaning too, and is told once.
                refused = draft.refused[before:]
                draft.refused[before:] = [row for row in refused if (name, row["reason"]) not in reasons]
            return removed_ids

        return self._do(work, now, dry_run)

    def _clean_user(self, draft: Draft, facts: users.UserFacts, archives: bool) -> list[str]:
        """Draft the cleanup of one user."""
        rows = [row for row in facts.rows if row["path"] == f"{facts.home}/working.md"]
        judged = Expiry(**self._policy_params("expiry")).cleanup(users.table(rows), draft.moment)
        expired_ids = set(judged["memory_id"].to_pylist())
        expired = [row for row in rows if row["memory_id"] in expired_ids]
        if not expired:
            return []
        guessed_ids = users.guessed_ends(draft, facts)
        meta, archived = users.meta_text(draft, facts) if guessed_ids else "", list[str]()
        for row in expired:
            is_moved = archives and row["source_id"] in guessed_ids
            remove_lines(draft, row, "expired: moved to the archive" if is_moved else "expired")
            if is_moved:
                id, meta = users.next_id(meta, facts, "archive", len(archived))
                fact = {"id": id, "t": "archive", "imp": row["importance"] or "normal", "text": row["text"]}
                fact |= {"created": row["created_at"].date().isoformat()} if row["created_at"] else {}
                archived.append(format_fact(fact))
        ids = [row["source_id"] or "" for row in expired]
        if archived:
            newline = "\r\n" if any("\r\n" in file.text for file in facts.files.values()) else "\n"
            users.append(draft, facts, f"{facts.home}/archive.md", newline.join(archived), "its last day was a guess")
        if guessed_ids:
            remaining = [id for id in guessed_ids if id not in ids]
            meta = with_values(meta, {users.GUESSED: remaining}, Json)
            users.write_meta(draft, facts, meta, ["archive"] * len(archived), expired)
        return ids

    @current_names
    def migrate_user(self, user_id: str, *, now: AsOf = None, dry_run: bool = False) -> pa.Table | Edits:
        """Move the facts of an old ``{user_id}.md`` into a folder of the user; the file becomes ``{user_id}.md.bak``.

        Each line gets the type that its words give. An old task is no current one: it becomes an archive fact, unless
        it has an end of its own that is not past. So does what `save` would refuse, and what is over a limit.

        Returns
        -------
        pyarrow.Table
            One row per line: user_id, path, line, text, id (null where the line is no fact) and the reason, which says
            the type that the fact has now.

        Raises
        ------
        NotFoundError
            For an unknown user, and one who has a folder and no old file.
        ChangeRefusedError
            Where the user was migrated already, a folder lies beside the old file, the ``.bak`` exists, no line of the
            file is a fact, or the file is not of the old layout.
        """
        users.check_user(user_id)

        def work(draft: Draft) -> pa.Table:
            rows = bring_user(draft, users.old_file(draft, user_id) or _raise_no_old_file(draft, user_id))
            return pa.Table.from_pylist([{"user_id": user_id, **row} for row in rows], schema=_MIGRATED)

        result = self._do(work, now, dry_run)
        return describe(result, memkit="migrated") if isinstance(result, pa.Table) else result

    def _first_access(self, user_id: str, now: AsOf, dry_run: bool) -> None:
        """Migrate a user who has an old file; one that cannot be migrated stays, and is read as it is.

        Raises
        ------
        ChangeRefusedError
            With `dry_run`, where a file would be migrated first: the ids and lines of the edits depend on that.
        """
        try:
            path = users.old_file(self._reader(), user_id)
            if path is None:
                return
            lines = self.migrate_user(user_id, now=now, dry_run=dry_run)
        except (ChangeRefusedError, FormatError, NotFoundError):
            return
        if not isinstance(lines, pa.Table):
            raise ChangeRefusedError(
                f"dry_run: {path} is of the old layout, and migrated before any other change."
                f" migrate_user({user_id!r}, dry_run=True) shows that step; after it this one can be shown."
            )
        self.migrated = describe(pa.concat_tables([self.migrated, lines]), memkit="migrated")

    @current_names
    def blocks(self, user_id: str, message: str, *, as_of: AsOf = None) -> str:
        """The memory blocks of a prompt: the document's ``buildMemoryBlocksForPrompt``."""
        users.check_user(user_id)
        corpus, _ = self._corpus(user_id)
        if not corpus.memories.num_rows:
            return ""
        values = dict(self.profile.context) if self.profile else {}
        builder = ContextBuilder(retriever=self._retriever().fit(corpus), **values)
        return str(builder.build(corpus, user_id, checked(message, "message", filled=False), as_of=as_of).text)

    def _policy_params(self, policy: str) -> Row:
        """The parameters of a policy: the document's, overridden by the profile's."""
        return _POLICY_PARAMS.get(policy, {}) | (self.profile.policy(policy) if self.profile else {})

    def _retriever(self, **parameters: Any) -> Retriever:
        defaults = dict(self.profile.retriever) if self.profile else {}
        return Retriever(**{**defaults, "encoder": self.encoder, **parameters})

    def _change_fact(
        self, user_id: str, meant: _Meant, work: Change, now: AsOf, dry_run: bool
    ) -> pa.Table | str | Edits:
        """Apply `work` to the fact that is meant, and drop its old vector; return the candidates of a query."""
        id, query, confirm, least_score = meant
        users.check_user(user_id)
        if (id is None) == (query is None):
            raise ParameterError("expected an id or a query, one of the two.")
        for name, value in (("id", id), ("query", query)):
            if value is not None:
                checked(value, name, filled=False)
        check_value("facts", "confirm", confirm, "bool")
        check_value("facts", "least_score", least_score, "float", low=0, high=1, nullable=True)
        threshold = self.least_score if least_score is None else least_score
        if id is not None or confirm:
            self._first_access(user_id, now, dry_run)
        target = id if id is not None else self._answer(user_id, str(query), confirm, threshold, now)
        if isinstance(target, pa.Table):
            return target
        rows: list[Row] = []

        def to_one(draft: Draft) -> str:
            facts = users.load(draft, user_id, self._parsed_files)
            rows.append(facts.fact(target))
            work(draft, facts, rows[0])
            return target

        result = self._do(to_one, now, dry_run)
        if not dry_run:
            forget(users.table(rows), self.root)
        return result

    def _answer(self, user_id: str, query: str, confirm: bool, threshold: float, now: AsOf) -> str | pa.Table:
        """The id of the fact that answers a query or, unless `confirm`, the candidates."""
        hits = self._hits(user_id, query, _CANDIDATES, now, fold="none", min_score=0.0)
        scores = hits["score"].to_pylist()
        if not confirm:
            gaps = [one - other for one, other in pairwise(scores)]
            hits = hits.append_column("gap", pa.array([*gaps, *[None] * bool(scores)], pa.float64()))
            note = (hits.schema.metadata or {}).get(b"note", b"").decode()
            return describe(hits, note=f"Nothing was changed: name a fact by its id, or confirm. {note}".strip())
        best = hits["source_id"][0].as_py() if scores and scores[0] >= threshold else None
        if best is None:
            scored = zip(hits["source_id"].to_pylist(), scores, strict=True)
            listed = ", ".join(f"{fact_id or 'one without an id'} {score:.2f}" for fact_id, score in scored)
            suffix = f" with a score of {threshold:.2f}. The best: {listed}" if listed else ""
            raise NotFoundError(f"no fact answers {query!r:.80}{suffix}.")
        return str(best)

    def _memories(self, user_id: str) -> tuple[pa.Table, str]:
        """The lines of a user's files, and a note for an unknown user."""
        with steady(self.root):
            draft = self._reader()
            rows = users.load(draft, user_id, self._parsed_files).rows
            return users.table(rows), "" if rows else users.no_user(draft, user_id)

    def _corpus(self, user_id: str) -> tuple[Corpus, str]:
        """A corpus of one user's facts, and the note."""
        table, note = self._memories(user_id)
        return from_table(table.filter(pc.is_in(table["kind"], value_set=pa.array(TYPES)))), note


def _refuse_end(columns: Row, moment: datetime) -> None:
    """Raise where the end that was given cannot be that of a fact: only working facts have one, and it lies ahead.

    Raises
    ------
    PolicyRefusal
    """
    ends = columns["expires_at"]
    if ends is None:
        return
    if columns["kind"] != "working":
        raise PolicyRefusal(f"bad_value: only a working fact has an end. Got type {columns['kind']!r}.", "bad_value")
    if ends.date() < moment.date():
        raise PolicyRefusal(f"expired: the end must be today or later. Got {ends.date()}.", "expired")


def _raise_no_old_file(draft: Draft, user_id: str) -> NoReturn:
    """Raise with the reason why a user has no old file to migrate."""
    place = users.home(draft)
    path = posixpath.join(posixpath.dirname(place), f"{user_id}.md")
    if draft.exists(path):
        raise ChangeRefusedError(
            f"{path}: its lines, its name or the files beside it show that it is no user's file of the old layout."
        )
    if not draft.exists(f"{place}/{user_id}"):
        raise NotFoundError(users.no_user(draft, user_id) or mask(f"there is no user {user_id!r}."))
    if draft.exists(f"{path}.bak"):
        raise ChangeRefusedError(f"{user_id}: migrated already: {place}/{user_id}/ is there, and {path}.bak.")
    raise NotFoundError(f"{user_id}: there is nothing to migrate: no {path}, and {place}/{user_id}/ is there.")
