"""The panel of a prompt: the budgets of its blocks, its text, the lines left out, what a larger budget adds."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

from memkit.base.params import AsOf, Param
from memkit.context import Context, ContextBuilder, Gathered
from memkit.display.draw import graphic
from memkit.display.sheet import Cell
from memkit.display.views import IN_WORDS
from memkit.errors import count_of
from memkit.panels.page import rows_html
from memkit.panels.panel import QUERY, Panel, Session, State, call_code, changed_values, moment_of
from memkit.plot.marks import Picture
from memkit.plot.memories import budgets
from memkit.tables.corpus import Corpus
from memkit.text.secrets import mask

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
        self.corpus = corpus
        self.builder = (ContextBuilder() if builder is None else builder).fit(corpus)
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

    def _build(self, state: State, **changes: int) -> Context:
        return ContextBuilder(**{**state[self.section], **changes}).within(self._gather(state))

    def _gather(self, state: State) -> Gathered:
        """The candidates for the prompt; budgets do not change them, so they are gathered once a query."""
        user_id, message, moment = state[QUERY]["user_id"], state[QUERY]["query"], self._moment(state)
        if (key := repr((user_id, message, moment))) not in self._gathered:
            if len(self._gathered) >= _KNOWN:
                self._gathered.clear()
            self._gathered[key] = self.builder.gather(self.corpus, user_id, message, moment)
        return self._gathered[key]

    def _answer(self, state: State) -> Context:
        return self._build(state)

    def _picture(self, answer: Context) -> Picture:
        return budgets(answer)

    def _code(self, state: State) -> str:
        query, values, search = state[QUERY], state[self.section], self.builder.retriever
        if name := self.session.name_of(self.builder, ""):
            changes = changed_values(self.builder, values)
            builder = call_code(f"{name}.with_params", **changes) if changes else name
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
            larger = self._build(state, **{name: state[self.section][name] + _MORE})
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
