"""Panels of what stays. Policies: one policy over the corpus or over a typed text, on any day. Prompts: the budgets of
their blocks, their text, the lines left out, what a larger budget adds.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memkit.base.params import AsOf, Moment, Param, check_corpus
from memkit.context import Context, ContextBuilder, Gathered
from memkit.display.draw import graphic, shown
from memkit.display.sheet import Cell
from memkit.display.views import IN_WORDS
from memkit.errors import ParameterError, count_of
from memkit.panels.page import cut, paragraph, rows_html
from memkit.panels.panel import QUERY, Name, Panel, Session, State, call_code, changed_code, changed_values, moment_of
from memkit.plot.marks import COLOURS, Axis, Line, Mark, Picture
from memkit.plot.memories import budgets, counts, reasons
from memkit.policy.base import POLICIES, policy_class, policy_names
from memkit.policy.limits import Expiry
from memkit.policy.pipeline import Pipeline, forecast
from memkit.schemas import present
from memkit.tables.corpus import Corpus
from memkit.tables.statement import Annotator, PatternCache
from memkit.text.secrets import mask

POLICY_NAMES = tuple(name for name in POLICIES if name not in ("deduplicator", "index_check", "split_plan"))
"""The policies that judge row by row and need no fit."""
_OVER_TIME = ("quota", "expiry")
_DAYS, _EVERY = (0, 7, 14, 21, 30, 365), 30
"""Days ahead for which a forecast is made: weeks at first, then every 30 up to a year."""
# Up to so many rows RE2 itself reads the patterns, in 26 ms; the rest comes a quarter of a second later.
_QUICK = 1000
"""Memories that are judged while a slider moves."""
_KEPT = 8
"""Forecasts that a panel keeps."""
_MOST_REMOVED = 100
"""Entries of an index that are listed."""
_EACH, _MOST_CHECKED, _LONGEST, _NAME = 12, 5000, 400, 40
"""Memories of each reason, and users, that are listed; memories among which they are looked for; characters of a text,
and of a user's name in the legend."""
_OWN = ("evict_rank", "expires_at", "age_days", "factor", "importance", "kind")
_SHOWN = ("reason", "user_id", "text", "matched_span", *_OWN)


class PolicyPanel(Panel):
    """A policy's verdict on each memory.

    Parameters
    ----------
    corpus : Corpus
    policy : str or Policy
        One of admission, classifier, quota, expiry, decay, index_check, split_plan, the name of one that was registered
        or that an installed package has, or a policy of your own, whose values are the first ones; another panel for
        another one.
    text : str
        Judged in place of the corpus, where it is given.
    as_of : str, date or datetime, optional
    session : Session, optional
        That of another panel.

    Examples
    --------
    >>> import memkit as mk
    >>> panel = PolicyPanel(mk.from_table({"text": ["Как настроить пул?", "Любит чай."]}), as_of="2026-03-01")
    >>> panel.result["reason"].to_pylist()
    ['question', 'length']
    >>> panel.set(text="Каждое утро пьёт зелёный чай без сахара.")
    >>> panel.result["keep"].to_pylist()
    [True]
    """

    query_names: ClassVar[tuple[str, ...]] = ("text", "as_of", "forward")
    follows: ClassVar[bool] = True

    def __init__(
        self,
        corpus: Corpus,
        policy: str | Annotator = "admission",
        *,
        text: str = "",
        as_of: AsOf = None,
        session: Session | None = None,
    ) -> None:
        check_corpus("panels.policy", corpus)
        self.corpus = corpus
        self.base = policy_class(policy)() if isinstance(policy, str) else policy
        if not isinstance(self.base, Annotator):
            raise ParameterError(f"panels.policy: expected the name of a policy, or a policy. Got {policy!r:.200}.")
        self.base.check_params()
        self.policy = type(self.base)
        self._has_name = self.policy.name in policy_names()  # asked once: it looks into all packages
        self._sample_rows: pa.Table | None = None
        self._pattern_cache = PatternCache()
        self._forecasts: dict[str, pa.Table] = {}  # by what they rest upon, the one last shown at the end
        self.title = self.section = self.policy.name  # type: ignore[misc]  # one panel a policy
        if self.policy.over != "memories":  # a typed text is a memory
            self.query_names = ("as_of", "forward")  # type: ignore[misc]
        values = {name: getattr(self.base, name) for name in self.declared}
        super().__init__(values, {"text": text, "as_of": moment_of(as_of)}, session, corpus, self.base, self.policy)

    @property
    def declared(self) -> Mapping[str, Param]:
        """The policy's own."""
        return {name: p for name, p in self.policy.params().items() if p.kind not in ("object", "callable")}

    def spec(self) -> dict[str, Any]:
        """As `Panel.spec`; a profile holds only policies that have a name for everybody."""
        return {**super().spec(), "profile": self._has_name}

    def _set_corpus(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._sample_rows, self._forecasts = None, {}

    def _configured(self, state: State) -> Annotator:
        return self.base.with_params(**state[self.section])

    def _text(self, state: State) -> str:
        """The text that is judged in place of the corpus, where the policy judges texts."""
        return state[QUERY]["text"] if "text" in self.query_names else ""

    def _answer(self, state: State) -> pa.Table:
        text, policy = self._text(state), self._configured(state)
        judged: Any = {"text": [text]} if text else self._sample() if self.session.is_moving else self.corpus
        is_asked_again = not text and (self.session.is_moving or not self._is_large)
        return policy._transform(judged, self._moment(state), self._pattern_cache if is_asked_again else None)

    def _cache_key(self, state: State) -> Any:
        return (super()._cache_key(state), self.session.is_moving and self._is_large)

    @property
    def _is_large(self) -> bool:
        return self.section in POLICY_NAMES and self.corpus.memories.num_rows > _QUICK

    def _sample(self) -> pa.Table:
        """The sample that is judged while a slider moves: an even one, or all memories of some users for quotas."""
        memories = self.corpus.memories
        if not self._is_large:
            return memories
        if self._sample_rows is None:
            if self.section == "quota":
                counts = pc.value_counts(memories["user_id"])
                users = counts.field("values").filter(pc.less_equal(pc.cumulative_sum(counts.field("counts")), _QUICK))
                self._sample_rows = memories.filter(pc.is_in(memories["user_id"], users))
            if not self._sample_rows or not self._sample_rows.num_rows:
                self._sample_rows = memories.take(np.linspace(0, memories.num_rows - 1, _QUICK).astype(int))
        return self._sample_rows

    def _picture(self, answer: pa.Table) -> Picture:
        state = self.session.state
        if self.section == "classifier":
            kinds = pc.value_counts(pc.fill_null(answer["kind"], "(none)")).to_pylist()
            rows = sorted(((row["values"], row["counts"]) for row in kinds), key=lambda row: (-row[1], row[0]))
            return counts(rows, f"{count_of(answer.num_rows, 'row')} by the kind that they get")
        if self.section not in _OVER_TIME or self._text(state) or self._is_large:
            return reasons(answer)
        return _forecast_of(self._forecast(state), self.session.moment_of(state), state[QUERY]["forward"])

    def _forecast(self, state: State) -> pa.Table:
        """The number of memories each user keeps by day; computed once for all days, and kept for a step back."""
        key, moment = repr((dict(state[self.section]), state[QUERY]["as_of"])), self.session.moment_of(state)
        if key in self._forecasts:
            self._forecasts[key] = self._forecasts.pop(key)
        elif not (self.session.is_moving and self._forecasts):
            days = sorted({*_DAYS, *range(0, _DAYS[-1], _EVERY)})
            steps = Pipeline(
                [self._configured(state)] if self.section == "expiry" else [Expiry(), self._configured(state)]
            )
            self._forecasts[key] = forecast(self.corpus, steps, moment, days)
            if len(self._forecasts) > _KEPT:
                del self._forecasts[next(iter(self._forecasts))]
        return next(reversed(self._forecasts.values()))

    def _code(self, state: State) -> str:
        text = self._text(state)
        judged = Name({"text": [text]}) if text else self._name(self.corpus, "corpus")
        if name := self.session.name_of(self.base, ""):
            policy = changed_code(name, changed_values(self.base, state[self.section]))
        else:
            changes = changed_values(self.policy(), self._configured(state).get_params())
            given = {name: value for name, value in changes.items() if value is not None}
            policy = call_code(self._class_name, **given)
        return call_code(f"{policy}.transform", judged, **self._dated(state))

    @property
    def _class_name(self) -> str:
        """What the code calls the class of the policy."""
        own = POLICIES.get(self.policy.name, "").partition(":")[2] == self.policy.__name__
        return f"mk.{self.policy.__name__}" if own else self.session.name_of(self.policy, self.policy.__name__)

    @property
    def _is_of_memories(self) -> bool:
        """Whether it judges row by row what has a text, so that its table is read as that of memkit's own policies."""
        return self.section in POLICY_NAMES or (
            self.policy.over == "memories" and {"keep", "reason"} <= self.policy.adds.keys()
        )

    def _status(self, answer: pa.Table) -> str:
        if "keep" not in answer.column_names:
            return f"{self._moment(self.session.state).instant:%Y-%m-%d}: {count_of(answer.num_rows, 'row')}"
        kept = pc.sum(answer["keep"]).as_py() or 0
        is_part = self.session.is_moving and self._is_large and not self._text(self.session.state)
        part = " of a part; all of them at rest" if is_part else ""
        status = f"{self._moment(self.session.state).instant:%Y-%m-%d}: {kept:,} of {answer.num_rows:,} kept{part}"
        if "would_remove" in answer.column_names:
            status += f"; {pc.sum(answer['would_remove']).as_py() or 0:,} would be removed"
        return status

    def _body(self, answer: pa.Table) -> str:
        if not answer.num_rows:
            return paragraph("The corpus holds no memories.")
        if not self._is_of_memories:  # of another table, with columns of its own
            return _removed(answer) + shown(answer)._repr_html_()
        if self._text(self.session.state):
            return self._judged(answer)
        note = paragraph((answer.schema.metadata or {}).get(b"note", b"").decode())
        users = self._users(answer) if self.section in _OVER_TIME and "user_id" in answer.column_names else ""
        return note + users + self._refused(answer)

    def _judged(self, answer: pa.Table) -> str:
        """The typed text, with the words that gave the reason marked."""
        row = answer.to_pylist()[0]
        word = "kept" if row["keep"] else row["reason"]
        details = ", ".join(_cell_texts(row, ("kind", "importance", "expires_at")))
        text = _spanned(mask(row["text"] or ""), row.get("matched_span"))
        head = f"<p><b>{html.escape(word)}</b> {html.escape(details)}</p>"
        return f'<div class="mk">{head}<p style="white-space:pre-wrap">{text}</p></div>'

    def _refused(self, answer: pa.Table) -> str:
        """Some refused memories of each reason, the words that gave it marked; kept ones where none is refused."""
        refused = answer.filter(pc.invert(answer["keep"]))
        shown_rows = refused if refused.num_rows else answer
        rows = []
        counts: Counter[str] = Counter()
        for row in shown_rows.slice(0, _MOST_CHECKED).select(present(shown_rows, _SHOWN)).to_pylist():
            reason = row.get("reason") or "kept"
            counts[reason] += 1
            if counts[reason] <= _EACH:
                user = html.escape(mask(row.get("user_id") or ""))
                details = " · ".join(_cell_texts(row, _OWN))
                text = _spanned(cut(mask(row["text"] or ""), _LONGEST), row.get("matched_span"))
                rows.append(
                    f'<tr><td class="w">{html.escape(reason)}</td><td class="w">{user}</td>'
                    f'<td class="x">{text}<br><small>{html.escape(details)}</small></td></tr>'
                )
        heads = "".join(f'<th scope="col">{name}</th>' for name in ("reason", "user", "memory"))
        scope = f"the first {_EACH} of each reason" if refused.num_rows else f"the first {_EACH}"
        head = f"<p><b>{'refused' if refused.num_rows else 'all are kept'}</b>, {scope}</p>"
        return (
            f'<div class="mk">{head}<table><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        )

    def _users(self, answer: pa.Table) -> str:
        """How many memories each user keeps on the day, and the reasons of the others."""
        reasons = pc.if_else(answer["keep"], "kept", pc.fill_null(answer["reason"], "refused"))
        counted = pa.table({"user": pc.fill_null(answer["user_id"], "(nobody)"), "reason": reasons})
        counted = counted.group_by(["user", "reason"]).aggregate([([], "count_all")]).to_pylist()
        users: dict[str, Counter[str]] = {}
        for row in counted:
            users.setdefault(row["user"], Counter())[row["reason"]] = row["count_all"]
        names = ["kept", *sorted({row["reason"] for row in counted} - {"kept"})]
        order = sorted(users, key=lambda user: (-users[user].total(), user))[:_EACH]
        rows = [(*(f"{users[user][name]:,}" for name in names), user) for user in order]
        return rows_html((*names, f"user, on {self._moment(self.session.state).instant:%Y-%m-%d}"), rows)


def _removed(answer: pa.Table) -> str:
    """The entries that are not valid, each with what becomes of it; nothing for a policy that removes none."""
    if "would_remove" not in answer.column_names:
        return ""
    names = present(answer, ("file", "title", "index_path", "line", "reason", "pinned", "would_remove"))
    faulty = answer.filter(pc.invert(answer["keep"])).select(names)
    gone = faulty.filter(faulty["would_remove"])
    listed = pa.concat_tables([gone, faulty.filter(pc.invert(faulty["would_remove"]))]).slice(0, _MOST_REMOVED)
    rows = []
    for row in listed.to_pylist():
        place = f"{row.get('index_path') or ''}:{row.get('line') or ''}".strip(":")
        fate = "would be removed" if row["would_remove"] else "stays: pinned" if row.get("pinned") else "stays"
        rows.append((fate, row["reason"], place, row.get("file") or row.get("title") or ""))
    more = f", the first {listed.num_rows:,} shown" if listed.num_rows < faulty.num_rows else ""
    words = f"{gone.num_rows:,} of {faulty.num_rows:,} missing or invalid entries would be removed{more}."
    return paragraph(words) + (rows_html(("what becomes of it", "reason", "where", "entry"), rows) if rows else "")


def _cell_texts(row: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """What a row has of these columns, in words."""
    return [f"{name.replace('_', ' ')} {_cell_text(row[name])}" for name in names if row.get(name) is not None]


def _cell_text(value: Any) -> str:
    return f"{value:%Y-%m-%d}" if hasattr(value, "year") else f"{value:.3g}" if isinstance(value, float) else str(value)


def _spanned(text: str, span: str | None) -> str:
    """The text, escaped, the first place of a span marked."""
    start = text.casefold().find(span.casefold()) if span else -1
    if span is None or start < 0 or len(text.casefold()) != len(text):
        return html.escape(text)
    ends = start, start + len(span)
    inside = html.escape(text[ends[0] : ends[1]])
    return f"{html.escape(text[: ends[0]])}<mark>{inside}</mark>{html.escape(text[ends[1] :])}"


def _forecast_of(table: pa.Table, moment: Moment, forward: int) -> Picture:
    """The stored memories of each user by day, with a line at the day shown; nobody's only where there is no user."""
    kept: dict[str, dict[int, int]] = {}
    for row in table.to_pylist():
        kept.setdefault(row["user_id"] or "(nobody)", {})[row["day"]] = row["kept"] + row["faded"]
    if len(kept) > 1:
        kept.pop("(nobody)", None)
    users = sorted(kept, key=lambda user: (-max(kept[user].values()), user))[: len(COLOURS)]
    whose = "one user" if len(kept) == 1 else f"each of {len(kept):,} users"
    marks = list[Mark]()
    for user, colour, style in zip(users, COLOURS, ("-", "--", "-.", ":") * 2, strict=False):
        days, kept_then = list(kept[user]), list(kept[user].values())
        # A step: each number holds until the next day that has one.
        marks.append(Line(np.repeat(days, 2)[1:], np.repeat(kept_then, 2)[:-1], colour, user[:_NAME], style))
    top = 1.05 * (max((max(kept_by_day.values()) for kept_by_day in kept.values()), default=1) or 1)
    marks.append(Line([forward] * 2, [0, top], "#888888", "the day shown", width=1.2))
    last = max((max(kept_by_day) for kept_by_day in kept.values()), default=1) or 1
    across = Axis(-0.02 * last, 1.03 * max(last, forward), f"days from {moment.instant:%Y-%m-%d}")
    ends = [(user, list(kept[user].items())) for user in users]
    rows = [
        (user, f"{kept_by_day[0][1]:,} at first, {kept_by_day[-1][1]:,} after {kept_by_day[-1][0]} days")
        for user, kept_by_day in ends
    ]
    return Picture(f"stored memories of {whose}", marks, across, Axis(0, top), rows)


_MORE, _OUT, _KNOWN = 100, 6, 4
"""Characters of a larger budget, lines shown of those left out by each rule, and queries that are cached."""


class ContextPanel(Panel):
    """The blocks of a prompt for one message.

    Parameters
    ----------
    corpus : Corpus
    builder : ContextBuilder, optional
        With the retriever that is wanted; it is fitted once, to this corpus.
    user_id : str, optional
    message : str
    as_of : str, date or datetime, optional
    session : Session, optional
        That of another panel.

    Examples
    --------
    >>> import memkit as mk
    >>> corpus = mk.from_table({"text": ["Любит чай"], "kind": ["profile"], "importance": ["high"]})
    >>> panel = ContextPanel(corpus, mk.ContextBuilder(mk.Retriever(encoder=None)), message="чай", as_of="2026-03-01")
    >>> panel.set(profile_chars=5)
    >>> panel.result["reason"].to_pylist()[0]
    'limit'
    """

    title: ClassVar[str] = "context"
    section: ClassVar[str] = "context"
    query_names: ClassVar[tuple[str, ...]] = ("query", "user_id", "as_of")
    profile_section: ClassVar[str] = "context"
    follows: ClassVar[bool] = True

    def __init__(
        self,
        corpus: Corpus,
        builder: ContextBuilder | None = None,
        *,
        user_id: str | None = None,
        message: str = "",
        as_of: AsOf = None,
        session: Session | None = None,
    ) -> None:
        self.corpus, self.builder = corpus, ContextBuilder() if builder is None else builder
        if not isinstance(self.builder, ContextBuilder):
            raise ParameterError(f"panels.context: expected a ContextBuilder or None. Got {builder!r:.80}.")
        self.builder.fit(corpus)
        self._gathered: dict[str, Gathered] = {}
        values = {name: getattr(self.builder, name) for name in self.declared}
        query_values = {"query": message, "user_id": user_id, "as_of": moment_of(as_of)}
        super().__init__(values, query_values, session, corpus, self.builder, self.builder.retriever)

    @property
    def declared(self) -> Mapping[str, Param]:
        """The budgets, and the way they are filled."""
        return {name: p for name, p in ContextBuilder.params().items() if p.kind != "object"}

    def _set_corpus(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.builder.fit(corpus)
        self._gathered.clear()

    def _gather(self, state: State) -> Gathered:
        """The candidates for the prompt; budgets do not change them, so they are gathered once a query."""
        user_id, message, moment = state[QUERY]["user_id"], state[QUERY]["query"], self._moment(state)
        if (key := repr((user_id, message, moment))) not in self._gathered:
            if len(self._gathered) >= _KNOWN:
                self._gathered.clear()
            self._gathered[key] = self.builder.gather(self.corpus, user_id, message, moment)
        return self._gathered[key]

    def _answer(self, state: State, **changes: int) -> Context:
        return ContextBuilder(**{**state[self.section], **changes}).within(self._gather(state))

    def _picture(self, answer: Context) -> Picture:
        return budgets(answer)

    def _code(self, state: State) -> str:
        query, values, search = state[QUERY], state[self.section], self.builder.retriever
        if name := self.session.name_of(self.builder, ""):
            builder = changed_code(name, changed_values(self.builder, values))
        else:
            names = {} if search is None else {"retriever": self._name(search, "search")}
            builder = call_code("mk.ContextBuilder", **names, **changed_values(ContextBuilder(), values))
        corpus = self._name(self.corpus, "corpus")
        return f"{call_code(f'{builder}.build', corpus, query['user_id'], query['query'], **self._dated(state))}.table"

    def _status(self, answer: Context) -> str:
        cut = Counter(line.reason for line in answer.lines if line.reason)
        return f"{count_of(len(answer.text), 'character')}; left out: " + (
            ", ".join(f"{n} {IN_WORDS.get(reason, reason)}" for reason, n in cut.most_common()) or "nothing"
        )

    def next_in(self) -> dict[str, list[str]]:
        """The lines that each block would gain with 100 characters more, by its limit."""
        state, now = self.session.state, {line.line for line in self.answer.lines if line.reason is None}
        entering = {}
        for name in ("profile_chars", "working_chars", "relevant_chars"):
            larger = self._answer(state, **{name: state[self.section][name] + _MORE})
            entering[name] = [line.line for line in larger.lines if line.reason is None and line.line not in now]
        return entering

    def _read(self, answer: Context) -> Iterator[str]:
        yield answer.text
        yield from (line.line for line in answer.lines)

    def _body(self, answer: Context) -> str:
        prompt = html.escape(mask(answer.text)) or html.escape(answer.note.replace(" for query '0'", "") or "(empty)")
        blocks = "".join(self._block(answer, block, limit) for block, limit in answer.limits.items())
        head = "<h4>the prompt, exactly</h4>"
        text = f'<pre class="mkprompt" tabindex="0" role="region" aria-label="the prompt">{prompt}</pre>'
        return f'<div class="mk">{head}{text}</div>{self._larger_budgets(answer)}{blocks}'

    def _larger_budgets(self, answer: Context) -> str:
        """The lines that a larger budget adds; while a slider moves, the last such table."""

        def made() -> str:
            rows = [
                (f"{name.replace('_', ' ')} + {_MORE}", "; ".join(lines) or "nothing more")
                for name, lines in self.next_in().items()
            ]
            return rows_html((f"with {_MORE} characters more", "comes in"), rows)

        return self._settled("more", answer, made)

    def _block(self, answer: Context, block: str, limit: int) -> str:
        """The lines of a block, the budget, and the lines left out with the rule that left them out."""
        lines = [line for line in answer.lines if line.block == block]
        lines_kept = [line for line in lines if line.reason is None]
        used, rows, sum_ = len("\n".join(line.line for line in lines_kept)), [], -1
        for line in lines_kept:
            sum_ += len(line.line) + 1
            rows.append(f'<tr><td class="n">{sum_:,}</td>{_cells(line.line, "")}</tr>')
        cut = (
            f"limit: {used:,} of {count_of(limit, 'character')} are used"
            if used
            else f"empty: all {count_of(limit, 'character')} are free"
        )
        rows.append(f'<tr class="mkcut"><td class="n">{limit:,}</td><td colspan="2">{cut}</td></tr>')
        counts: Counter[str] = Counter()
        for line in lines:
            if line.reason is not None:
                counts[line.reason] += 1
                if counts[line.reason] <= _OUT:
                    cells = _cells(line.line, IN_WORDS.get(line.reason, line.reason))
                    rows.append(f'<tr class="no"><td class="n"></td>{cells}</tr>')
        omitted = [f"{n - _OUT:,} more {IN_WORDS.get(reason, reason)}" for reason, n in counts.items() if n > _OUT]
        foot = f"<p><small>{', '.join(omitted)}</small></p>" if omitted else ""
        bar = graphic(Cell("", bar=min(1.0, used / limit) if limit else 1.0))
        heads = "".join(
            f'<th scope="col"{kind}>{name}</th>'
            for name, kind in (("characters so far", ' class="n"'), ("line", ""), ("why left out", ' class="w"'))
        )
        head = f"<h4>{html.escape(block)}: {len(lines_kept):,} of {count_of(len(lines), 'memory')}</h4>{bar}"
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        return f'<div class="mk">{head}{table}{foot}</div>'


def _cells(line: str, reason: str) -> str:
    text = html.escape(mask(line.removeprefix("- ")))
    return f'<td class="x">{text}</td><td class="w">{html.escape(reason)}</td>'
