"""Dedup: what merges, what is flagged, survivors, chains, thresholds at no cost, and honest figures."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import NotFittedError, ParameterError, StaleIndexError
from memkit.policy.dedup.deduplicator import Deduplicator, precision_recall, threshold_for
from memkit.presets import memory_v2_policy
from memkit.schemas import TIMESTAMP


def memories(*texts: str, **columns: object) -> pa.Table:
    ids = [chr(ord("a") + i) for i in range(len(texts))]
    return pa.table({"memory_id": ids, "text": list(texts)} | columns)


def at_angles(*degrees: float) -> np.ndarray:
    """Unit vectors in the plane: the cosine of two is that of their difference."""
    radians = np.deg2rad(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def first_vectors(table: pa.Table, vectors: np.ndarray) -> np.ndarray:
    """The vectors as equal texts of one user share them; rows are in the order of their ids."""
    owned = [(row.get("user_id"), row["text"].casefold()) for row in table.to_pylist()]
    return vectors[[owned.index(each) for each in owned]]


def fitted(table: pa.Table, vectors: object = None, **parameters: object) -> Deduplicator:
    return Deduplicator(**({"encoder": None} | parameters)).fit(table, vectors=vectors)


def outcome(dedup: Deduplicator, table: pa.Table) -> list[tuple[object, ...]]:
    judged = dedup.transform(table, as_of="2026-03-01")
    return [tuple(row[name] for name in ("reason", "duplicate_of", "cluster")) for row in judged.to_pylist()]


@pytest.mark.quick
def test_equal_texts_substrings_and_near_letters_merge_and_empty_ones_do_not() -> None:
    table = memories("Любит чай", "  любит\n ЧАЙ ", "Любит чай и кофе", "", " ", "Совсем другое")
    assert outcome(fitted(table, survivor="longest"), table) == [
        ("duplicate", "c", "a"),
        ("duplicate", "c", "a"),
        (None, None, "a"),
        (None, None, None),
        (None, None, None),
        (None, None, None),
    ]
    near = memories("Prefers dark mode in the editor of code", "Prefers dark mode in the editor of codes!")
    assert outcome(fitted(near, kinds=("lexical",)), near)[1] == ("duplicate", "a", "a")


def test_a_short_text_in_other_marks_is_the_same_and_a_mark_within_a_word_is_of_it() -> None:
    same = ("Чай! / — „Чай“", "Пьёт чай (зелёный) / пьет чай: зеленый", "Deploy: Friday / deploy – “Friday”!")
    apart = ("Да. / Да?", "a.b / a b", "не приятно / неприятно", "чай :) / чай :(", "пишет на C / пишет на C++")
    for both in (*same, *apart):
        table = memories(*both.split(" / "))
        assert (outcome(fitted(table), table)[1][0] == "duplicate") == (both in same), both
    for all_of in ("Чай / — „Чай!“ / Чай с мёдом", "Deploy Friday! / Deploy: Friday / Deploy Friday! Ann"):
        table = memories(*all_of.split(" / "))
        assert fitted(table).transform(table)["keep"].to_pylist().count(False) == 2, all_of


@pytest.mark.quick
@pytest.mark.parametrize(
    ("a", "b", "flag"),
    [
        ("Аренда стоит 1200", "Аренда стоит 1500", "number_conflict"),
        ("Отпуск будет в марте", "Отпуск будет в апреле", "date_conflict"),
        ("Анна ест мясо", "Анна не ест мясо", "negation_conflict"),
        ("Anna eats meat", "Anna doesn't eat meat", "negation_conflict"),
        ("Rent is due", "Rent is due on 2026-03-01", "date_conflict"),
    ],
)
def test_a_number_a_date_or_a_negation_is_flagged_and_never_merged(a: str, b: str, flag: str) -> None:
    table = memories(a, b)
    dedup = fitted(table, at_angles(0, 1), lexical_floor=0.1, lexical_threshold=0.1, threshold=0.8)
    assert dedup.transform(table)["keep"].to_pylist() == [True, True]
    assert pc.all(dedup.pairs_[flag]).as_py()
    assert pc.all(dedup.pairs_["contradiction"]).as_py()
    counts = dict(zip(*dedup.report().to_pydict().values(), strict=True))
    assert (counts["contradiction"], counts["pairs"], counts["refused"]) == (1, 1, 0)


@pytest.mark.quick
def test_what_its_author_calls_superseded_or_deprecated_is_neither_merged_nor_kept_for_another() -> None:
    texts = ["Пул соединений: десять", "пул соединений: десять", "Пул соединений: десять."]
    rows = {
        "memory_id": [*"abc"],
        "text": texts,
        "created_at": ["2026-01-01", "2026-02-01", "2026-03-01"],
        "kind": ["page"] * 3,
    }
    plain = mk.from_table(rows)
    assert outcome(mk.Deduplicator(encoder=None).fit(plain), plain)[1] == ("duplicate", "a", "a")
    for column, value in (("status", "superseded"), ("superseded_by", "b"), ("status", "deprecated")):
        table = mk.from_table(rows | {column: [value, None, None]})
        dedup = mk.Deduplicator(encoder=None).fit(table)
        judged = {row["memory_id"]: (row["keep"], row["duplicate_of"]) for row in dedup.transform(table).to_pylist()}
        assert judged == {"a": (True, None), "b": (True, None), "c": (False, "b")}, column
        assert dict(zip(*dedup.report().to_pydict().values(), strict=True))["left_by_status"] == 1


def test_a_pair_of_vectors_alone_is_a_semantic_duplicate_with_its_cosine() -> None:
    table = memories("Пьёт капучино", "Loves coffee", "Живёт в Перми")
    judged = fitted(table, at_angles(0, 10, 90)).transform(table)
    assert judged["reason"].to_pylist() == [None, "semantic_duplicate", None]
    assert judged["similarity"].to_pylist()[1] == pytest.approx(np.cos(np.deg2rad(10)), abs=1e-6)


def test_thresholds_move_both_ways_without_a_fit() -> None:
    table = memories("один", "uno", "eins")
    dedup = fitted(table, at_angles(0, 10, 40), floor=0.5)
    pairs = dedup.pairs_
    kept = [dedup.set_params(threshold=t).transform(table)["keep"].to_pylist() for t in (0.999, 0.9, 0.5, 0.9, 0.999)]
    assert kept == [[True] * 3, [True, False, True], [True, False, False], [True, False, True], [True] * 3]
    assert dedup.pairs_ is pairs
    with pytest.raises(ParameterError, match="floor"):
        dedup.set_params(threshold=0.4).transform(table)


def test_each_pair_is_shown_as_the_kind_that_merges_it() -> None:
    table = memories("Prefers dark mode in the editor of code", "Prefers dark mode in the editor of codes!")
    dedup = fitted(table, at_angles(0, 36), centre="none")
    assert dedup.distinct_["kind"].to_pylist() == ["semantic"]  # of a cosine below its threshold
    assert dedup.current_pairs()["kind"].to_pylist() == dedup.merging_pairs()["kind"].to_pylist() == ["lexical"]


def test_a_chain_is_left_alone_and_reported_where_its_middle_would_stay() -> None:
    table = memories("раз", "zwei", "trois")
    vectors = at_angles(0, 20, 40)
    assert outcome(fitted(table, vectors), table) == [
        (None, None, "a"),
        ("semantic_duplicate", "a", "a"),
        (None, None, None),
    ]
    dated = table.append_column("created_at", pa.array(["2026-01-01", "2026-02-01", "2026-01-01"]))
    dedup = fitted(dated, vectors, survivor="newest")
    assert dedup.transform(dated)["keep"].to_pylist() == [True] * 3
    assert dedup.chains_.to_pylist() == [{"chain": "a", "memory_id": m, "kept": True} for m in "abc"]
    # Where every two are a pair there is no chain.
    assert fitted(table, at_angles(0, 5, 10)).chains_.num_rows == 0
    blind = dedup.set_params(linkage="components").transform(dated)
    assert blind["duplicate_of"].to_pylist() == ["b", None, "b"]
    assert blind["cluster"].to_pylist() == ["a"] * 3


@pytest.mark.parametrize(("survivor", "kept"), [("newest", "b"), ("longest", "c"), ("most_important", "a")])
def test_the_survivor_follows_its_rule(survivor: str, kept: str) -> None:
    table = memories(
        "чай",
        "чай да",
        "чай да мёд",
        importance=["high", "low", None],
        created_at=pa.array([datetime(2025, 1, 1), datetime(2026, 1, 1), None], TIMESTAMP),
    )
    judged = fitted(table, survivor=survivor).transform(table)
    assert judged.filter(judged["keep"])["memory_id"].to_pylist() == [kept]


def test_users_are_apart_unless_asked_and_sources_are_not() -> None:
    table = memories(
        "Любит чай", "Любит чай", "Любит чай", user_id=["u1", "u2", None], format=["facts", "notes", "facts"]
    )
    assert fitted(table).transform(table)["keep"].to_pylist() == [True] * 3
    across = fitted(table, across_users=True)
    assert across.transform(table)["keep"].to_pylist() == [True, False, False]
    assert across.pairs_["same_user"].to_pylist() == [False, False]
    session = memories("Любит чай", "Любит чай", format=["workspace", "facts"])
    assert fitted(session).transform(session)["keep"].to_pylist() == [True, False]


_TABLES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["чай", "чаи", "мёд", "tea", "не", "7"]), max_size=4).map(" ".join),
        st.sampled_from(["u1", "u2", None]),
        st.none() | st.integers(1, 28),
        st.integers(0, 60),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=8)
@given(_TABLES, st.randoms(use_true_random=False), st.sampled_from(["newest", "longest"]))
def test_shuffled_rows_give_the_same_survivors_and_a_second_run_finds_nothing(rows, random, survivor) -> None:
    table = memories(
        *[row[0] for row in rows],
        user_id=pa.array([row[1] for row in rows], pa.string()),
        created_at=pa.array([row[2] and datetime(2026, 1, row[2]) for row in rows], TIMESTAMP),
    )
    vectors = at_angles(*[row[3] for row in rows])
    once = fitted(table, vectors, survivor=survivor).transform(table)
    order = pa.array(random.sample(range(len(rows)), len(rows)))
    other = fitted(table.take(order), vectors[order.to_numpy()], survivor=survivor).transform(table.take(order))
    assert other["duplicate_of"].to_pylist() == once["duplicate_of"].take(order).to_pylist()
    assert other["cluster"].to_pylist() == once["cluster"].take(order).to_pylist()
    shared = first_vectors(table, vectors)
    assert fitted(table, shared, survivor=survivor).transform(table).equals(once)
    kept = np.flatnonzero(once["keep"].to_numpy(zero_copy_only=False))
    again = fitted(table.take(kept), shared[kept], survivor=survivor).transform(table.take(kept))
    assert again["keep"].to_pylist() == [True] * len(kept)


@pytest.mark.parametrize("seed", [0, 3, 13])
def test_of_a_template_with_copies_parts_and_additions_a_second_run_finds_nothing(seed: int) -> None:
    draw = random.Random(seed)
    texts = [f"Встреча команды Север{n} прошла в большом зале у окна" for n in range(16)]
    joined = f"{texts[3]} {{}}".format
    changes = (str.upper, lambda text: text.rpartition(" ")[0], "{} и ещё немного другого".format, joined)
    for _ in range(12):
        texts.append(draw.choice(changes)(draw.choice(texts)))
    draw.shuffle(texts)
    table = memories(*texts)
    kept = table.filter(fitted(table, lexical_floor=0.8).transform(table)["keep"])
    assert len(table) - len(kept) >= 6
    assert fitted(kept, lexical_floor=0.8).transform(kept)["keep"].to_pylist() == [True] * len(kept)


def test_equal_texts_with_unequal_vectors_share_that_of_the_least_id() -> None:
    """The newer copy stays, and its own vector, which would make it a duplicate of c, does not count."""
    table = memories("чай", "Чай", "tea", created_at=["2026-01-01", "2026-02-01", "2026-01-01"])
    vectors = at_angles(0, 50, 50)
    newest = fitted(table, vectors, survivor="newest")
    assert outcome(newest, table) == [("duplicate", "b", "a"), (None, None, "a"), (None, None, None)]
    remaining, shared = table.slice(1), first_vectors(table, vectors)[1:]
    assert fitted(remaining, shared).transform(remaining)["keep"].to_pylist() == [True, True]


def test_a_part_of_the_rows_is_judged_among_themselves() -> None:
    table = memories("чай", "чай да", "мёд")
    dedup = fitted(table, survivor="longest")
    assert dedup.transform(table.slice(0, 1))["keep"].to_pylist() == [True]
    assert dedup.transform(table.slice(0, 2))["keep"].to_pylist() == [False, True]


def test_a_memory_that_changed_hands_is_another_one() -> None:
    table = memories("чай", "чай", user_id=["anna", "anna"])
    dedup = fitted(table)
    handed = table.set_column(table.schema.get_field_index("user_id"), "user_id", pa.array(["boris", "anna"]))
    with pytest.raises(StaleIndexError, match="'a' is new or changed since fit"):
        dedup.transform(handed)
    assert fitted(table, across_users=True).transform(handed)["keep"].to_pylist().count(False) == 1


def test_new_changed_and_duplicate_rows_are_refused() -> None:
    table = memories("чай", "мёд")
    with pytest.raises(NotFittedError):
        Deduplicator().transform(table)
    with pytest.raises(StaleIndexError, match="'b'"):
        fitted(table).transform(memories("чай", "другое"))
    with pytest.raises(StaleIndexError, match="'c'"):
        fitted(table).transform(memories("чай", "мёд", "соль"))
    with pytest.raises(ParameterError, match="duplicates"):
        fitted(pa.table({"memory_id": ["a", "a"], "text": ["x", "y"]}))
    with pytest.raises(ParameterError, match="vector"):
        fitted(table, at_angles(1))


def test_a_corpus_and_an_encoder_of_ones_own_with_its_stored_threshold() -> None:
    class Angles:
        dim, fingerprint, dedup_threshold = 2, "angles", 0.99

        def encode_query(self, texts):
            return at_angles(*[float(text.split()[-1]) for text in texts]).astype(np.float32)

        encode_document = encode_query

        def get_config(self):
            return {}

    words = ("один 0", "один 5", "ещё 7")
    corpus = SimpleNamespace(tables={"memories": memories(*words)})
    dedup = Deduplicator(encoder=Angles(), number_words=()).fit(corpus)
    assert dedup.threshold_ == 0.99
    assert pc.count(dedup.pairs_["kind"]).as_py() == 3
    assert dedup.transform(corpus)["keep"].to_pylist() == [True] * 3


def test_the_mean_is_taken_off_from_fifty_texts_on() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(0, 1, (60, 8)) + 20
    table = pa.table({"text": [f"слово {'абвгдежзик'[i // 10]}{'абвгдежзик'[i % 10]}" for i in range(60)]})
    raw = fitted(table, vectors, centre="none", lexical_floor=1.0, floor=0.95)
    centred = fitted(table, vectors, lexical_floor=1.0, floor=0.95)
    assert len(raw.pairs_) == 60 * 59 // 2
    assert len(centred.pairs_) < 10


LABELS = pa.table(
    {
        "a_id": ["b", "a", "a", "x"],
        "b_id": ["a", "c", "d", "y"],
        "label": ["duplicate", "different", "contradiction", "duplicate"],
    }
)
PAIRS = pa.table(
    {
        "a_id": ["a", "a", "a"],
        "b_id": ["b", "c", "d"],
        "kind": ["semantic"] * 3,
        "similarity": [0.9, 0.8, 0.95],
        "contradiction": [False, False, True],
    }
)


def test_precision_and_recall_are_those_of_labelled_pairs() -> None:
    free = precision_recall(PAIRS, LABELS, guarded=False)
    assert free["threshold"].to_pylist() == [0.95, 0.9, 0.8]
    assert free["precision"].to_pylist() == [0 / 1, 1 / 2, 1 / 3]
    assert free["recall"].to_pylist() == [0 / 2, 1 / 2, 1 / 2]
    assert free["contradiction_rate"].to_pylist() == [1.0, 1.0, 1.0]
    guarded = precision_recall(PAIRS, LABELS)
    assert guarded["precision"].to_pylist() == [1 / 1, 1 / 2]
    assert guarded["contradiction_rate"].to_pylist() == [0.0, 0.0]
    assert threshold_for(guarded, 0.5) == 0.8
    assert threshold_for(guarded, 0.9) == 0.9
    assert threshold_for(free, 0.9) is None
    with pytest.raises(ParameterError, match="same"):
        precision_recall(PAIRS, LABELS.set_column(2, "label", pa.array(["same"] * 4)))


def test_labelled_pairs_of_copies_are_judged_by_their_text() -> None:
    table = memories("Любит чай", "любит чай", "Loves tea")
    dedup = fitted(table, at_angles(0, 0, 20))
    labels = pa.table({"a_id": ["b", "b"], "b_id": ["a", "c"], "label": [True, True]})
    curve = dedup.precision_recall(labels)
    assert curve["threshold"].to_pylist() == pytest.approx([1.0, np.cos(np.deg2rad(20))], abs=1e-6)
    assert dedup.threshold_for(labels, 1.0) == pytest.approx(np.cos(np.deg2rad(20)), abs=1e-6)


def test_the_oldest_stays_by_creation_and_where_no_date_is_known_by_place() -> None:
    table = pa.table(
        {
            "memory_id": ["pf_10", "pf_9", "pf_8", "x"],
            "text": ["Любит чай", "Любит чай", "Любит чай", "Совсем другое"],
            "path": ["profile.md"] * 4,
            "line_start": [2, 1, 3, 4],
            "created_at": pa.array([None, None, datetime(2020, 1, 1), None], TIMESTAMP),
            "updated_at": pa.array([None, None, datetime(2026, 1, 1), None], TIMESTAMP),
        }
    )
    assert outcome(fitted(table, survivor="oldest"), table)[:3] == [
        ("duplicate", "pf_9", "pf_10"),
        (None, None, "pf_10"),
        ("duplicate", "pf_9", "pf_10"),
    ]
    dated = table.set_column(4, "created_at", pa.array([datetime(2021, 1, day) for day in (2, 3, 1, 4)], TIMESTAMP))
    assert fitted(dated, survivor="oldest").transform(dated)["keep"].to_pylist() == [False, False, True, True]
    assert fitted(dated, survivor="newest").transform(dated)["keep"].to_pylist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("part", "whole", "of_words"),
    [
        ("чай", "любит чай", True),
        ("чай", "чайник стоит на столе", False),
        ("чай", "необычайный", False),
        ("чай", "чайник и чай", True),
        ("like tea", "dislike tea", False),
        ("tea", "_tea_ time", False),
        ("любит чай.", "анна любит чай. и мёд", True),
        ("绿茶", "他喜欢绿茶", True),
        ("и", "чай и мёд", True),
        ("и", "чаи", False),
    ],
)
def test_a_part_is_of_whole_words_unless_letters_are_asked_for(part: str, whole: str, of_words: bool) -> None:
    table = memories(part, whole)
    kinds = {rule: fitted(table, substring=rule).pairs_["kind"].to_pylist() for rule in ("words", "letters")}
    assert kinds == {"words": ["substring"] * of_words, "letters": ["substring"]}


def test_tags_alone_are_no_duplicate_as_they_belong_to_their_page(tmp_path: Path) -> None:
    pages = {f"{name}.md": f"#дача #сад/яблони\n\n## {name}\n{name} растёт у забора\n" for name in ("Слива", "Айва")}
    corpus = mk.read(mk.testing.write_files(tmp_path, {".obsidian/app.json": "{}", **pages}))
    assert len(mk.plan(corpus, Deduplicator(encoder=None))) == 0
    table = memories("#дача", "#дача", "#1 место", "#1 место", "#дача осенью", "#дача осенью")
    assert [row[1] for row in outcome(fitted(table), table)] == [None, None, None, "c", None, "e"]


def test_a_text_without_a_word_is_a_part_of_nothing() -> None:
    table = memories("##", "## Заметки", "👍", "👍", "…")
    dedup = fitted(table, substring="letters")
    assert dedup.pairs_.num_rows == 0
    assert dedup.transform(table)["keep"].to_pylist() == [True] * 5


def test_what_is_there_stays_by_default_and_in_the_preset() -> None:
    """Memory v2, 'Политика сохранения': a new fact that says what a known one says is the one that is not kept."""
    table = memories("Любит чай с мёдом", "Любит чай", created_at=["2026-01-01", "2026-02-01"])
    assert fitted(table).transform(table)["keep"].to_pylist() == [True, False]
    assert fitted(table.take([1, 0])).transform(table.take([1, 0]))["keep"].to_pylist() == [False, True]
    assert [memory_v2_policy["deduplicator"][name] for name in ("survivor", "substring")] == ["oldest", "letters"]
    dedup = Deduplicator(**memory_v2_policy["deduplicator"])  # type: ignore[arg-type]  # a preset is plain data
    assert (dedup.kinds, dedup.threshold) == (("substring", "semantic"), 0.9)


def test_an_empty_table_has_no_pairs() -> None:
    table = memories()
    dedup = fitted(
        pa.table({"memory_id": pa.array([], pa.string()), "text": pa.array([], pa.string())}), np.empty((0, 2))
    )
    assert (dedup.pairs_.num_rows, dedup.chains_.num_rows) == (0, 0)
    assert table.num_rows == 0


def test_an_encoder_that_learns_from_the_corpus_is_fitted_to_what_is_compared() -> None:
    texts = [
        "пул соединений к базе",
        "пул соединений к базе данных",
        "кот спит на окне",
        "чай остыл",
        "кот спит на окне дома",
    ]
    table = mk.from_table({"text": texts, "memory_id": list("abcde")})
    pairs = mk.Deduplicator(encoder="lsa", centre="none", floor=0.3).fit(table).pairs_.to_pylist()
    near = {(row["a_id"], row["b_id"]): row["similarity"] for row in pairs if row["kind"] == "semantic"}
    assert near[("a", "b")] > 0.6
    assert near[("c", "e")] > 0.6
    assert ("a", "d") not in near


def test_headings_without_text_are_no_duplicates() -> None:
    rows = {
        "memory_id": [*"abcd"],
        "text": ["## Итоги", "## Итоги", "## Итоги\n\nПул вырос.", "## Итоги\n\nПул вырос."],
    }
    dedup = mk.Deduplicator(encoder=None).fit(pa.table({**rows, "format": ["workspace"] * 4}))
    assert dedup.pairs_.select(["a_id", "b_id"]).to_pylist() == [{"a_id": "c", "b_id": "d"}]
