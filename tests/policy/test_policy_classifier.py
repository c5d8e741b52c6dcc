"""Classification: word lists in both languages, precedence, given values and the end of a working fact."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from memkit.policy.admission import Classifier
from memkit.presets import memory_v2_policy
from memkit.schemas import TIMESTAMP

AS_OF = "2026-03-01T15:30:00"


def classify(table: dict[str, object], **parameters: object) -> list[dict[str, object]]:
    judged = Classifier(**parameters).transform(pa.table(table), as_of=AS_OF)
    return judged.select(["kind", "importance", "expires_at"]).to_pylist()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Меня зовут Анна", "profile"),
        ("Друг, я из Перми", "profile"),
        ("Ясень растёт у дома", "archive"),
        ("ЖИВЕТ в Казани", "profile"),
        ("Изучает языки", "profile"),
        ("I am a teacher", "profile"),
        ("I amend texts", "archive"),
        ("Anna lives here", "archive"),
        ("They LIVE here", "profile"),
        ("Сейчас чиним бота", "working"),
        ("Текущий спринт", "working"),
        ("Now on holiday", "working"),
        ("Known bugs of snow", "archive"),
        ("Планы на лето", "working"),
        ("An aeroplane", "archive"),
        ("Working  on the pool", "working"),
        # «работа» is a profile word, and only a part of the working one.
        ("Работаем над пулом", "working"),
        ("Меня зовут Анна, работаем над пулом", "profile"),
        ("Работает, а мы работаем  над пулом", "profile"),
        ("Сейчас живу в Перми", "profile"),
        ("Обсуждали структуру", "archive"),
        ("", "archive"),
    ],
)
def test_cyrillic_words_of_the_document_match_as_beginnings_and_latin_ones_whole(text: str, kind: str) -> None:
    assert classify({"text": [text]}, **memory_v2_policy["classifier"])[0]["kind"] == kind


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "kind", "importance"),
    [
        ("Аллергия на плановые прививки", "profile", "high"),
        ("Аллергик, не ест орехов", "profile", "high"),
        ("Is allergic to nuts", "profile", "high"),
        ("Женат, двое детей", "profile", "high"),
        ("His wife plays chess", "profile", "high"),
        ("Изучает языки", "profile", "high"),
        ("Анна живет в Казани", "profile", "high"),
        ("Купил планшет", "archive", "low"),
        ("Задачник по физике стоит на полке", "archive", "low"),
        ("Был task force veteran", "archive", "low"),
        ("A task-force veteran", "archive", "low"),
        ("Has a pension plan", "archive", "low"),
        ("Планировал отпуск в прошлом году", "archive", "low"),
        ("Ясень растёт у дома", "archive", "low"),
        ("План на лето готов", "working", "normal"),
        ("Планирую отпуск", "working", "normal"),
        ("Сейчас чиню бота", "working", "normal"),
        ("Работает  над пулом", "working", "normal"),
        ("Task: restore below one hour", "working", "normal"),
        ("Now on the task force, and the task is hard", "working", "normal"),
        ("Любит зелёный чай", "archive", "normal"),
        ("Ей нравится джаз", "archive", "normal"),
        ("Likes green tea", "archive", "normal"),
    ],
)
def test_a_lasting_fact_is_no_working_one_and_a_liking_is_kept_longer(text: str, kind: str, importance: str) -> None:
    """Memory v2, policy, classification: working is what has the word itself; nothing else gets an end."""
    (fact,) = classify({"text": [text]})
    assert (fact["kind"], fact["importance"]) == (kind, importance)
    assert (fact["expires_at"] is not None) == (kind == "working")


@pytest.mark.quick
def test_each_kind_has_its_importance_and_working_ends_after_its_days() -> None:
    facts = classify({"text": ["Меня зовут Анна", "Сейчас чиним", "Архив"]}, working_days=14)
    end = datetime(2026, 3, 1 + 14, 23, 59, 59, 999_999, tzinfo=UTC)
    assert facts == [
        {"kind": "profile", "importance": "high", "expires_at": None},
        {"kind": "working", "importance": "normal", "expires_at": end},
        {"kind": "archive", "importance": "low", "expires_at": None},
    ]


def test_valid_values_of_the_row_win_and_others_do_not() -> None:
    table = {
        "text": ["Меня зовут Анна"] * 4,
        "kind": ["working", "nonsense", "note", None],
        "importance": ["low", "urgent", None, "medium"],
        "expires_at": pa.array([datetime(2027, 1, 1), None, None, None], TIMESTAMP),
    }
    assert [(row["kind"], row["importance"]) for row in classify(table)] == [
        ("working", "low"),
        ("nonsense", None),
        ("note", None),
        ("profile", "normal"),
    ]
    assert classify(table)[0]["expires_at"] == datetime(2027, 1, 1, 23, 59, 59, 999_999, tzinfo=UTC)


def test_a_kind_that_is_no_facts_is_never_changed() -> None:
    table = {"text": ["Меня зовут Анна"] * 5, "kind": ["working", "nonsense", "note", "line", None]}
    anew = {"kind": "profile", "importance": "high", "expires_at": None}
    unchanged = [{"kind": kind, "importance": None, "expires_at": None} for kind in ("nonsense", "note", "line")]
    assert classify(table, use_given=False) == [anew, *unchanged, anew]


def test_what_was_there_is_kept_as_given() -> None:
    judged = Classifier().transform(pa.table({"text": ["Архив"], "kind": ["nonsense"]}), as_of=AS_OF)
    assert judged.column_names == ["text", "given_kind", "keep", "reason", "kind", "importance", "expires_at"]
    assert judged["given_kind"].to_pylist() == ["nonsense"]


def test_empty_word_lists_leave_all_in_the_archive() -> None:
    assert classify({"text": ["Меня зовут Анна"]}, profile_words=(), working_words=())[0]["kind"] == "archive"


def test_the_preset_keeps_the_documents_lists_and_the_defaults_its_other_values() -> None:
    document, defaults = memory_v2_policy["classifier"], Classifier().check_params()
    assert {name for name in defaults if defaults[name] != document[name]} == {
        *("profile_words", "working_words", "lasting_words", "liked_words", "self_words", "self_subjects"),
        "beginnings",
    }
    assert document["working_words"] == (
        *("сейчас", "ставим", "чиним", "задача", "план", "делаем", "работаем над", "текущ"),
        *("currently", "now", "task", "plan", "working on"),
    )
    verdicts = classify({"text": ["Купил планшет", "Любит чай без сахара"]}, **document)
    assert [(row["kind"], row["importance"]) for row in verdicts] == [("working", "normal"), ("archive", "low")]
