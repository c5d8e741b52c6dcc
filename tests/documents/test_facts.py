"""Memory v2 as its authors would use it: the folder as the document says, and every operation that it names."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.change.facts import FactStore, Saved
from memkit.errors import ChangeRefusedError, NotFoundError, ParameterError, PolicyRefusal
from tests.folders import text_tree as tree

NOW = "2026-02-20"
HOME = "data/memory/users"
PROFILE = "- [id:pf_001] [t:profile] [imp:high] Пользователь предпочитает русский.\n"
WORKING = "- [id:wk_014] [t:working] [imp:normal] [exp:2026-03-01] Сейчас ставим simple-bot...\n"
ARCHIVE = "- [id:ar_120] [t:archive] [imp:low] Обсуждали структуру памяти.\n"
META = {"version": 2, "profileCount": 1, "workingCount": 1, "archiveCount": 1}
BOT = {
    f"{HOME}/test-user/profile.md": PROFILE,
    f"{HOME}/test-user/working.md": WORKING,
    f"{HOME}/test-user/archive.md": ARCHIVE,
    f"{HOME}/test-user/meta.json": json.dumps(META, indent=2) + "\n",
}
OLD = {"data/memory/boris.md": "# Борис\n- Пьёт чай без сахара.\n\n* Drives a red car.\n"}
BROUGHT = (
    "- [id:ar_001] [t:archive] [imp:low] Пьёт чай без сахара.\n- [id:ar_002] [t:archive] [imp:low] Drives a red car.\n"
)


def store(root: Path, files: dict[str, str], **options: Any) -> FactStore:
    """A store as the document's bot would have it: its lines know no day of their own."""
    return mk.store(mk.testing.write_files(root, files), **{"created_tag": False, "encoder": None} | options).facts


# --- the folder, and the operations on the document's own lines ---------------------------------------------------


@pytest.mark.quick
def test_the_documents_own_folder_is_healthy(tmp_path: Path) -> None:
    corpus = mk.read(mk.testing.write_files(tmp_path, BOT))
    assert corpus.problems.num_rows == 0
    assert corpus.memories["source_id"].to_pylist() == ["ar_120", "pf_001", "wk_014"]
    assert set(corpus.memories["user_id"].to_pylist()) == {"test-user"}


@pytest.mark.quick
def test_a_fact_is_saved_behind_the_last_and_nothing_else_changes(tmp_path: Path) -> None:
    """Memory v2, memory_save: the right .md, counters and version in meta.json."""
    facts = store(tmp_path, BOT)
    saved = [
        facts.save("test-user", "Меня зовут Анна, я из Казани.", now=NOW),
        facts.save("test-user", "Сейчас чиним пул соединений.", now=NOW),
        facts.save("test-user", "Ездила в Москву поездом.", now=NOW),
        facts.save(
            "test-user",
            "Готовит отчёт к пятнице.",
            {"type": "working", "importance": "high", "expiresAt": "2026-02-27"},
            now=NOW,
        ),
    ]
    assert [fact.id for fact in saved if isinstance(fact, Saved)] == ["pf_002", "wk_015", "ar_121", "wk_016"]
    after = tree(tmp_path)
    assert after[f"{HOME}/test-user/profile.md"] == (
        PROFILE + "- [id:pf_002] [t:profile] [imp:high] Меня зовут Анна, я из Казани.\n"
    )
    assert after[f"{HOME}/test-user/working.md"] == (
        f"{WORKING}- [id:wk_015] [t:working] [imp:normal] [exp:2026-03-06] Сейчас чиним пул соединений.\n"
        "- [id:wk_016] [t:working] [imp:high] [exp:2026-02-27] Готовит отчёт к пятнице.\n"
    )
    assert after[f"{HOME}/test-user/archive.md"] == (
        ARCHIVE + "- [id:ar_121] [t:archive] [imp:low] Ездила в Москву поездом.\n"
    )
    assert json.loads(after[f"{HOME}/test-user/meta.json"]) == {
        **META,
        **{"profileCount": 2, "workingCount": 3, "archiveCount": 2},
        "lastIds": {"pf": 2, "wk": 16, "ar": 121},
        "guessedEnds": ["wk_015"],  # the end of wk_016 was said
    }
    assert set(after) == set(BOT)
    assert mk.read(tmp_path).problems.num_rows == 0
    for _ in saved:
        mk.undo(tmp_path)
    assert tree(tmp_path) == BOT


@pytest.mark.quick
def test_facts_are_read_and_found(tmp_path: Path) -> None:
    """Memory v2, TTL, memory_search, memory_get; pre-retrieval has three blocks."""
    facts = store(tmp_path, BOT)
    assert facts.read("test-user", as_of="2026-03-01")["id"].to_pylist() == ["pf_001", "wk_014", "ar_120"]
    assert facts.read("test-user", as_of="2026-03-02")["id"].to_pylist() == ["pf_001", "ar_120"]
    assert facts.search("test-user", "структура памяти", as_of=NOW)["source_id"].to_pylist()[0] == "ar_120"
    assert facts.get("test-user", ["wk_014"])["text"].to_pylist() == ["Сейчас ставим simple-bot..."]
    assert facts.blocks("test-user", "структура памяти", as_of=NOW) == (
        "[PROFILE MEMORY]\n- Пользователь предпочитает русский.\n\n"
        "[WORKING MEMORY]\n- Сейчас ставим simple-bot...\n\n"
        "[RELEVANT MEMORY FOR THIS TURN]\n- Обсуждали структуру памяти."
    )
    assert tree(tmp_path) == BOT


def test_a_fact_is_changed_and_forgotten_and_the_other_bytes_stay(tmp_path: Path) -> None:
    """Memory v2, memory_update, memory_forget."""
    facts = store(tmp_path, BOT)
    with pytest.raises(PolicyRefusal, match="question"):
        facts.update("test-user", "ar_120", text="Как чиним очередь сообщений?", now=NOW)
    assert facts.update("test-user", "ar_120", text="Обсуждали формат памяти.", now=NOW) == "ar_120"
    assert facts.search("test-user", "формат", as_of=NOW)["source_id"].to_pylist() == ["ar_120"]
    path = f"{HOME}/test-user/archive.md"
    assert tree(tmp_path)[path] == "- [id:ar_120] [t:archive] [imp:low] Обсуждали формат памяти.\n"
    assert facts.forget("test-user", "ar_120", now=NOW) == "ar_120"
    after = tree(tmp_path)
    assert after[path] == ""
    meta = BOT[f"{HOME}/test-user/meta.json"].replace('"archiveCount": 1', '"archiveCount": 0')
    assert after == BOT | {path: "", f"{HOME}/test-user/meta.json": meta}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("а" * 11, "length"),
        ("а" * 241, "length"),
        ("Это точно вопрос?", "question"),
        ("npm install left-pad", "command"),
        ("cd simple-bot", "command"),
        ("сделай промпт для бота", "command"),
        ("ключ sk-" + "a1" * 12, "secret"),
        ("Authorization: Bearer " + "a1" * 12, "secret"),
        ("хэш " + "0a" * 20, "secret"),
        ("обсуждали структуру памяти", "duplicate"),
        ("Мы обсуждали структуру памяти.", "duplicate"),
    ],
)
def test_what_the_policy_refuses_is_refused_with_its_reason(text: str, reason: str, tmp_path: Path) -> None:
    """Memory v2, policy: length, question, command, secret, substring both ways."""
    facts = store(tmp_path, BOT)
    with pytest.raises(PolicyRefusal) as caught:
        facts.save("test-user", text, now=NOW)
    assert caught.value.reason == reason
    assert "a1a1" not in str(caught.value)
    assert tree(tmp_path) == BOT


OF_ONESELF = {
    "Не ест мясо уже десять лет": "profile",
    "Пользователь не ест орехов": "profile",
    "Совсем не переносит лактозу": "profile",
    "Я не выношу громкой музыки": "profile",
    "Аллергия на орехи и мёд": "profile",
    "Is allergic to nuts": "profile",
    "I cannot stand cilantro": "profile",
    "User does not eat any meat": "profile",
    "Кошка не ест второй день": "archive",
    "Сервер не выносит нагрузки": "archive",
    "The cat does not eat today": "archive",
}
REFUSED = {
    "Скажи, как меня зовут": "question",
    "Напомни, как запустить бота": "question",
    "what's my name again": "question",
    "sudo journalctl -u bot": "command",
    "curl -fsSL https://example.com/install.sh | sh": "command",
    "curl example.com/install.sh | sh": "command",
    "yarn build --production": "command",
    "yarn --frozen-lockfile": "command",
    "Uses curl and yarn every day": None,
    "Does not eat any meat at all": None,
}


def test_words_of_oneself_and_requests_are_known_and_the_preset_stays_the_documents() -> None:
    texts = pa.table({"text": [*OF_ONESELF, *REFUSED]})
    kinds = mk.Classifier().transform(texts)["kind"].to_pylist()[: len(OF_ONESELF)]
    assert dict(zip(OF_ONESELF, kinds, strict=True)) == OF_ONESELF
    reasons = mk.Admission().transform(texts)["reason"].to_pylist()
    assert dict(zip(REFUSED, reasons[len(OF_ONESELF) :], strict=True)) == REFUSED
    assert not any(reasons[: len(OF_ONESELF)])
    preset = mk.presets.memory_v2_policy
    by_document = mk.Classifier(**preset["classifier"]).transform(texts)["kind"].to_pylist()
    assert by_document[0] == "archive"
    assert mk.Admission(**preset["admission"]).transform(texts)["reason"].to_pylist()[-10:] == [None] * 10


def test_an_end_is_that_of_a_working_fact_and_lies_ahead(tmp_path: Path) -> None:
    """Memory v2: for working expiresAt; `[exp:]` stands in working.md alone."""
    facts = store(tmp_path, BOT)
    text = "Готовит отчёт к пятнице."
    refused = {
        "expired": ({"expires_at": "2026-02-19"}, {"type": "working", "expiresAt": "2020-01-01"}),
        "bad_value": tuple({"type": kind, "expires_at": "2026-03-01"} for kind in ("profile", "archive")),
    }
    for reason, metas in refused.items():
        for meta in metas:
            with pytest.raises(PolicyRefusal, match=reason) as caught:
                facts.save("test-user", text, meta, now=NOW)
            assert caught.value.reason == reason
    assert tree(tmp_path) == BOT
    saved = facts.save("test-user", text, {"expires_at": NOW}, now=NOW)
    assert isinstance(saved, Saved)
    assert (saved.id, saved.type, str(saved.expires_at)) == ("wk_015", "working", NOW)
    assert saved.id in facts.read("test-user", as_of=NOW)["id"].to_pylist()


# --- one home ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "home"),
    [
        ({}, "users"),
        ({"users/x/profile.md": ""}, "users"),
        ({"data/memory/.keep": ""}, HOME),
        (OLD, HOME),
        ({"data/memory/users/x/profile.md": ""}, HOME),
        ({"memory/boris.md": "- Пьёт чай.\n"}, "memory/users"),
        ({"memory/users/x/profile.md": ""}, "memory/users"),
        ({"MEMORY.md": "# Чай\n", "memory/2026-01-01.md": "- пул\n"}, "users"),
    ],
)
def test_users_have_one_home(files: dict[str, str], home: str, tmp_path: Path) -> None:
    facts = store(tmp_path, files)
    facts.save("anna", "Ездила в Москву поездом.", now=NOW)
    assert f"{home}/anna/archive.md" in tree(tmp_path)
    assert facts.read("anna", as_of=NOW)["path"].to_pylist() == [f"{home}/anna/archive.md"]
    memories = mk.read(tmp_path).memories
    assert f"{home}/anna/archive.md" in memories["path"].to_pylist()


def test_two_homes_at_once_are_a_problem_that_names_both(tmp_path: Path) -> None:
    both = BOT | {"users/eva/archive.md": ARCHIVE}
    (row,) = mk.read(mk.testing.write_files(tmp_path, both)).problems.to_pylist()
    assert (row["rule"], row["severity"], row["path"]) == ("two_homes", "warning", "users/eva/archive.md")
    assert "data/memory/users, users" in row["message"]
    facts = mk.store(tmp_path, encoder=None).facts
    assert facts.read("eva", as_of=NOW).num_rows == 0
    assert facts.read("test-user", as_of=NOW).num_rows == 3


# --- migration ---------------------------------------------------------------------------------------------------

AFTER = {
    f"{HOME}/boris/archive.md": BROUGHT,
    "data/memory/boris.md.bak": OLD["data/memory/boris.md"],
}
WRITES: dict[str, Callable[[FactStore], object]] = {
    "save": lambda facts: facts.save("boris", "Ездит в Москву поездом.", now=NOW),
    "forget": lambda facts: facts.forget("boris", query="red car", confirm=True, now=NOW),
    "update": lambda facts: facts.update("boris", "ar_001", text="Пьёт чай с мёдом.", now=NOW),
    "cleanup": lambda facts: facts.cleanup(now=NOW),
    "cleanup one": lambda facts: facts.cleanup("boris", now=NOW),
    "migrate": lambda facts: facts.migrate_user("boris", now=NOW),
}
READS: dict[str, Callable[[FactStore], object]] = {
    "read": lambda facts: facts.read("boris", as_of=NOW)["text"].to_pylist(),
    "search": lambda facts: facts.search("boris", "red car", as_of=NOW)["text"].to_pylist(),
    "blocks": lambda facts: facts.blocks("boris", "red car", as_of=NOW),
    "ask": lambda facts: facts.forget("boris", query="red car", now=NOW)["text"].to_pylist(),  # type: ignore[index,union-attr]  # candidates
}


@pytest.mark.parametrize("call", WRITES)
def test_the_first_access_that_writes_migrates(call: str, tmp_path: Path) -> None:
    facts = store(tmp_path, OLD)
    WRITES[call](facts)
    after = tree(tmp_path)
    old_text = OLD["data/memory/boris.md"]  # what is forgotten is forgotten there too
    assert after["data/memory/boris.md.bak"] == (
        old_text.replace("* Drives a red car.\n", "") if call == "forget" else old_text
    )
    assert "data/memory/boris.md" not in after
    if call in ("cleanup", "migrate"):
        assert {path: after[path] for path in AFTER} == AFTER
        assert json.loads(after[f"{HOME}/boris/meta.json"]) == {
            **{"version": 2, "profileCount": 0, "workingCount": 0, "archiveCount": 2, "lastIds": {"ar": 2}}
        }
    if call != "migrate":
        assert facts.migrated["id"].to_pylist() == [None, "ar_001", "ar_002"]
    assert [row for row in mk.read(tmp_path).problems.to_pylist() if row["rule"] != "not_a_fact"] == []
    while tree(tmp_path) != OLD:
        mk.undo(tmp_path)


@pytest.mark.parametrize("call", READS)
def test_what_reads_never_writes_and_shows_the_old_facts(call: str, tmp_path: Path) -> None:
    facts = store(tmp_path, OLD)
    assert "Drives a red car." in READS[call](facts)  # type: ignore[operator]  # a text or a list of them
    assert tree(tmp_path) == OLD
    assert not (tmp_path / ".memkit/journal").exists() or not list((tmp_path / ".memkit/journal").iterdir())


def test_a_dry_run_never_passes_over_a_migration_that_comes_first(tmp_path: Path) -> None:
    """The edits of a save, a forget or an update would name ids and files that the migration changes."""
    facts = store(tmp_path, BOT | OLD)
    for call in ("save", "forget", "update"):
        with pytest.raises(ChangeRefusedError, match=r"migrate_user\('boris', dry_run=True\)"):
            {
                "save": lambda: facts.save("boris", "Любит зелёный чай.", now=NOW, dry_run=True),
                "forget": lambda: facts.forget("boris", "ar_001", now=NOW, dry_run=True),
                "update": lambda: facts.update("boris", "ar_001", text="Любит чай.", now=NOW, dry_run=True),
            }[call]()
    shown = facts.cleanup(now=NOW, dry_run=True)
    assert isinstance(shown, mk.Edits)
    assert [row["path"] for row in shown.table.to_pylist() if row["op"] == "move"] == ["data/memory/boris.md"]
    assert tree(tmp_path) == BOT | OLD
    shown.apply()
    after = tree(tmp_path)
    facts = store(tmp_path / "other", BOT | OLD)
    facts.cleanup(now=NOW)
    assert after == tree(tmp_path / "other")


def test_a_dry_run_goes_on_where_nothing_can_be_migrated(tmp_path: Path) -> None:
    facts = store(tmp_path, FOLDER | OLD)
    assert isinstance(facts.save("boris", "Любит зелёный чай.", now=NOW, dry_run=True), mk.Edits)


def test_a_migration_says_what_became_of_each_line(tmp_path: Path) -> None:
    """Memory v2, data layout: {userId}.md is migrated with a .bak."""
    text = (
        "\ufeff# Борис\r\n- Пьёт чай.\r\nпросто строка\r\n\r\n- [id:ar_007] [t:archive] [imp:low] Бегает.\r\n* Drives."
    )
    table = store(tmp_path, BOT | {"data/memory/boris.md": text}).migrate_user("boris", now=NOW)
    assert [(row["line"], row["id"], row["text"], row["reason"].split(":")[0]) for row in table.to_pylist()] == [  # type: ignore[union-attr]  # no dry run
        (1, None, "# Борис", "no fact"),
        (2, "ar_008", "Пьёт чай.", "a line"),
        (3, "ar_009", "просто строка", "a line"),
        (5, "ar_007", "Бегает.", "a fact line"),
        (6, "ar_010", "Drives.", "a line"),
    ]
    assert tree(tmp_path)[f"{HOME}/boris/archive.md"] == (
        "- [id:ar_008] [t:archive] [imp:low] Пьёт чай.\r\n- [id:ar_009] [t:archive] [imp:low] просто строка\r\n"
        "- [id:ar_007] [t:archive] [imp:low] Бегает.\r\n- [id:ar_010] [t:archive] [imp:low] Drives.\r\n"
    )


ANNA = (
    "# Анна\n- Меня зовут Анна, я из Казани.\n1. Пользователь предпочитает русский.\nСейчас ставим simple-bot...\n"
    "- [exp:2026-03-01] Готовит отчёт к пятнице.\n- [exp:2026-02-01] Чинит старый пул.\n"
    "- [id:wk_014] [t:working] [imp:normal] [exp:2026-03-01] Сейчас чиним пул соединений.\n"
    "- Обсуждали структуру памяти.\n- Как меня зовут?\n- [id:pf_001] [t:archive] [imp:high] Летала в Омск.\n"
)


def test_a_migration_keeps_what_a_fact_is(tmp_path: Path) -> None:
    """Each line goes through the policies; an old task is no current one, and a cleanup removes nothing of them."""
    facts = store(tmp_path, {"data/memory/anna.md": ANNA})
    before = facts.read("anna", as_of=NOW, expired=True).select(["type", "importance", "text"]).to_pylist()
    assert [(row["type"], row["importance"]) for row in before] == [
        *[("profile", "high")] * 2,
        ("archive", "normal"),
        *[("working", "normal")] * 3,
        *[("archive", "low")] * 2,
        ("archive", "high"),
    ]
    (read,) = {
        tuple((row["kind"], row["importance"], row["text"]) for row in corpus.memories.to_pylist() if row["importance"])
        for corpus in (mk.read(tmp_path), mk.read(tmp_path / "data"), mk.read(tmp_path / "data/memory"))
    }
    assert read == tuple(tuple(row.values()) for row in before)
    assert "[PROFILE MEMORY]\n- Меня зовут Анна, я из Казани.\n" in facts.blocks("anna", "чай", as_of=NOW)
    facts.migrate_user("anna", now=NOW)
    after = tree(tmp_path)
    assert after[f"{HOME}/anna/profile.md"] == (
        "- [id:pf_002] [t:profile] [imp:high] Меня зовут Анна, я из Казани.\n"
        "- [id:pf_003] [t:profile] [imp:high] Пользователь предпочитает русский.\n"
    )
    assert after[f"{HOME}/anna/working.md"] == (
        "- [id:wk_015] [t:working] [imp:normal] [exp:2026-03-01] Готовит отчёт к пятнице.\n"
        "- [id:wk_014] [t:working] [imp:normal] [exp:2026-03-01] Сейчас чиним пул соединений.\n"
    )
    assert after[f"{HOME}/anna/archive.md"] == (
        "- [id:ar_001] [t:archive] [imp:normal] Сейчас ставим simple-bot...\n"
        "- [id:ar_002] [t:archive] [imp:normal] Чинит старый пул.\n"
        "- [id:ar_003] [t:archive] [imp:low] Обсуждали структуру памяти.\n"
        "- [id:ar_004] [t:archive] [imp:low] Как меня зовут?\n"
        "- [id:ar_005] [t:archive] [imp:high] Летала в Омск.\n"
    )
    assert mk.read(tmp_path).problems.num_rows == 0
    assert facts.cleanup(now="2026-02-28") == []
    assert facts.cleanup(now="2026-03-07") == ["wk_015", "wk_014"], "only what had an end of its own"


ODD = (
    "- [exp:2020-01-01] [imp:q] Меня зовут Анна\r\r[t:working] Чиним.\n1. [id:pf_001] [t:archive] Летала в \0Омск.\n"
    "[id:wk_2] [id:wk_2] [exp:2026-13-01] чай\n- [id:wk_2] [t:working] [imp:low] без конца\n* [t:profile] \n***\n"
)


def test_nothing_that_a_migration_writes_has_a_problem(tmp_path: Path) -> None:
    facts = store(tmp_path, {"data/memory/anna.md": ODD})
    texts = [row["text"] for row in facts.read("anna", as_of=NOW, expired=True).to_pylist()]
    assert texts[1:] == ["Летала в Омск.", "чай", "без конца"]
    facts.migrate_user("anna", now=NOW)
    assert mk.read(tmp_path).problems.num_rows == 0
    assert sorted(facts.read("anna", as_of=NOW, expired=True)["text"].to_pylist()) == sorted(texts)


def test_what_is_over_a_limit_becomes_archive_with_its_importance(tmp_path: Path) -> None:
    lines = "".join(f"- Меня зовут Анна, имя номер {number}.\n" for number in range(52))
    facts = store(tmp_path, {"data/memory/anna.md": lines})
    assert facts.read("anna", as_of=NOW)["type"].to_pylist() == ["profile"] * 50 + ["archive"] * 2
    table = facts.migrate_user("anna", now=NOW)
    assert [row["reason"] for row in table.to_pylist()][-1] == (  # type: ignore[union-attr]  # no dry run
        "a line: it becomes an archive fact, high: over the limit of 50 profile facts"
    )
    assert facts.read("anna", as_of=NOW)["importance"].to_pylist() == ["high"] * 52


BESIDE: dict[str, dict[str, str]] = {
    "alone": {},
    "an empty file": {"other.md": ""},
    "a README": {"README.md": "# Память\n\nКак здесь всё устроено.\n"},
    "a folder": {"backup/boris.md": "- Пьёт чай.\n"},
    "a workspace": {"MEMORY.md": "# Чай\n", "2026-02-03.md": "- 10:15 пул\n"},
}


@pytest.mark.parametrize("root", ["", "data", "data/memory"])
def test_an_old_user_is_one_whatever_lies_beside_and_whoever_saved_first(root: str, tmp_path: Path) -> None:
    for number, (name, others) in enumerate(BESIDE.items()):
        project = tmp_path / str(number)
        files = {"anna.md": "- Пьёт чай без сахара.\n2. Drives a red car.\n", **others}
        mk.testing.write_files(project, {f"data/memory/{path}": text for path, text in files.items()})
        facts = mk.store(project / root, encoder=None).facts
        before = facts.read("anna", as_of=NOW).to_pylist()
        assert [row["text"] for row in before] == ["Пьёт чай без сахара.", "Drives a red car."], name
        facts.save("boris", "Ездила в Москву поездом.", now=NOW)
        assert facts.read("anna", as_of=NOW).to_pylist() == before, name
        assert f"{HOME}/boris/archive.md" in tree(project), name
        read = mk.read(project / root).sql("select text from memories where user_id = 'anna'")
        assert [text for (text,) in read.fetchall()] == ["Пьёт чай без сахара.", "Drives a red car."], name


def test_an_empty_old_file_is_a_user_without_facts_and_a_page_is_no_user(tmp_path: Path) -> None:
    """A page has front matter, sections, code, a name in capitals or a date, or an index names it."""
    entry = {"title": "Чай", "file": "memory/named.md", "tags": [], "priority": "low", "version": "1.0"}
    pages = {
        "anna.md": "",
        "front.md": "---\na: b\n---\n- чай\n",
        "sections.md": "# Чай\n- зелёный\n## Мёд\n- липовый\n",
        "setext.md": "Чай\n===\n\nЗелёный.\n",
        "code.md": "```\n- чай\n```\n",
        "README.md": "- чай\n",
        "2025-01-02-x.txt": "",
        "named.md": "- чай\n",
        "index.json": json.dumps(
            {"type": "index-root", "branches": [{"category": "tea", "path": "memory/tea/index.json"}]}
        ),
        "tea/index.json": json.dumps({"type": "index-branch", "category": "tea", "files": [entry]}),
    }
    facts = store(tmp_path, {f"data/memory/{path}": text for path, text in pages.items()})
    assert facts.read("anna", as_of=NOW).schema.metadata == {b"memkit": b"facts"}, "known, and without facts"
    assert "no user" in str(facts.read("named", as_of=NOW).schema.metadata)
    assert set(mk.read(tmp_path).memories["format"].to_pylist()) == {"workspace", "index_tree"}
    facts.cleanup(now=NOW)
    assert tree(tmp_path).keys() == {
        *(f"data/memory/{path}" for path in pages if path != "anna.md"),
        *(f"{HOME}/anna/meta.json", "data/memory/anna.md.bak"),
    }


FOLDER = {f"{HOME}/boris/profile.md": PROFILE}
NOTHING: dict[str, tuple[dict[str, str], type[mk.MemkitError], str]] = {
    "no such user": (BOT | OLD, NotFoundError, r"no user 'bori'. Near it: boris"),
    "no old file": (FOLDER, NotFoundError, r"nothing to migrate: no data/memory/boris\.md"),
    "migrated": (FOLDER | {"data/memory/boris.md.bak": "- Пьёт чай.\n"}, ChangeRefusedError, "migrated already"),
    "folder": (FOLDER | OLD, ChangeRefusedError, "data/memory/users/boris/ exists already"),
    "kept name": (OLD | BOT | {"data/memory/boris.md.bak": ""}, ChangeRefusedError, r"boris\.md\.bak, which exists"),
    "no line": (BOT | {"data/memory/boris.md": "***\n"}, ChangeRefusedError, "no line of it is a fact"),
    "a page": (BOT | {"data/memory/boris.md": "# Чай\n## Мёд\n- чай\n"}, ChangeRefusedError, "no user's file"),
    "workspace": (
        {"data/memory/boris.md": "чай\n", "data/memory/2026-01-02.md": "План.\n"},
        ChangeRefusedError,
        "no user's file",
    ),
}


@pytest.mark.parametrize("case", NOTHING)
def test_a_migration_that_can_do_nothing_says_which_of_its_reasons_it_is(case: str, tmp_path: Path) -> None:
    files, error, message = NOTHING[case]
    facts = store(tmp_path, files)
    with pytest.raises(error, match=message):
        facts.migrate_user("bori" if case == "no such user" else "boris", now=NOW)
    assert tree(tmp_path) == files


# --- cleanup -----------------------------------------------------------------------------------------------------


def test_cleanup_deletes_what_is_past_its_day_in_working_alone_and_lists_it_first(tmp_path: Path) -> None:
    """Memory v2, TTL and cleanup."""
    stray = "- [id:ar_121] [t:archive] [imp:low] [exp:2026-01-01] Купил планшет.\n"
    files = BOT | {f"{HOME}/test-user/archive.md": ARCHIVE + stray}
    files[f"{HOME}/test-user/meta.json"] = json.dumps({**META, "archiveCount": 2})
    facts = store(tmp_path, files)
    edits = facts.cleanup(now="2026-03-02", dry_run=True)
    assert isinstance(edits, mk.Edits)
    assert edits.table["before"].to_pylist()[0] == WORKING
    assert tree(tmp_path) == files
    assert facts.cleanup(now="2026-03-01") == []
    assert facts.cleanup(now="2026-03-02") == ["wk_014"]
    assert tree(tmp_path)[f"{HOME}/test-user/working.md"] == ""
    assert tree(tmp_path)[f"{HOME}/test-user/archive.md"] == ARCHIVE + stray
    mk.undo(tmp_path)
    assert tree(tmp_path) == files


def test_what_ended_by_a_guess_alone_can_go_to_the_archive(tmp_path: Path) -> None:
    facts = store(tmp_path, BOT)
    facts.save("test-user", "Сейчас чиним пул соединений.", now=NOW)
    facts.save("test-user", "Планирую отпуск в апреле.", now=NOW)
    assert facts.cleanup(guessed="archive", now="2026-04-01") == ["wk_014", "wk_015", "wk_016"]
    after = tree(tmp_path)
    assert after[f"{HOME}/test-user/working.md"] == ""
    assert after[f"{HOME}/test-user/archive.md"] == (
        f"{ARCHIVE}- [id:ar_121] [t:archive] [imp:normal] Сейчас чиним пул соединений.\n"
        "- [id:ar_122] [t:archive] [imp:normal] Планирую отпуск в апреле.\n"
    )
    meta = json.loads(after[f"{HOME}/test-user/meta.json"])
    assert (meta["workingCount"], meta["archiveCount"], meta["guessedEnds"]) == (0, 3, [])
    assert mk.read(tmp_path).problems["rule"].to_pylist() == ["empty_text"]
    with pytest.raises(ParameterError, match="guessed"):
        facts.cleanup(guessed="keep")


def test_a_lasting_fact_has_no_end(tmp_path: Path) -> None:
    facts = store(tmp_path, BOT)
    for text, type, importance in (
        ("Аллергия на плановые прививки", "profile", "high"),
        ("Купил планшет", "archive", "low"),
        ("Is a task force veteran", "archive", "low"),
        ("Любит короткие ответы", "archive", "normal"),
    ):
        saved = facts.save("test-user", text, now=NOW)
        assert isinstance(saved, Saved)
        assert (saved.type, saved.importance, saved.expires_at) == (type, importance, None)
    assert facts.cleanup(now="2030-01-01") == ["wk_014"]


# --- limits ------------------------------------------------------------------------------------------------------


def test_a_full_archive_takes_a_new_fact_and_the_oldest_low_one_goes(tmp_path: Path) -> None:
    lines = [f"- [id:ar_{n:03d}] [t:archive] [imp:normal] Факт под номером {n * 7919}.\n" for n in range(1, 501)]
    facts = store(tmp_path, {f"{HOME}/anna/archive.md": "".join(lines)})
    first = facts.save("anna", "Ездила в Москву поездом.", now=NOW)
    second = facts.save("anna", "Слушала оперу в Вене.", now=NOW)
    assert isinstance(first, Saved)
    assert isinstance(second, Saved)
    assert (first.importance, first.evicted) == ("low", ("ar_001",))
    assert second.evicted == (first.id,) or second.evicted == ("ar_002",)
    assert facts.read("anna", as_of=NOW).num_rows == 500
    assert mk.Quota().transform(mk.read(tmp_path), as_of=NOW)["keep"].to_pylist() == [True] * 500


# --- words in place of ids ---------------------------------------------------------------------------------------

FACT_TEXTS = [
    "Не ест мясо, рыбу ест.",
    "В самолёте садится у прохода.",
    "Боится летать, едет поездом.",
    "Дежурит по чётным неделям.",
    "Живёт в Казани с 2019 года.",
    "Просит не ставить смайлики в сообщениях.",
    "Wants amounts with the currency.",
    "Allergic to nuts.",
    "Approves hotels up to 90 euros a night.",
    "Travels with hand luggage only.",
]


def test_a_query_offers_five_with_scores_and_gaps_and_confirm_decides(tmp_path: Path) -> None:
    facts = store(tmp_path, {})
    for text in FACT_TEXTS:
        facts.save("anna", text, now=NOW)
    before = tree(tmp_path)
    candidates = facts.forget("anna", query="у прохода в самолёте, боится летать", now=NOW)
    rows = candidates.to_pylist()  # type: ignore[union-attr]  # candidates
    assert rows[0]["text"] == "В самолёте садится у прохода."
    assert 2 <= len(rows) <= 5
    scores = [row["score"] for row in rows]
    assert [row["gap"] for row in rows] == [*(a - b for a, b in pairwise(scores)), None]
    with pytest.raises(NotFoundError, match=r"score of 1.00. The best: ar_\d+ 0\.\d\d, "):
        facts.forget("anna", query="летать", confirm=True, least_score=1.0, now=NOW)
    for nonsense in ("xyzzy", "favourite football team", "адрес стоматолога"):
        for change in (facts.forget, partial(facts.update, text="Анна пьёт кофе по утрам.")):
            with pytest.raises(NotFoundError, match=f"no fact answers '{nonsense}'"):
                change("anna", query=nonsense, confirm=True, now=NOW)
    assert tree(tmp_path) == before
    assert facts.forget("anna", query="летать", confirm=True, now=NOW) is not None
    assert facts.read("anna", as_of=NOW).num_rows == len(FACT_TEXTS) - 1
    with pytest.raises(ParameterError, match="'least_score' must be a float in"):
        mk.store(tmp_path, least_score=3.0)


# --- a new user, and what is no argument -------------------------------------------------------------------------


def test_a_new_user_has_empty_results_and_the_note_names_near_ones(tmp_path: Path) -> None:
    facts = store(tmp_path, BOT | OLD)
    for table in (facts.read("test-usr"), facts.search("test-usr", "чай"), facts.forget("test-usr", query="чай")):
        assert table.num_rows == 0  # type: ignore[union-attr]  # candidates
        assert b"Near it: test-user" in table.schema.metadata[b"note"]  # type: ignore[union-attr]
    assert b"Near it: boris" in facts.read("boriss").schema.metadata[b"note"]
    assert facts.blocks("new", "Привет!") == ""
    with pytest.raises(NotFoundError, match="no fact"):
        facts.forget("new", "ar_001")


BAD: dict[str, Callable[[FactStore], object]] = {
    "user": lambda facts: facts.save(5, "Ездила в Москву поездом."),  # type: ignore[arg-type]
    "text": lambda facts: facts.save("anna", 5),  # type: ignore[arg-type]
    "meta": lambda facts: facts.save("anna", "Ездила в Москву поездом.", "working"),  # type: ignore[arg-type]
    "meta key": lambda facts: facts.save("anna", "Ездила в Москву поездом.", {5: 5}),  # type: ignore[dict-item]
    "end": lambda facts: facts.save("anna", "Ездила в Москву поездом.", {"expires_at": 5}),
    "end twice": lambda facts: facts.save(
        "anna", "Ездила в Москву поездом.", {"expires_at": "2026-03-01", "expiresAt": "2026-03-02"}
    ),
    "type": lambda facts: facts.save("anna", "Ездила в Москву поездом.", {"type": []}),
    "a type": lambda facts: facts.save("anna", "Ездила в Москву поездом.", {"type": "secret"}),
    "importance": lambda facts: facts.save("anna", "Ездила в Москву поездом.", {"importance": "medium"}),
    "no day": lambda facts: facts.save("anna", "Ездила в Москву поездом.", {"expires_at": "2026-02-30"}),
    "other key": lambda facts: facts.save("anna", "Ездила в Москву поездом.", {"colour": "red"}),
    "query": lambda facts: facts.search("anna", 5),  # type: ignore[arg-type]
    "k": lambda facts: facts.search("anna", "чай", k="5"),  # type: ignore[arg-type]
    "ids": lambda facts: facts.get("anna", "pf_001"),
    "an id": lambda facts: facts.get("anna", [5]),  # type: ignore[list-item]
    "forget id": lambda facts: facts.forget("anna", 5),  # type: ignore[arg-type]
    "forget query": lambda facts: facts.forget("anna", query=5, confirm=True),  # type: ignore[arg-type]
    "confirm": lambda facts: facts.forget("anna", query="чай", confirm="yes"),  # type: ignore[arg-type]
    "update": lambda facts: facts.update("anna", "pf_001", text=None),  # type: ignore[arg-type]
    "both": lambda facts: facts.forget("anna", "pf_001", "чай"),
    "neither": lambda facts: facts.forget("anna"),
    "message": lambda facts: facts.blocks("anna", None),  # type: ignore[arg-type]
    "cleanup": lambda facts: facts.cleanup(5),  # type: ignore[arg-type]
    "migrate": lambda facts: facts.migrate_user(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", BAD)
def test_what_is_no_argument_gets_a_message_of_ours(call: str, tmp_path: Path) -> None:
    facts = store(tmp_path, {"users/anna/profile.md": PROFILE})
    with pytest.raises(ParameterError):
        BAD[call](facts)
    assert tree(tmp_path) == {"users/anna/profile.md": PROFILE}


def test_what_a_store_documents_can_be_given_where_it_is_made(tmp_path: Path) -> None:
    for tag in (True, False):
        root = mk.testing.write_files(tmp_path / str(tag), {"a.txt": ""})
        mk.store(root, encoder=None, created_tag=tag).facts.save("anna", "Ездила в Москву поездом.", now=NOW)
        assert ("[created:2026-02-20]" in tree(root)["users/anna/archive.md"]) == tag
    with pytest.raises(ParameterError, match="created_tag"):
        mk.store(tmp_path, created_tag="no")  # type: ignore[arg-type]
