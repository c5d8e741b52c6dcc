"""Near texts, clusters and conflicts, each against a brute-force twin."""

from __future__ import annotations

import functools
import operator
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memkit as mk
from memkit.errors import ParameterError
from memkit.policy.dedup import clusters as families
from memkit.policy.dedup import near, pairs
from memkit.policy.dedup.clusters import complete_link, components, settle
from memkit.tables.owners import Owners
from memkit.text import facts
from memkit.text.analyse import Analyser
from memkit.text.conflicts import Conflicts

_TEXT = st.lists(st.sampled_from(["чай", "чая", "tea", "tee", "пул", "12", "а", "🙂", "ab"]), max_size=5).map(" ".join)
_TEXTS = st.lists(_TEXT, min_size=1, max_size=14, unique=True)


@pytest.fixture(scope="module", autouse=True)
def _small_blocks() -> Iterator[None]:
    """Texts are read in blocks, which here are small, so that few texts are several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near, "STEP", 4)
        patch.setattr(near, "_SMALL", 6)
        patch.setattr(families, "STEP", 4)
        yield


def grams_of(text: str) -> set[str]:
    return {text[i : i + 3] for i in range(len(text) - 2)}


def cosine(a: str, b: str) -> float:
    x, y = grams_of(a), grams_of(b)
    return round(len(x & y) / (len(x) * len(y)) ** 0.5, 6) if x and y else 0.0


@settings(max_examples=25)
@given(_TEXTS, st.integers(1, 3))
def test_substrings_are_all_found_within_a_scope(texts: list[str], n_scopes: int) -> None:
    scopes = np.arange(len(texts)) % n_scopes
    part, whole, _ = near.substring_pairs(pa.array(texts, pa.large_string()), scopes, near.trigrams(texts, scopes))
    n = range(len(texts))
    expected = {(i, j) for i in n for j in n if i != j and scopes[i] == scopes[j] and texts[i] and texts[i] in texts[j]}
    assert set(zip(part.tolist(), whole.tolist(), strict=True)) == expected


@settings(max_examples=50)
@given(_TEXTS, st.integers(1, 3), st.sampled_from([0.3, 0.5, 0.7, 0.85, 1.0]))
def test_lexical_pairs_are_all_found_with_their_cosine(texts: list[str], n_scopes: int, floor: float) -> None:
    scopes = np.arange(len(texts)) % n_scopes
    i, j, cosines = near.lexical_pairs(near.trigrams(texts, scopes), floor)
    n = len(texts)
    expected = {
        (a, b): cosine(texts[a], texts[b])
        for a in range(n)
        for b in range(a + 1, n)
        if scopes[a] == scopes[b] and cosine(texts[a], texts[b]) >= floor
    }
    assert dict(zip(zip(i.tolist(), j.tolist(), strict=True), cosines.tolist(), strict=True)) == expected


def test_a_text_in_which_many_titles_are_named_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, names = np.random.default_rng(3), [f"Проект {letter * 6}" for letter in "абвгдежз"]
    texts = [" ".join([*rng.choice(names, 4, replace=False), *map(str, range(40 + n % 4))]) for n in range(60)]
    table = pa.table({"text": texts, "title": rng.choice(names, 60).tolist()})
    a, b = np.triu_indices(60, 1)
    alike = [cosine(texts[i].lower(), texts[j].lower()) >= 0.6 for i, j in zip(a, b, strict=True)]
    expected = np.flatnonzero(np.array(alike) & Owners.of(table).one(a, b))
    assert len(expected) > 200
    for letters in (10**6, 2_000):  # all texts at once, and in parts
        monkeypatch.setattr(near, "_BATCH_CHARS", letters)
        monkeypatch.setattr(pairs, "_LETTERS_AT_ONCE", letters)
        found = mk.Deduplicator(encoder=None, lexical_floor=0.6, kinds=("lexical",)).fit(table).pairs_.to_pylist()
        ends = [sorted((int(pair["a_id"]), int(pair["b_id"]))) for pair in found if pair["kind"] == "lexical"]
        assert sorted(ends) == np.stack([a, b], axis=1)[expected].tolist()


@pytest.mark.quick
def test_trigrams_take_some_bytes_a_letter() -> None:
    rng = np.random.default_rng(0)
    texts = ["".join(row) for row in rng.choice(list("абвгдежзиклмнопрст "), (400, 1000))]
    near.trigrams(texts[:16], np.zeros(16, np.int64))
    tracemalloc.start()
    near.trigrams(texts, np.zeros(len(texts), np.int64))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 12 * 400 * 1000


@pytest.mark.quick
def test_pairs_of_a_folder_that_has_every_letter_are_counted() -> None:
    texts = ["".join(map(chr, range(32, 150_000))), *["чай"] * 100]
    i, j, cosine = near.lexical_pairs(near.trigrams(texts, np.array([0, *[1] * 100])), 0.9)
    assert (len(i), i.min(), j.max(), set(cosine)) == (100 * 99 // 2, 1, 100, {1.0})


def test_templates_are_found_across_blocks_of_texts() -> None:
    texts = [f"Страница о проекте Север{n}: решения и встречи команды" for n in range(30)]
    texts[7::10] = [f"Ничего общего с другими, {word}" for word in ("чай", "кофе", "вода")]
    found = families.Families.of(texts, np.zeros(30, np.int64))
    assert found.is_member.tolist() == [n % 10 != 7 for n in range(30)]
    assert len(np.unique(found.gaps[found.is_member])) == 27


def test_copies_of_its_texts_make_no_template() -> None:
    texts = [f"Сервис принимает заявки и пишет журнал событий в базу {letter * 4}" for letter in "абвгдежзиклмнопр"]
    for n in (15, 16):
        some = [*texts[:n], *(text + "!" for text in texts[:3])]
        assert families.Families.of(some, np.zeros(n + 3, np.int64)).is_member.tolist() == [n == 16] * (n + 3)


def test_conflicts_are_the_same_however_few_texts_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{name} пьёт {n} чашки чая в день" for name in ("Анна", "Павел") for n in (2, 4, 8)]
    texts += [f"{text} и кофе" for text in texts]
    at_once = mk.Deduplicator(encoder=None).fit(pa.table({"text": texts})).pairs_
    monkeypatch.setattr(pairs, "_LETTERS_AT_ONCE", 40)
    apart = mk.Deduplicator(encoder=None).fit(pa.table({"text": texts})).pairs_
    assert apart.equals(at_once)
    assert at_once.num_rows > sum(at_once["contradiction"].to_pylist()) > 5


def test_stems_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ask = [], Analyser._ask
    monkeypatch.setattr(Analyser, "_ask", lambda *about: (asked.append(about[-1]), ask(*about))[1])
    words = ["".join(word) for word in np.random.default_rng(1).choice(list("абвгдежзик"), (60, 9))]
    conflicts = Conflicts()
    lines = [f"за {word} отвечает кто-то" for word in words]
    conflicts.between(conflicts.facts(lines), np.arange(30), np.arange(30, 60))
    assert len([words for words in asked if words]) < 10


def test_batches_hold_whole_scopes_and_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "_BATCH_CHARS", 10)
    scopes = np.array([2, 0, 1, 0, 2, 1, 3])
    batches = [batch.tolist() for batch in near.batches(np.full(7, 4), scopes)]
    assert sorted(functools.reduce(operator.iadd, batches, [])) == list(range(7))
    assert len(batches) > 1
    assert all(set(scopes[a]).isdisjoint(scopes[b]) for a in batches for b in batches if a != b)


_EDGES = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.sampled_from([0.9, 0.93, 0.97, 1.0])), max_size=20
).map(lambda edges: {(min(a, b), max(a, b)): value for a, b, value in edges if a != b})


def arrays(edges: dict[tuple[int, int], float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.array(list(edges), dtype=np.int64).reshape(-1, 2)
    return ends[:, 0], ends[:, 1], np.array(list(edges.values()), dtype=float)


def complete_link_by_hand(n: int, edges: dict[tuple[int, int], float]) -> list[int]:
    """Textbook agglomeration over all pairs of clusters."""
    clusters = [[i] for i in range(n)]
    while True:
        best = None
        for x in clusters:
            for y in clusters:
                if x[0] < y[0]:
                    least = min(edges.get((min(i, j), max(i, j)), 0.0) for i in x for j in y)
                    if least > 0 and (best is None or (-least, x[0], y[0]) < best[0]):
                        best = ((-least, x[0], y[0]), x, y)
        if best is None:
            return [next(x[0] for x in clusters if i in x) for i in range(n)]
        clusters = [x for x in clusters if x not in best[1:]] + [sorted(best[1] + best[2])]


@settings(max_examples=50)
@given(_EDGES)
def test_complete_link_is_the_textbooks(edges: dict[tuple[int, int], float]) -> None:
    assert complete_link(9, *arrays(edges)).tolist() == complete_link_by_hand(9, edges)


@settings(max_examples=50)
@given(_EDGES, st.permutations(range(9)))
def test_settled_rows_hold_no_pair_and_stand_for_pairs_only(edges, priority) -> None:
    survivor = settle(9, *arrays(edges), np.array(priority))
    stays = {i for i in range(9) if survivor[i] == i}
    assert set(survivor.tolist()) <= stays
    for i in range(9):
        j = int(survivor[i])
        assert i == j or (min(i, j), max(i, j)) in edges
        assert priority[j] <= priority[i]
        assert all(k == i or (min(i, k), max(i, k)) in edges for k in np.flatnonzero(survivor == j))
    renamed = {(8 - j, 8 - i): value for (i, j), value in edges.items()}
    assert (8 - settle(9, *arrays(renamed), np.array(priority[::-1]))[::-1]).tolist() == survivor.tolist()
    remaining = {pair: value for pair, value in edges.items() if set(pair) <= stays}
    speaking = {int(j) for i, j in enumerate(survivor) if i != j}
    assert not any(speaking & set(pair) for pair in remaining)
    again = settle(9, *arrays(remaining), np.array(priority))
    assert all(again[i] == i for i in stays)


def test_what_is_dissolved_stays_and_dissolves_its_neighbours() -> None:
    # 1 and 3 join, then 0 and 2; 1 stays and is a pair with 4. So 1, 3 and 4 all stay, and 3 is a pair with 2.
    edges = {(1, 3): 0.85, (0, 2): 0.8, (2, 3): 0.8, (1, 4): 0.8}
    survivor = settle(5, *arrays(edges), np.array([4, 1, 3, 2, 0]))
    assert survivor.tolist() == [0, 1, 2, 3, 4]
    del edges[2, 3]
    survivor = settle(5, *arrays(edges), np.array([4, 1, 3, 2, 0]))
    assert survivor.tolist() == [2, 1, 2, 3, 4]


def test_components_are_named_by_their_least_member() -> None:
    assert components(5, np.array([4, 1]), np.array([2, 2])).tolist() == [0, 1, 1, 3, 1]


@pytest.mark.parametrize(
    ("a", "b", "differs"),
    [
        ("аренда 1200", "аренда 1500", "numbers"),
        ("две кошки", "три кошки", "numbers"),
        ("has two cats", "has 3 cats", "numbers"),
        ("версия 1.5", "версия 15", "numbers"),
        ("отпуск в марте", "отпуск в апреле", "dates"),
        ("meeting on monday", "meeting on friday", "dates"),
        ("срок 2026-03-01", "срок 2026-03-02", "dates"),
        ("ест мясо", "не ест мясо", "negations"),
        ("eats meat", "doesn't eat meat", "negations"),
        ("eats meat", "doesn’t eat meat", "negations"),
        ("чай с сахаром", "чай без сахара", "negations"),
        ("две кошки", "2 кошки", None),
        ("в марте", "март", None),
        ("не ест", "doesn't eat", None),
        ("трех дней", "трёх дней", None),
        ("утром -50", "утром 50", "numbers"),
        ("порог >= 5", "порог <= 5", "numbers"),
        ("Группа A+", "Группа A-", "numbers"),
        ("> 5-10 дней, ≥ 5 -> в 10:00-12:00", "5–10 дней, >= 5 → в 10:00–12:00", None),
        ("1 2", "2 1", None),
    ],
)
def test_what_two_texts_disagree_in(a: str, b: str, differs: str | None) -> None:
    found = Conflicts()(a, b)
    assert found[("numbers", "dates", "negations").index(differs)] if differs else found == (False,) * 4


def test_a_number_word_without_digits_is_refused_and_empty_lists_are_fine() -> None:
    with pytest.raises(ParameterError, match="word=digits"):
        Conflicts(number_words=("two",))
    assert Conflicts((), (), ())("кот не в два ест", "в два ест кот") == (False,) * 4


LONG = " ".join(
    f"слово{'абвгдежз'[i % 8]} и дело{'клмнопрс'[i % 7]} живут в секции {'тушхц'[i % 5]}." for i in range(9)
)


def test_of_long_texts_only_what_stands_in_like_places_is_a_conflict() -> None:
    conflicts = Conflicts()
    rent, port = "Аренда квартиры стоит 1200 в месяц.", "Порт сервиса поиска 8080 не менялся с марта."
    assert conflicts(f"{LONG} {rent}", f"{LONG} {port}") == (False,) * 4
    assert conflicts(f"{LONG} {rent}", f"{rent.replace('1200', '1500')}\n{LONG}") == (True, False, False, False)
    assert conflicts(f"{rent} {LONG} {port}", f"{port.replace('март', 'апрел')} {LONG} {rent}") == (
        False,
        True,
        False,
        False,
    )
    assert conflicts(f"{port} {LONG}", f"{LONG} {port.replace(' не', '')}") == (False, False, True, False)
    assert conflicts(f"{LONG}\n{rent}\n{port}", f"{port}\n{rent}\n{LONG}") == (False,) * 4
    # As short as a fact, texts are one place, unless they have few words in common; none may be two languages.
    assert conflicts(rent, "Rent is 1500") == (True, False, False, False)
    assert conflicts(rent, "Отпуск Анны не в марте, а 15 мая после обеда.") == (False,) * 4


def test_pairs_are_compared_at_once_and_only_few_of_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(facts, "contradiction", lambda *both: asked.append(both))
    texts = [f"{LONG} Пул держит {n} соединений, но не во вторник." for n in range(40)]
    texts += [f"Страница {n} описывает сервис и его границы." for n in range(40)]
    left, right = np.triu_indices(len(texts), 1)
    conflicts = Conflicts()
    flags = conflicts.between(conflicts.facts(texts), left, right)
    assert (flags[:, 0] == ((left < 40) == (right < 40))).all()
    assert not asked


def test_of_two_texts_only_the_sentences_that_differ_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read, ask = [], facts.WordReader.__call__
    monkeypatch.setattr(facts.WordReader, "__call__", lambda self, text: (read.append(text), ask(self, text))[1])
    own = "Пул держит 10 соединений.", "Пул держит 20 соединений."
    assert Conflicts()(f"{LONG} {own[0]} {LONG}", f"{LONG} {own[1]} {LONG}") == (True, False, False, False)
    assert sorted(read) == sorted(own)


def test_a_fact_and_a_long_text_are_compared_in_like_places() -> None:
    fact = "Пул соединений сервиса держит 10 соединений."
    assert Conflicts()(fact, f"{LONG} {fact.replace('10', '20')}") == (True, False, False, False)
    assert Conflicts()(fact, f"{LONG} {fact} Порт 20.") == (False,) * 4


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["не", "март", "12", "0.5", "кот", "ёж", "two", "x. ", "\n", LONG]), max_size=6))
def test_a_text_has_no_conflict_with_itself_and_order_has_no_say(words: list[str]) -> None:
    text, other = " ".join(words), " ".join(reversed(words))
    assert Conflicts()(text, text) == (False,) * 4
    assert Conflicts()(text, other) == (False,) * 4
    assert Conflicts()(text, f"{other} не 7 {LONG}") == Conflicts()(f"{other} не 7 {LONG}", text)


@pytest.mark.parametrize("language", ["ru", "en"])
def test_labelled_contradictions_are_flagged_and_little_else(language: str, script) -> None:
    labelled = script("benchmarks/bench_conflicts.py")
    short = labelled.pairs(language)
    for some in (short, labelled.within_sections(short)):
        flagged = [any(Conflicts()(a, b)) for a, b in zip(some["text_a"], some["text_b"], strict=True)]
        right = sum(flag and label == "!" for flag, label in zip(flagged, some["label"], strict=True))
        assert right >= 0.75 * sum(flagged)
        assert right >= 0.9 * (some["label"] == "!").sum()
