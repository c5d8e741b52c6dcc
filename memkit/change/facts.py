"""The fact store of Memory v2: facts of users in ``profile.md``, ``working.md`` and ``archive.md``."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from memkit.change import users
from memkit.change.draft import Draft
from memkit.change.edits import Edits
from memkit.change.memories import remove_lines
from memkit.change.migrate import Migrate
from memkit.change.operations import Operations, missing
from memkit.change.planning import plan
from memkit.context import ContextBuilder
from memkit.documents import POLICY
from memkit.errors import NotFoundError, ParameterError, PolicyRefusal
from memkit.formats.disk.lock import steady
from memkit.formats.facts import TYPES, format_fact
from memkit.index.cache import shared_cache
from memkit.index.centre import Centring
from memkit.index.encode import as_encoder
from memkit.params import AsOf, describe
from memkit.policy.admission import Admission
from memkit.policy.classifier import Classifier
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.policy.expiry import Expiry
from memkit.policy.pipeline import Pipeline
from memkit.policy.quota import Quota
from memkit.search.fitted.store import forget
from memkit.search.retriever import Retriever
from memkit.tables.corpus import Corpus
from memkit.tables.sources import read
from memkit.tables.table import from_table

if TYPE_CHECKING:
    from memkit.evaluation.profiles.profile import Profile

Row = dict[str, Any]
Work = Callable[[Draft, users.UserFacts, Row], None]
LEAST_SCORE = 0.35
"""A fact that is found by a query is deleted or changed only from this score on; two of two words give about .45."""
_POLICY: dict[str, dict[str, Any]] = POLICY["memory_v2"]
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

    Parameters
    ----------
    root : Path
        The folder that holds ``users/``, ``memory/users/`` or ``data/memory/users/``.
    encoder : object, optional
        For search and dedup by meaning; None is by words alone.
    created_tag : bool
        Whether a new fact says its day in ``[created:]``; the original bot knows no such tag.
    profile : Profile, optional
        Parameters of the policies, of search and of the blocks, in place of the document's.
    """

    policy = "facts"

    def __init__(
        self, root: Path, encoder: Any = None, *, created_tag: bool = True, profile: Profile | None = None
    ) -> None:
        super().__init__(root)
        self.encoder, self.created_tag, self.profile = encoder, created_tag, profile
        self._read: users.Read = {}

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
            type, importance, expires_at: what the model says of it wins over the keywords.

        Returns
        -------
        Saved, or Edits with `dry_run`

        Raises
        ------
        PolicyRefusal
            With the reason: length, question, command, secret, duplicate, semantic_duplicate, limit or evicted.
        """
        users.check_user(user)
        given = users.given_of(meta or {})
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
        id, meta = users.next_id(draft, facts, new["kind"])
        fact = {"id": id, "t": new["kind"], "imp": new["importance"], "text": text}
        if new["expires_at"] is not None:
            fact["exp"] = new["expires_at"].date().isoformat()
        if self.created_tag:
            fact["created"] = draft.moment.date().isoformat()
        for row in evicted:
            remove_lines(draft, row, "evicted")
        path = f"{facts.home}/{new['kind']}.md"
        users.append(draft, facts, path, format_fact(fact), f"saved as {id}")
        users.write_meta(draft, facts, meta, new["kind"], evicted)
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
        if self.encoder is None:
            return None, held
        rows = [row for row in facts.rows if row["kind"] in TYPES and row["memory_id"] != but]
        texts = [row["text"] for row in (*rows, new)]
        given = shared_cache().encode(as_encoder(self.encoder), texts, "query", keep=True)
        vectors = Centring(mode="corpus").fit(given).transform(given)
        ids = {row["memory_id"] for row in held}
        close = vectors[:-1] @ vectors[-1] >= self._values("deduplicator")["floor"]
        places = [place for place, row in enumerate(rows) if close[place] or row["memory_id"] in ids]
        return vectors[[*places, -1]], [rows[place] for place in places]

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
            id, type, importance, expires_at, created_at, text, path, line.
        """
        users.check_user(user)
        table = self._memories(user)
        if not expired:
            kept = Expiry(**self._values("expiry")).transform(table, now)["keep"]
            table = table.filter(kept)
        names = dict(zip(_READ, ("source_id", "kind", *_READ[2:7], "line_start"), strict=True))
        found = pa.table({name: table[column] for name, column in names.items()})
        return describe(found.filter(pc.is_in(found["type"], value_set=pa.array(TYPES))), memkit="facts")

    def search(self, user: str, query: str, k: int = 5, *, now: AsOf = None) -> pa.Table:
        """The facts of a user that answer a query, best first, decayed by age as the document says.

        Returns
        -------
        pyarrow.Table
            Hits of a Retriever, with the column source_id, the fact's id.
        """
        users.check_user(user)
        corpus = self._corpus(user)
        retriever = self._retriever().fit(corpus)
        hits = retriever.search(query, k=k, as_of=now)
        rows = pc.index_in(hits["memory_id"], value_set=corpus.memories["memory_id"].combine_chunks())
        return hits.append_column("source_id", corpus.memories["source_id"].take(rows))

    def get(self, user: str, ids: Iterable[str]) -> pa.Table:
        """The facts with these ids, as `read` has them.

        Raises
        ------
        NotFoundError
            For an id that there is none of.
        """
        facts = self.read(user, expired=True)
        known = facts["id"].to_pylist()
        wanted = list(ids)
        for id in wanted:
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
        now: AsOf = None,
        dry_run: bool = False,
    ) -> pa.Table | str | Edits:
        """Delete one fact: by its id, or with `confirm` the first that a query finds.

        Returns
        -------
        str
            The id of what was deleted. Its text is in the journal until ``mk.undo(root, clear=True)``.
        pyarrow.Table
            For a query without `confirm`: the candidates.

        Raises
        ------
        NotFoundError
            For an unknown id, and where a query finds nothing above the score of `LEAST_SCORE`.
        """

        def work(draft: Draft, facts: users.UserFacts, row: Row) -> None:
            remove_lines(draft, row, "forgotten")
            users.remove_from_backup(draft, facts, user, row["text"])

        found = self._chosen(user, id, query, confirm, now)
        return self._do_to_one(user, found, work, now, dry_run)

    def update(
        self,
        user: str,
        id: str | None = None,
        query: str | None = None,
        *,
        text: str,
        confirm: bool = False,
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

        found = self._chosen(user, id, query, confirm, now)
        return self._do_to_one(user, found, work, now, dry_run)

    def cleanup(self, user: str | None = None, *, now: AsOf = None, dry_run: bool = False) -> list[str] | Edits:
        """Delete the facts that are past their day, of one user or of all; the ids of what was deleted."""

        def work(draft: Draft) -> list[str]:
            gone = []
            for name in [user] if user is not None else users.users_of(draft):
                users.check_user(name)
                facts = users.load(draft, name, self._read)
                judged = Expiry(**self._values("expiry")).cleanup(users.table(facts.rows), draft.moment)
                wanted = set(judged["memory_id"].to_pylist())
                for row in facts.rows:
                    if row["memory_id"] in wanted:
                        remove_lines(draft, row, "expired")
                        gone.append(row["source_id"] or "")
            return gone

        return self._do(work, now, dry_run)

    def migrate_user(self, user: str, *, now: AsOf = None, dry_run: bool = False) -> bool | Edits:
        """Bring ``{user}.md`` of the old layout into a folder of its own; False where there is none to bring."""
        users.check_user(user)
        edits = plan(read(self.root), Migrate(steps=("users",)), now)
        paths = [path for path in edits.table["path"].to_pylist() if posixpath.basename(path) == f"{user}.md"]
        edits = edits.filter(f"together = 'migrate {paths[0]}'" if paths else "false")
        if dry_run:
            return edits
        return bool(edits.apply().num_rows)

    def blocks(self, user: str, message: str, *, now: AsOf = None) -> str:
        """What a prompt gets: the document's ``buildMemoryBlocksForPrompt``."""
        users.check_user(user)
        corpus = self._corpus(user)
        values = dict(self.profile.context) if self.profile else {}
        builder = ContextBuilder(retriever=self._retriever().fit(corpus), **values)
        return str(builder.build(corpus, user, message, as_of=now).text)

    def _values(self, policy: str) -> Row:
        """The parameters of a policy: the document's, and over them the profile's."""
        return _POLICY[policy] | (self.profile.policy(policy) if self.profile else {})

    def _retriever(self) -> Retriever:
        own = dict(self.profile.retriever) if self.profile else {}
        return Retriever(**{"fold": "none", **own, "encoder": self.encoder})

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

    def _chosen(self, user: str, id: str | None, query: str | None, confirm: bool, now: AsOf) -> str | pa.Table:
        """The id of the one fact that is meant, or the candidates of a query."""
        users.check_user(user)
        if (id is None) == (query is None):
            raise ParameterError("expected an id or a query, one of the two.")
        if id is not None:
            return id
        hits = self.search(user, str(query), now=now)
        if not confirm:
            return hits
        if not hits.num_rows or hits["score"][0].as_py() < LEAST_SCORE:
            best = f" The best scores {hits['score'][0].as_py():.2f}." if hits.num_rows else ""
            raise NotFoundError(f"no fact answers {query!r:.80} with a score of {LEAST_SCORE}.{best}")
        return str(hits["source_id"][0].as_py())

    def _memories(self, user: str) -> pa.Table:
        with steady(self.root):
            return users.table(users.load(self._reader(), user, self._read).rows)

    def _corpus(self, user: str) -> Corpus:
        table = self._memories(user)
        if not table.num_rows:
            raise missing("fact of", user, [])
        return from_table(table)
