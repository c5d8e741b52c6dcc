from __future__ import annotations

import itertools
import random
import tracemalloc
from bisect import bisect_right
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.context import BLOCKS, PROFILE, RELEVANT, WORKING, ContextBuilder, _greedy, _knapsack, _preview
from memkit.errors import ParameterError

AS_OF = "2026-03-01"


def corpus_of(*rows: dict[str, object]) -> mk.Corpus:
    names = ("text", "kind", "user_id", "importance", "expires_at")
    table = {name: [row.get(name) for row in rows] for name in names}
    types = [pa.string()] * 5
    return mk.from_table(pa.table({n: pa.array(v, t) for (n, v), t in zip(table.items(), types, strict=True)}))


def fact(text: str, kind: str = "profile", importance: str | None = "high", **more: object) -> dict[str, object]:
    return {"text": text, "kind": kind, "user_id": "anna", "importance": importance, **more}


def builder(corpus: mk.Corpus, **values: object) -> ContextBuilder:
    return ContextBuilder(**{**values, "retriever": mk.Retriever(encoder=None, fold="none").fit(corpus)})


def reasons(table: pa.Table, block: str) -> dict[str, str | None]:
    return {row["memory_id"]: row["reason"] for row in table.to_pylist() if row["block"] == block}


@pytest.mark.quick
def test_the_prompt_is_the_documents_blocks_joined_by_a_blank_line() -> None:
    corpus = corpus_of(fact("Пьёт чай"), fact("Чинит пул", "working", "normal"), fact("О чае", "archive", "low"))
    built = builder(corpus, skip_shown=True).build(corpus, "anna", "чай", AS_OF)
    assert built.text == (
        "[PROFILE MEMORY]\n- Пьёт чай\n\n[WORKING MEMORY]\n- Чинит пул\n\n[RELEVANT MEMORY FOR THIS TURN]\n- О чае"
    )
    assert built.table.column_names == ["memory_id", "block", "rank", "chars", "keep", "reason"]
    assert built.table.schema.metadata[b"as_of"] == b"2026-03-01T00:00:00+00:00"
    assert pa.table(built).equals(built.table)  # as any result of one table, for every data frame library
    assert built.to_pandas()["memory_id"].tolist() == built.table["memory_id"].to_pylist()


@pytest.mark.quick
def test_only_high_profile_facts_and_unexpired_ones_enter() -> None:
    corpus = corpus_of(
        fact("high"),
        fact("normal", importance="normal"),
        fact("unknown", importance=None),
        fact("gone", expires_at="2026-02-28"),
        fact("last day", "working", expires_at="2026-03-01"),
        fact("over", "working", expires_at="2026-02-28"),
    )
    table = builder(corpus).build(corpus, "anna", "", AS_OF).table
    assert reasons(table, PROFILE) == {"0": None, "1": "not_high", "2": "not_high", "3": "expired"}
    assert reasons(table, WORKING) == {"4": None, "5": "expired"}


@pytest.mark.quick
def test_another_user_is_never_seen() -> None:
    with pytest.raises(ParameterError, match="'user_id' must be a str or None"):
        mk.ContextBuilder().build(corpus_of(fact("чай")), 5, "чай")  # type: ignore[arg-type]  # what is refused
    corpus = corpus_of(fact("чай"), {**fact("чай и секрет"), "user_id": "boris"})
    built = builder(corpus).build(corpus, "anna", "чай секрет", AS_OF)
    assert "секрет" not in built.text
    assert set(built.table["memory_id"].to_pylist()) == {"0"}


def test_a_user_named_like_sql_is_only_a_name() -> None:
    name = "x' or '1'='1"
    corpus = corpus_of({**fact("мой чай"), "user_id": name}, fact("чужой чай"))
    assert set(builder(corpus).build(corpus, name, "чай", AS_OF).table["memory_id"].to_pylist()) == {"0"}


def test_nothing_known_gives_an_empty_prompt() -> None:
    corpus = corpus_of(fact("чай"))
    built = builder(corpus).build(corpus, "nobody", "чай", AS_OF)
    assert (built.text, built.table.num_rows) == ("", 0)


def test_the_limit_counts_lines_and_line_ends_but_no_heading() -> None:
    corpus = corpus_of(*(fact(letter * 8) for letter in "abc"))  # lines of 10 characters
    for limit, kept in ((9, 0), (10, 1), (20, 1), (21, 2), (31, 2), (32, 3)):
        table = builder(corpus, profile_chars=limit).build(corpus, "anna", "", AS_OF).table
        assert list(reasons(table, PROFILE).values()).count(None) == kept, limit


def test_relevant_shows_previews_of_the_top_k() -> None:
    corpus = corpus_of(*(fact(f"чай {n} " + "x" * 300, "archive", "low") for n in range(4)))
    table = builder(corpus, k=2, preview_chars=20).build(corpus, "anna", "чай", AS_OF).table
    assert list(reasons(table, RELEVANT).values()) == [None, None, "below_k", "below_k"]
    assert table["chars"].to_pylist() == [22] * 4  # "- " and 20


def test_what_a_block_above_shows_is_not_repeated_but_by_the_documents_preset() -> None:
    corpus = corpus_of(fact("зелёный чай"), fact("чёрный чай", "archive", "low"), fact(" зелёный\nчай ", "archive"))
    repeated = (
        builder(corpus, **{**mk.presets.memory_v2_context, "retriever": None}).build(corpus, "anna", "чай", AS_OF).table
    )
    assert set(reasons(repeated, RELEVANT).values()) == {None}
    once = builder(corpus).build(corpus, "anna", "чай", AS_OF).table
    assert reasons(once, RELEVANT) == {"0": "shown_above", "1": None, "2": "shown_above"}


def test_the_documents_preset_names_every_parameter() -> None:
    assert mk.presets.memory_v2_context.keys() == ContextBuilder.params().keys()
    ContextBuilder(**mk.presets.memory_v2_context).check_params()


def test_without_a_user_all_users_and_kinds_are_taken() -> None:
    corpus = corpus_of(
        fact("зелёный чай"),
        {**fact("чёрный чай"), "user_id": "boris"},
        {**fact("заметка о чае", "note", None), "user_id": None},
        {**fact("чай: не факт", "line", None), "user_id": None},
    )
    table = builder(corpus, skip_shown=False).build(corpus, None, "чай", AS_OF).table
    assert reasons(table, PROFILE) == {"0": None, "1": None}
    assert reasons(table, RELEVANT) == {"0": None, "1": None, "2": None}


def test_a_folder_without_users_has_a_context(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("# Пул\n\nПул соединений: десять мест.\n", encoding="utf-8")
    corpus = mk.read(tmp_path)
    context = ContextBuilder(mk.Retriever(encoder=None))
    assert context.build(corpus, None, "пул", AS_OF).text == (
        "[RELEVANT MEMORY FOR THIS TURN]\n- Пул: Пул соединений: десять мест."
    )
    assert "User 'anna' has no memory. No memory has a user." in context.build(corpus, "anna", "пул", AS_OF).note


def test_an_empty_result_says_why() -> None:
    corpus = corpus_of(fact("чай", importance="normal"), fact("чай", "working", expires_at="2026-02-01"))
    context = builder(corpus)
    unknown = context.build(corpus, "ann", "чай", AS_OF)
    assert unknown.note == (
        "User 'ann' has no memory. Users: anna. Did you mean 'anna'? Give no user to use all memories."
    )
    nothing = context.build(corpus, "anna", "кофе", AS_OF)
    assert nothing.note.startswith(
        "Nothing is shown. Left out: 1 not of high importance in PROFILE MEMORY; 1 expired in WORKING MEMORY. No hit"
    )
    assert "ann&#x27;" in unknown._repr_html_()
    assert context.build(corpus, "anna", "чай", AS_OF).note == ""


def test_parameters_are_checked() -> None:
    corpus = corpus_of(fact("чай"))
    with pytest.raises(ParameterError, match="'profile_chars' must be an int"):
        builder(corpus, profile_chars=-1).build(corpus, "anna", "чай", AS_OF)


def test_at_the_prompt_a_context_is_its_blocks_without_secrets_and_as_text_the_prompt() -> None:
    corpus = corpus_of(fact("Пароль: sova-2026-dom"))
    built = builder(corpus).build(corpus, "anna", "", AS_OF)
    assert "sova" not in repr(built)
    assert "PROFILE MEMORY" in repr(built)
    assert str(built) == built.text
    assert "sova-2026-dom" in built.text


def test_html_of_a_memory_is_inert() -> None:
    corpus = corpus_of(fact("<script>alert(1)</script>"))
    assert "<script>" not in builder(corpus).build(corpus, "anna", "", AS_OF)._repr_html_()


sizes_and_values = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), max_size=9)


def filled(lines: int, limit: int) -> tuple[list[int], list[float], list[int], int]:
    """Sizes and values of lines, those that are chosen of them, and the most memory that choosing took, in bytes."""
    chance = random.Random(lines)
    sizes = [chance.randint(20, 200) for _ in range(lines)]
    values = [chance.random() for _ in range(lines)]
    tracemalloc.start()
    try:
        return sizes, values, _knapsack(sizes, values, limit), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("lines", "limit"), [(20_000, 12_000), (20_000, 100_000), (3, 10**12), (400, 40_000)])
def test_the_best_set_is_chosen_within_64_megabytes(lines: int, limit: int) -> None:
    """Or one that loses at most a line's worth: the lines worth most a character are, but for that, the best."""
    sizes, values, chosen, memory = filled(lines, limit)
    assert memory < 64 * 2**20
    assert chosen == sorted(set(chosen))
    assert sum(sizes[i] for i in chosen) <= limit
    order = sorted(range(lines), key=lambda i: values[i] / sizes[i], reverse=True)
    dense = order[: bisect_right(list(itertools.accumulate(sizes[i] for i in order)), limit)]
    assert sum(values[i] for i in chosen) >= sum(values[i] for i in dense)


@settings(max_examples=50)
@given(sizes_and_values, st.integers(0, 80))
def test_the_knapsack_is_the_best_of_all_subsets(lines: list[tuple[int, int]], limit: int) -> None:
    sizes, values = [size for size, _ in lines], [float(value) for _, value in lines]
    chosen = _knapsack(sizes, values, limit)
    subsets = itertools.chain.from_iterable(itertools.combinations(range(len(lines)), n) for n in range(len(lines) + 1))
    best = max(sum(values[i] for i in subset) for subset in subsets if sum(sizes[i] for i in subset) <= limit)
    assert sum(sizes[i] for i in chosen) <= limit
    assert sum(values[i] for i in chosen) == best


@settings(max_examples=50)
@given(sizes_and_values, st.integers(0, 80))
def test_greedy_is_the_longest_prefix_that_fits(lines: list[tuple[int, int]], limit: int) -> None:
    sizes = [size for size, _ in lines]
    chosen = _greedy(sizes, [1.0] * len(sizes), limit)
    assert chosen == list(range(len(chosen)))
    assert sum(sizes[: len(chosen)]) <= limit
    assert len(chosen) == len(sizes) or sum(sizes[: len(chosen) + 1]) > limit


def test_the_two_ways_to_fill_can_be_compared() -> None:
    corpus = corpus_of(fact("a" * 18), fact("b" * 8), fact("c" * 8))
    table = builder(corpus, profile_chars=21).compare(corpus, "anna", "", AS_OF)
    kept = {row["fill"]: (row["kept"], row["chars"]) for row in table.to_pylist() if row["block"] == PROFILE}
    assert kept == {"greedy": (1, 20), "knapsack": (2, 21)}
    assert {row["block"] for row in table.to_pylist()} == set(BLOCKS)


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(["пул", "вырос.", "- чай", "\n", "\n## Да", "ab"]), max_size=20),
    st.integers(16, 40),
    st.sampled_from(["", "Сок"]),
)
def test_a_preview_is_one_line_within_its_limit_of_whole_words(words: list[str], limit: int, title: str) -> None:
    preview = _preview(title, " ".join(words), "ab", limit)
    assert len(preview) <= limit
    assert "\n" not in preview
    assert {word.strip(";:….#-") for word in preview.split()} <= {"пул", "вырос", "чай", "Да", "ab", "Сок", ""}


def test_the_line_of_a_memory_is_the_sentence_that_answers_below_its_title(tmp_path: Path) -> None:
    body = (
        "Чай зелёный, и чашки стоят на полке у окна. " * 8
        + "Пул соединений вырос до пятнадцати. "
        + "Кофе чёрный. " * 8
    )
    (tmp_path / "MEMORY.md").write_text(f"# Кухня и сервер\n\n- {body}\n- сок\n", encoding="utf-8")
    text = ContextBuilder(mk.Retriever(encoder=None)).build(mk.read(tmp_path), None, "сколько соединений", AS_OF).text
    (line,) = text.splitlines()[1:]
    assert line.startswith("- Кухня и сервер: ")
    assert "Пул соединений вырос до пятнадцати." in line
    assert "Чай" not in line


def test_the_retriever_is_the_one_parameter_by_position() -> None:
    search = mk.Retriever(encoder=None)
    assert ContextBuilder(search).retriever is search
    with pytest.raises(TypeError):
        ContextBuilder(search, 5)  # type: ignore[misc]  # wrong on purpose


def facts_folder(root: Path, *facts: str) -> Path:
    """A folder with one user, whose profile has a heading, a remark and these facts."""
    folder = root / "users" / "anna"
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"- [id:pf_00{i}] [t:profile] [imp:normal] {text}\n" for i, text in enumerate(facts, 1))
    (folder / "profile.md").write_text(f"# Чай и прочее\n\nчай: не факт\n{lines}", encoding="utf-8")
    return root


def test_a_deleted_fact_is_in_no_later_prompt(tmp_path: Path) -> None:
    corpus = mk.read(facts_folder(tmp_path, "любит зелёный чай", "носит очки"))
    search = mk.Retriever(encoder=None).fit(corpus)
    context = ContextBuilder(search)
    assert "зелёный чай" in context.build(corpus, "anna", "чай", AS_OF).text
    facts_folder(tmp_path, "носит очки")
    later = corpus.refresh()
    for builder in (context, ContextBuilder(search)):
        built = builder.build(later, "anna", "чай очки", AS_OF)
        assert "зелёный чай" not in built.text
        assert "очки" in built.text
        assert builder.retriever is search
        assert builder.retriever_.corpus_.memories is later.memories


def test_a_retriever_of_another_corpus_shows_nothing_of_it() -> None:
    corpus, other = corpus_of(fact("зелёный чай", "archive")), corpus_of(fact("чёрный чай и секрет", "archive"))
    context = ContextBuilder(mk.Retriever(encoder=None).fit(other))
    assert "секрет" not in context.build(corpus, "anna", "чай секрет", AS_OF).text
    assert "секрет" in context.build(other, "anna", "чай секрет", AS_OF).text


def test_a_corpus_whose_table_was_replaced_is_another_one() -> None:
    corpus = corpus_of(fact("зелёный чай", "archive"), fact("чёрный чай", "archive"))
    context = ContextBuilder(mk.Retriever(encoder=None).fit(corpus))
    corpus.tables["memories"] = corpus.memories.slice(0, 1)
    assert "чёрный" not in context.build(corpus, "anna", "чай", AS_OF).text


def test_the_retriever_is_fitted_once_for_all_prompts_of_a_corpus() -> None:
    corpus = corpus_of(fact("зелёный чай", "archive"))
    retriever = mk.Retriever(encoder=None)
    context = ContextBuilder(retriever)
    context.build(corpus, "anna", "чай", AS_OF)
    first = context.retriever_
    context.build(corpus, "anna", "ещё чай", AS_OF)
    assert context.retriever_ is first
    assert "corpus_" not in vars(retriever)  # a parameter stays as it was given
    context.set_params(retriever=mk.Retriever(encoder=None, pool=7))
    context.build(corpus, "anna", "чай", AS_OF)
    assert context.retriever_.pool == 7


def test_a_corpus_that_was_refreshed_without_change_is_not_fitted_again(tmp_path: Path) -> None:
    corpus = mk.read(facts_folder(tmp_path, "любит зелёный чай"))
    search = mk.Retriever(encoder=None).fit(corpus)
    assert search.fitted(corpus.refresh()) is search


def test_lines_that_are_no_facts_reach_no_prompt(tmp_path: Path) -> None:
    corpus = mk.read(facts_folder(tmp_path, "любит зелёный чай"))
    built = builder(corpus).build(corpus, "anna", "чай не факт", AS_OF)
    assert built.text == "[RELEVANT MEMORY FOR THIS TURN]\n- любит зелёный чай"
    assert corpus.memories.num_rows == 3


def test_what_is_no_retriever_is_refused_by_name() -> None:
    corpus = corpus_of(fact("чай"))
    with pytest.raises(ParameterError, match=r"a mapping of its parameters or None\. Got 'bm25'"):
        ContextBuilder("bm25").build(corpus, "anna", "чай", AS_OF)


def test_without_a_retriever_the_default_one_searches_and_the_document_has_its_own() -> None:
    corpus = corpus_of(fact("чай с мёдом", "archive", "low"), fact("кофе", "archive", "low"))
    hashed = {"encoder": "hash"}
    of_parameters = ContextBuilder(hashed).build(corpus, "anna", "чай", AS_OF)
    assert of_parameters.table.equals(ContextBuilder(mk.Retriever(**hashed)).build(corpus, "anna", "чай", AS_OF).table)
    assert mk.presets.memory_v2_context["retriever"] is mk.presets.memory_v2
    with pytest.raises(ParameterError, match="a mapping of its parameters"):
        ContextBuilder("memory_v2").build(corpus, "anna", "чай", AS_OF)


def test_the_prompt_of_a_host_is_exactly_what_it_loads() -> None:
    root = mk.sample_data() / "layouts" / "claude"
    corpus = mk.read(root)
    built = mk.ContextBuilder().build(corpus, None, "выпуск", AS_OF)
    path = ".claude/memory/MEMORY.md"
    text = (root / path).read_text("utf-8")
    assert built.text == f"[{path}]\n" + "".join(text.splitlines(keepends=True)[:200])
    rows = built.table.to_pylist()
    assert {
        row["memory_id"].partition("#")[0].rpartition("/")[2]: row["reason"] for row in rows if not row["keep"]
    } == {
        "MEMORY.md": "below_cut",
        "feedback_build.md": "on_demand",
        "feedback_tests.md": "on_demand",
        "project_old_import.md": "not_indexed",
        "project_release.md": "link_below_cut",
        "project_search.md": "link_below_cut",
        "reference_grafana.md": "link_below_cut",
        "user_anna.md": "on_demand",
    }
    assert built.note == f"{path}: line 201 and below are not loaded, 12 lines."
    search = mk.Retriever(encoder=None)
    assert mk.ContextBuilder(search, host="none").build(corpus, None, "каталог", AS_OF).text.startswith("[RELEVANT")
    assert mk.ContextBuilder(search).build(mk.from_table({"text": ["чай"]}), None, "чай", AS_OF).text.startswith("[REL")


def test_front_matter_and_comments_of_a_memory_md_are_not_loaded(tmp_path: Path) -> None:
    files = {
        ".claude/memory/MEMORY.md": "---\na: b\n---\n\n<!-- x -->\n# A\n- [b](b.md)\n",
        ".claude/memory/b.md": "text\n",
    }
    built = mk.ContextBuilder().build(mk.read(mk.testing.write_files(tmp_path, files)), None, "x", AS_OF)
    assert built.text == "[.claude/memory/MEMORY.md]\n\n# A\n- [b](b.md)\n"


def test_the_prompt_of_hermes_has_its_entries_or_the_head_and_tail_of_too_many(tmp_path: Path) -> None:
    few = ["Отвечать коротко", "Сервер: arm64;\nдеплой по вторникам", "Отвечать коротко", "Чай без сахара"]
    many = [f"запись {n}: " + "слово " * 40 for n in range(30)]
    for name, entries in {"few": few, "many": many}.items():
        for newline in ("\n", "\r\n"):
            root = mk.testing.write_files(tmp_path / f"{name}{len(newline)}", {"memories/USER.md": "Один"})
            (root / "memories" / "MEMORY.md").write_bytes("\n§\n".join(entries).replace("\n", newline).encode())
            (root / "memories" / "MEMORY.md.lock").write_bytes(b"")
            held = "\n§\n".join(dict.fromkeys(entry.strip() for entry in entries))
            if len(held) > 4400:
                held = f"{held[: int(4400 * 0.7)]}\n…\n{held[-int(4400 * 0.2) :]}"
            built = mk.ContextBuilder().build(mk.read(root), None, "x", AS_OF)
            assert built.text == f"[memories/MEMORY.md]\n{held}\n\n[memories/USER.md]\nОдин", (name, newline)
            block = [line for line in built.lines if line.block == "memories/MEMORY.md"]
            length = sum(len(line.line) for line in block if line.reason is None)
            whole = "\n".join(line.line for line in block if line.reason != "duplicate_entry")
            assert built.limits == {"memories/MEMORY.md": 2200, "memories/USER.md": 1375}
            if name == "few":
                assert (whole, [line.reason for line in block].count("duplicate_entry")) == (held, 1)
                assert built.note == ""
            else:
                assert "the host adds nothing" in built.note
                assert 0 <= 4400 * 0.9 - length <= 40, "the line ends between entries are no part of any"
    corpus = mk.read(tmp_path / "few1")
    small = mk.ContextBuilder(memory_chars=20).build(corpus, None, "x", AS_OF)
    assert "of 20 characters: the host adds nothing" in small.note
    blocks = mk.ContextBuilder(mk.Retriever(encoder=None), host="none").build(corpus, None, "чай", AS_OF)
    assert blocks.text.startswith("[RELEVANT")
