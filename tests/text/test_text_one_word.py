"""One word can be the fact: what keeps two texts of one skeleton apart, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

import memkit as mk
from memkit.text.analyse import terms_by
from memkit.text.conflicts import Conflicts
from memkit.text.one_word import Lexicon, Synonyms
from memkit.text.statements import Reader

APART = (
    ("Billing of the shop is owned by Paul.", "Saul owns the billing of the shop."),
    ("backups go to srv_main", "backups go to srv_main.local"),
    ("The disk holds 500 GB", "The disk holds 500GB of data, sorry, 500 TB"),
    ("The team office is in New York, near the park", "The team office is in Lisbon, near the park"),
    ("Сервер обновляют до выпуска", "Сервер обновляют после выпуска"),
    ("Metrics are in Grafana. Logs are in Loki.", "Metrics are in Kibana. Logs are in Splunk."),
    ("The team meets in room A", "The team meets in room B"),
    ("The cat chases the dog", "The dog chases the cat"),
    ("Павел в марте сменил Савла", "Савл в марте сменил Павла"),
    ("Копируем из staging в prod", "Копируем из prod в staging"),
    ("Переносим сервис с порта 80 на порт 81", "Переносим сервис с порта 81 на порт 80"),
    ("Сначала тесты, потом ревью", "Сначала ревью, потом тесты"),
    ("Удалять logs* каждую ночь", "Удалять logs каждую ночь"),
    ("lint runs on *.py", "lint runs on .py"),
    ("пиши @ivan о доступе", "пиши ivan о доступе"),
    ("tag it #work", "tag it work"),
    ("the method is __init__", "the method is init"),
    ("A -> B -> C", "C -> B -> A"),
    ("- [x] сдать отчёт", "- [ ] сдать отчёт"),
    ("The server is down", "The server is down?"),
    ("Статус сборки 🟢", "Статус сборки 🔴"),
    ("disk c is full", "disk d is full"),
    ("The call is at 5 am", "The call is at 5 pm"),
    ("не менее 5 человек", "не более 5 человек"),
    *(("All of the tests pass", "Almost all of the tests pass"), ("Обращаться на «ты»", "Обращаться на «вы»")),
    ("1. Stop the workers\n2. Copy the base\n3. Migrate", "1. Stop the workers\n2. Migrate\n3. Copy the base"),
    *(("Dark mode is on", "Dark mode is off."), ("Sort ascending", "Sort descending"), ("It was 3:2", "It was 2:3")),
)
ALIKE = (
    ("Пользователь живёт в Казани", "пользователь   живёт в КАЗАНИ!"),
    ("отчёт лежит в reports/final.md", "Отчет лежит в `reports/final.md`."),
    ("The design is well-known to the team", "The design is well known to the team"),
    ("Анне звонит Павел, а не Пётр", "Павел звонит Анне, а не Пётр"),
    ("Ревью делает Павел", "Ревью бэкенда делают у Павла"),
    ("Предпочитает зелёный чай", "Предпочитает зелёный чай с мёдом"),
    ("The user likes short answers.", "The user likes a short answer."),
    ("The timeout is 30 seconds", "The timeout is 30s"),
    ("Пользователь предпочитает тёмную тему", "Пользователь предпочитет тёмную тему"),
    ("A cat sits by the door", "Owners of shops pay taxes in spring"),
    ("завтра поедем в Казань", "в Казань завтра поедем"),
    ("He works at home on Monday", "On Monday he works at home"),
    ("buys milk, bread, eggs", "buys eggs, bread, milk"),
    ("The owner is Anna", "Anna is the owner"),
    ("**Предпочитает** _короткие_ ответы", "Предпочитает ~~короткие~~ ответы"),
    ("Delete `logs*` every week.", "delete logs* every week"),
    ("- [ ] mail ann@site.org at 5 p.m.", "- mail [ann@site.org](mailto:ann@site.org) at 5 PM <!-- id: b --> #todo"),
    ("Встреча в 9:00, +7 (916) 123-45-67, 12,5 процента", "встреча в 09:00, +79161234567, 12.5%"),
    ("Paid on March 12th, 2026 and May 3rd\n\n15:00 call: 80 euros", "Paid on 2026-03-12 and 3 May\n\n15:00 call: €80"),
    ("2. About 1,000 calls for 5 000 €, +7 916 123 45 67", "~1000 calls for 5000 €, +7 916 123-45-67"),
)
SYNONYMS = ("car automobile", "car vehicle", "Man Person", "brother sister", "Jon John", "inches centimetres")


@pytest.mark.quick
@pytest.mark.parametrize("long", [False, True])
def test_a_word_that_is_the_fact_keeps_two_texts_apart(long: bool, subtests) -> None:
    conflicts = Conflicts()
    above = "Эта строка говорит о чём-то другом, и обе страницы начинаются с неё одинаково.\n" * 4 * long
    for one, other in APART:
        with subtests.test(other):
            assert any(conflicts(f"{above}\n{one}", f"{above}\n{other}"))
            assert conflicts(one, other) == conflicts(other, one)


@pytest.mark.quick
def test_marks_forms_order_and_additions_do_not(subtests) -> None:
    conflicts = Conflicts()
    for one, other in ALIKE:
        with subtests.test(other):
            assert not any(conflicts(one, other)), conflicts(one, other)
            assert not any(conflicts(other, one))


@pytest.mark.quick
def test_synonyms_of_an_encoder_are_one_word_but_never_names_or_words_of_closed_classes(subtests) -> None:
    asked: list[str] = []

    def vectors(words: list[str]) -> np.ndarray:
        asked.extend(words)
        return np.array([[word in pair.casefold().split() for pair in SYNONYMS] for word in words], np.float32)

    conflicts = Conflicts(synonyms=Synonyms(vectors, 1.0, 1.0))
    for one, other, value in (
        ("The user's car is in the yard", "The user's automobile is in the yard", False),
        ("Man plays the guitar", "Person plays the guitar", False),
        ("The user's brother is in the yard", "The user's sister is in the yard", True),
        ("Jon plays the guitar", "John plays the guitar", True),
        ("Ask Jon about the guitar", "Ask John about the guitar", True),
        ("The shelf needs two inches more", "The shelf needs two centimetres more", True),
        ("The shelf needs two centimeters more", "The shelf needs two centimetres more", False),
        ("The user's car is in the yard", "The user's boat is in the yard", True),
    ):
        with subtests.test(other):
            assert conflicts(one, other).value is value
    assert "automobile" in asked


def test_near_words_of_a_class_are_two_facts_and_those_of_the_thesaurus_are_one(kept_vectors: object, subtests) -> None:
    sentence = "The user sold the old {} to a neighbour last week."
    pairs = {"pliers spanner": 0, "spade rake": 0, "nephew niece": 0, "sofa couch": 1, "boat ship": 1, "dog animal": 1}
    words = [word for pair in pairs for word in pair.split()]
    table = mk.from_table(
        {"user_id": [pair for pair in pairs for _ in "ab"], "text": [sentence.format(word) for word in words]}
    )
    found = mk.Deduplicator(lexical_floor=0.5).fit(table).pairs_
    differ = dict(zip(found["a_id"].to_pylist(), found["value_conflict"].to_pylist(), strict=True))
    for place, (pair, is_one) in enumerate(pairs.items()):
        with subtests.test(pair):
            assert differ[table.memories["memory_id"][2 * place].as_py()] is not bool(is_one)


@pytest.mark.parametrize("held_out", [False, True])
def test_of_made_pairs_words_alone_merge_none(held_out: bool, script) -> None:
    bench = script("benchmarks/bench_one_word.py")
    made = bench.made(per_template=3)
    some = made[made["held_out"] == held_out]
    conflicts = Conflicts()
    texts = [*some["text_a"], *some["text_b"]]
    left = np.arange(len(some))
    assert conflicts.between(conflicts.facts(texts), left, left + len(some)).any(axis=1).mean() > 0.99


def test_the_words_of_a_lexicon_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question a word takes a millisecond each, half a second of a command."""
    reader, asked = Reader(), list[str]()
    monkeypatch.setattr("memkit.text.statements.terms_by", lambda name: asked.append(name) or terms_by(name))
    Lexicon(reader)
    assert asked == ["auto"]
