"""The ten tools without a server: what each gives, what is logged, and that no answer can break the wire."""

from __future__ import annotations

import inspect
import json
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import memkit as mk
from memkit.errors import ChangeRefusedError, MemkitError, NotFoundError, ParameterError, PolicyRefusal
from memkit.formats import reader
from memkit.formats.disk.files import list_files as listed
from memkit.serve.tools import LIMITS, Tools, visible_to


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    root = mk.testing.write_files(
        tmp_path / "root",
        {"MEMORY.md": "# Чай\n\nЛюбит зелёный чай.\n", "memory/2026-01-01.md": "# Пул\n\nДесять соединений.\n"},
    )
    return Tools(root, {"encoder": None})


def log_of(tools: Tools) -> list[dict[str, object]]:
    path = tools.root / ".memkit/calls.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


@pytest.mark.quick
def test_search_get_and_the_log_that_tuning_reads(tools: Tools) -> None:
    """Workspace, MCP tools: memory_search; Memory v2: memory_get by the ids of memory_search."""
    (first, *_) = tools.memory_search("зелёный чай", k=1)["results"]
    assert first["file_path"] == "MEMORY.md"
    assert 0 < first["score"] <= 1
    got = [hit["content"] for ids in ([], [first["chunk_id"]]) for hit in tools.memory_get(ids)["results"]]
    assert got == [first["content"]]
    tools.memory_search("ничего такого xyz")
    rows = log_of(tools)
    assert {key for row in rows for key in row} == {
        "query_id",
        "text",
        "user_id",
        "time",
        "session",
        "parameters",
        "shown",
        "used",
    }
    assert "Любит" not in json.dumps(rows, ensure_ascii=False)
    queries, qrels = mk.labels.import_log(tools.root / ".memkit/calls.jsonl")
    assert queries["text"].to_pylist() == ["зелёный чай"]
    assert qrels.select(["memory_id", "relevance"]).to_pylist() == [{"memory_id": first["memory_id"], "relevance": 1.0}]


@pytest.mark.quick
def test_what_is_written_is_found_at_once(tools: Tools) -> None:
    """Workspace, MCP tools: memory_append, memory_log, memory_context; a store's index follows its writes."""
    assert tools.memory_append("Живёт в Казани.")["id"] == "MEMORY.md"
    assert tools.memory_log("Выкатили бота.")["ok"]
    assert "Казани" in tools.memory_search("Казань", k=1)["results"][0]["content"]
    text = tools.memory_context()["text"]
    assert "Казани" in text
    assert "Выкатили бота." in text
    assert "Десять" not in text
    assert int(tools.memory_reindex()["id"]) >= 3


@pytest.mark.parametrize(("encoding", "newline"), [("utf-8-sig", "\r\n"), ("cp1251", "\n")])
def test_a_file_is_given_as_it_is_read(encoding: str, newline: str, tmp_path: Path) -> None:
    text = "# Чай\n\n" + "Зелёный чай стоит на верхней полке, чёрный лежит в ящике у окна.\n" * 3
    (tmp_path / "MEMORY.md").write_text(text, encoding, newline=newline)
    tools = Tools(tmp_path, {"encoder": None}, log=False)
    assert tools.memory_read(path="MEMORY.md")["text"] == tools.memory_context()["text"] == text


@pytest.mark.quick
def test_what_is_new_is_encoded_beside_the_calls(tmp_path: Path) -> None:
    may_encode, texts = Event(), [f"# Пул {number}\n\nсоединений: {number}\n" for number in range(3)]
    root = mk.testing.write_files(tmp_path, {"MEMORY.md": "\n".join(texts)})

    def encode(texts: list[str]) -> list[list[float]]:
        may_encode.wait(60)
        return [[float(len(text)), 1.0] for text in texts]

    tools = Tools(root, {"encoder": mk.extend.as_encoder(encode)}, log=False, encode_limit=2)
    asked = tools.memory_search("соединений")
    assert len(asked["results"]) == 3
    assert "3 of 3 texts are not encoded; they are encoded beside the calls." in asked["note"]
    encoding = tools.live._encoding
    assert encoding is not None
    tools.memory_append("Живёт в Казани.")
    assert "Казани" in tools.memory_search("Казань", k=1)["results"][0]["content"]  # what is written meanwhile is found
    may_encode.set()
    encoding.join(60)
    assert "encoded" not in tools.memory_search("соединений")["note"]
    assert "vector" in tools.live.retriever().arms_


def test_a_call_walks_once_over_a_folder_that_did_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"a/{name}.md": f"# {name}\n\nчай\n" for name in ("one", "two")}
    root = mk.testing.write_files(tmp_path, {**texts, "b/users/anna/profile.md": "- [pf_001] любит чай\n"})
    tools, of_anna = Tools(root, {"encoder": None}, log=False), Tools(root, {"encoder": None}, log=False, user="anna")
    time.sleep(0.03)  # within a tick of the clock a file may change under the same stat
    answers = [tools.memory_search("чай"), of_anna.memory_search("чай")]
    walks = list[Path]()
    monkeypatch.setattr(reader, "read_listing", lambda *_: pytest.fail("the folder was read again"))
    monkeypatch.setattr(
        reader, "list_files", lambda root, *args, **named: walks.append(root) or listed(root, *args, **named)
    )
    assert [tools.memory_search("чай"), of_anna.memory_search("чай")] == answers
    assert len(walks) == 2
    with pytest.raises(NotFoundError, match=r"there is no file 'a/ones.md'. Near it: a/one.md"):
        tools.memory_read("a/ones.md")
    assert len(walks) == 2  # the names of that folder are enough
    with pytest.raises(NotFoundError, match=r"Near it: a/one.md"):
        of_anna.memory_read("a/ones.md")
    assert of_anna.memory_read("b/users/anna/profile.md")["text"]
    assert len(walks) == 4


def test_facts_are_saved_read_changed_and_forgotten(tools: Tools) -> None:
    """Memory v2, MemorySkill."""
    saved = tools.memory_save("Обсуждали структуру памяти.", "anna")
    assert (saved["ok"], saved["id"]) == (True, "ar_001")
    assert tools.memory_read(user_id="anna")["text"] == "- [ar_001] [archive] Обсуждали структуру памяти."
    hit = tools.memory_search("структура памяти", user_id="anna")["results"][0]
    assert hit["fact_id"] == "ar_001"
    assert tools.memory_search("структура памяти", user_id="boris")["results"] == []
    assert tools.memory_update("anna", "Обсуждали формат памяти и строк.", fact_id="ar_001")["ok"]
    answer = tools.memory_forget("anna", query="формат памяти")
    assert (answer["ok"], [hit["fact_id"] for hit in answer["candidates"]]) == (False, ["ar_001"])
    assert "Nothing was changed" in answer["message"]
    assert tools.memory_forget("anna", fact_id="ar_001")["ok"]
    assert tools.memory_read(user_id="anna")["text"] == ""
    with pytest.raises(PolicyRefusal):
        tools.memory_save("Как дела?", "anna")


def test_blocks_of_a_user_are_the_context(tools: Tools) -> None:
    tools.memory_save("Меня зовут Анна, я из Казани.", "anna")
    assert tools.memory_context("anna", "кто я?")["text"].startswith("[PROFILE MEMORY]\n- Меня зовут Анна")
    assert tools.memory_context("nobody", "кто я?")["text"] == ""


def test_a_profile_says_how_policies_search_and_blocks_are_set(tmp_path: Path) -> None:
    profile = mk.Profile(
        retriever={"encoder": None, "min_score": 0.99},
        policies={"admission": {"min_chars": 3}, "quota": {"max_profile": 1}, "expiry": {"grace_days": 10}},
        context={"profile_chars": 12},
    )
    (tmp_path / "root").mkdir()
    tools = Tools(tmp_path / "root", log=False, profile=profile)
    assert tools.memory_save("Зовут Аня", "anna")["ok"]
    with pytest.raises(PolicyRefusal, match="limit"):
        tools.memory_save("Предпочитает письма звонкам.", "anna")
    facts = tools.store.facts
    facts.save("anna", "Сейчас чиним пул соединений.", {"expires_at": "2026-02-20"}, now="2026-02-10")
    assert facts.read("anna", as_of="2026-03-01")["type"].to_pylist() == ["profile", "working"]
    assert facts.cleanup(now="2026-03-01") == []
    assert tools.memory_context("anna", "пул")["text"].startswith("[PROFILE MEMORY]\n- Зовут Аня")
    assert tools.memory_search("письма и соединения", user_id="anna")["results"] == []
    assert facts.search("anna", "письма и соединения").num_rows == 0


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", ".memkit/lock", "a/../../b", "link.md"])
def test_no_path_leads_out(path: str, tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("тайна")
    (tools.root / "link.md").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(ChangeRefusedError):
        tools.memory_read(path=path)


def test_what_is_wrong_is_said(tools: Tools) -> None:
    with pytest.raises(NotFoundError, match=r"Near it: MEMORY[.]md"):
        tools.memory_read(path="MEMORI.md")
    for call in (
        lambda: tools.memory_read(),
        lambda: tools.memory_read("a", "b"),
        lambda: tools.memory_search("a", k=0),
        lambda: tools.memory_append("  "),
        lambda: tools.memory_search("a", user_id="../x"),
    ):
        with pytest.raises(ParameterError):
            call()
    with pytest.raises(NotFoundError, match="no chunk"):
        tools.memory_get(["none"])


def test_a_secret_in_a_query_is_masked_in_the_log_and_no_log_is_none(tools: Tools) -> None:
    secret = "sk-" + "a1B2" * 8
    tools.memory_search(f"ключ {secret}")
    assert secret not in (tools.root / ".memkit/calls.jsonl").read_text("utf-8")
    silent = Tools(tools.root, {"encoder": None}, log=False)
    before = log_of(tools)
    silent.memory_search("чай")
    assert log_of(tools) == before


def test_half_a_character_is_written_as_one_replacement_character(tools: Tools) -> None:
    tools.memory_append("чай\udcff🍯")
    assert "чай\ufffd🍯" in (tools.root / "MEMORY.md").read_text("utf-8")


def holding(word: str, *folders: Path) -> set[str]:
    """The files that hold a word."""
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path.name for path in paths if word.encode() in path.read_bytes()}


def test_what_was_forgotten_is_in_no_query_of_the_log(tools: Tools) -> None:
    """Memory v2, tools: memory_forget; the log holds queries, and a query can quote the text."""
    saved = tools.memory_save("Обсуждали тайное слово кукумбер.", "anna")["id"]
    tools.memory_save("Обсуждали погоду на море.", "anna")
    tools.memory_search("зелёный чай")
    tools.memory_search("обсуждали  Тайное слово кукумбер. Что это?", user_id="boris")  # quotes it and finds nothing
    tools.memory_search("слово кукумбер", user_id="boris")  # a part of it
    tools.memory_search("кукумбер", user_id="anna")
    with (tools.root / ".memkit/calls.jsonl").open("a", encoding="utf-8") as log:
        log.write("строка не наша\n")
    other = Tools(tools.root, {"encoder": None})  # another server, whose last search found both
    chunk_ids = [hit["chunk_id"] for hit in other.memory_search("обсуждали", user_id="anna")["results"]]
    tools.memory_forget("anna", fact_id=saved)
    assert "calls.jsonl" in holding("кукумбер", tools.root)
    cleared = mk.undo(tools.root, clear=True)
    assert holding("кукумбер", tools.root) == set()
    assert cleared.schema.metadata[b"note"].startswith(b"Old texts of 3 changes are gone, and 4 lines")
    assert (tools.root / ".memkit/calls.jsonl").read_text("utf-8").endswith("}\nстрока не наша\n")
    remaining = [chunk for chunk in chunk_ids if saved not in chunk]
    assert remaining
    other.memory_get(remaining)  # it was of use: of a query that is not in the log any more nothing is said
    assert [row["text"] for row in log_of_ours(tools)] == ["зелёный чай"]
    other.memory_search("погода", user_id="anna")
    other.memory_get(remaining)
    assert [row["text"] for row in log_of_ours(tools)] == ["зелёный чай", "погода", "погода"]


def test_clearing_that_is_cut_off_can_be_done_again(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory v2, tools: memory_forget; the old texts, which tell what else is to go, go last."""
    saved = tools.memory_save("Обсуждали тайное слово кукумбер.", "anna")["id"]
    tools.memory_search("кукумбер")
    tools.memory_forget("anna", fact_id=saved)
    log, aside = tools.root / ".memkit/calls.jsonl", tools.root / ".memkit/aside.jsonl"
    log.rename(aside)
    log.symlink_to(aside)
    with pytest.raises(ChangeRefusedError, match="link"):
        mk.undo(tools.root, clear=True)
    aside.replace(log)
    with monkeypatch.context() as patch:
        patch.setattr("memkit.search.fitted.store.forget", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mk.undo(tools.root, clear=True)
    assert holding("кукумбер", tools.root)
    mk.undo(tools.root, clear=True)
    assert holding("кукумбер", tools.root) == set()


def log_of_ours(tools: Tools) -> list[dict[str, object]]:
    lines = (tools.root / ".memkit/calls.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


LONG = [
    ("memory_search", {"query": "чай " * 1_250_000}),
    ("memory_context", {"user_id": "anna", "message": "м" * 10_001}),
    ("memory_append", {"content": "м" * 100_001}),
    ("memory_log", {"content": "м" * 100_001}),
    ("memory_read", {"path": "м" * 1_001}),
    ("memory_read", {"user_id": "a" * 201}),
    ("memory_get", {"chunk_ids": ["a"] * 101}),
    ("memory_save", {"user_id": "anna", "text": "м" * 10_001}),
    ("memory_forget", {"user_id": "anna", "fact_id": "a" * 201}),
    ("memory_forget", {"user_id": "anna", "query": "м" * 10_001}),
    ("memory_update", {"user_id": "anna", "text": "м" * 10_001, "fact_id": "pf_001"}),
]


@pytest.mark.parametrize(("name", "arguments"), LONG, ids=[f"{name} {max(arguments)}" for name, arguments in LONG])
def test_what_is_over_its_limit_is_refused_and_leaves_nothing(
    name: str, arguments: dict[str, object], tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object) -> None:
        raise AssertionError("it cost something")

    monkeypatch.setattr("memkit.serve.tools.Live.retriever", never)
    before = {path: path.read_bytes() for path in tools.root.rglob("*") if path.is_file()}
    with pytest.raises(
        (ParameterError, PolicyRefusal), match=r"expected [\d,]+ (characters|ids) at most\. Got [\d,]+\."
    ):
        getattr(tools, name)(**arguments)
    assert {path: path.read_bytes() for path in tools.root.rglob("*") if path.is_file()} == before


def test_every_tool_says_its_limits() -> None:
    assert Tools.memory_search.__doc__ is not None
    assert Tools.memory_search.__doc__.endswith(
        " Limits: query 10,000 characters, user_id 200 characters, scope 1,000 characters."
    )
    for name in (*Tools.READING, *Tools.WRITING):
        method = getattr(Tools, name)
        for argument in LIMITS.keys() & inspect.signature(method).parameters.keys():
            assert f"{argument} {LIMITS[argument]:,} " in method.__doc__
    assert "cut at 1,000,000 characters" in str(Tools.memory_read.__doc__)


def test_what_is_at_its_limit_is_taken(tools: Tools) -> None:
    assert tools.memory_search(("чай " * 2_500)[:10_000])["results"]
    assert tools.memory_append("м" * 100_000)["ok"]
    assert len(tools.memory_get([tools.memory_search("чай", k=1)["results"][0]["chunk_id"]] * 100)["results"]) == 100


def test_a_context_and_facts_are_cut_as_a_file_is(tools: Tools) -> None:
    (tools.root / "MEMORY.md").write_text("м" * 2_000_000, encoding="utf-8")
    (tools.root / "users/anna").mkdir(parents=True)
    (tools.root / "users/anna/archive.md").write_text(
        f"- [id:ar_001] [t:archive] [imp:low] {'м' * 2_000_000}\n", "utf-8"
    )
    for text in (
        tools.memory_context()["text"],
        tools.memory_read(path="MEMORY.md")["text"],
        tools.memory_read(user_id="anna")["text"],
    ):
        assert text.endswith("м\n[cut at 1000000 characters]")
        assert text.index("\n[cut") == 1_000_000


ANOTHERS = "кукумбер"
"""A word that all of boris's and nothing else has."""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    def item(user: str, text: str) -> dict[str, str]:
        return {"user_id": user, "input": text, "response": text, "timestamp": "2026-01-01T00:00:00Z"}

    return mk.testing.write_files(
        tmp_path / "shared",
        {
            "MEMORY.md": "# Чай\n\nОбщее: чай зелёный.\n",
            "users/anna/profile.md": "- [id:pf_001] [t:profile] [imp:high] Любит зелёный чай.\n",
            "users/boris/profile.md": f"- [id:pf_777] [t:profile] [imp:high] Любит {ANOTHERS}.\n",
            "users/boris/notes.md": f"# {ANOTHERS}\n\nЧай {ANOTHERS}.\n",
            "users/boris/deep/er.md": f"# Глубже\n\nКофе и {ANOTHERS}.\n",
            "users/boris/meta.json": '{"version": 2, "profile_count": 1}\n',
            "users/boris.md.bak": f"- {ANOTHERS}\n",
            "items/both.json": json.dumps([item("anna", "чай утром"), item("boris", f"{ANOTHERS} утром")]),
            "items/own.json": json.dumps([item("anna", "чай вечером")]),
            "items/anothers.json": json.dumps([item("boris", f"{ANOTHERS} днём")]),
        },
    )


def answer_of(tools: Tools, name: str, **arguments: Any) -> str:
    """All that a tool says, or the words of its refusal, but for what it was asked."""
    try:
        answer = json.dumps(getattr(tools, name)(**arguments), ensure_ascii=False)
    except MemkitError as error:
        answer = str(error)
    for argument in arguments.values():
        for word in argument if isinstance(argument, list) else [argument]:
            answer = answer.replace(repr(word), "")
    return answer


def test_of_a_server_of_one_user_no_other_is_reached_by_any_tool(shared: Path) -> None:
    everything = Tools(shared, {"encoder": None}, log=False)
    hits = everything.memory_search(ANOTHERS, k=100)["results"]
    assert {hit["file_path"] for hit in hits} >= {"users/boris/profile.md", "items/both.json", "users/boris/deep/er.md"}
    tools = Tools(shared, {"encoder": None}, user="anna")
    answers = [
        answer_of(tools, "memory_search", query=f"{ANOTHERS} чай", k=100),
        answer_of(tools, "memory_search", query=f"{ANOTHERS} чай", k=100, user_id="anna"),
        answer_of(tools, "memory_search", query="чай", user_id="boris"),
        *(answer_of(tools, "memory_get", chunk_ids=[hit["chunk_id"]]) for hit in hits),
        *(answer_of(tools, "memory_read", path=str(path.relative_to(shared))) for path in shared.rglob("*.*")
          if path.name not in ("MEMORY.md", "own.json") and "anna" not in path.parts),
        *(answer_of(tools, "memory_read", path=path)
          for path in ("users/boris", "users/boris/profil.md", "users/b.md")),
        answer_of(tools, "memory_read", user_id="boris"),
        answer_of(tools, "memory_context"),
        answer_of(tools, "memory_context", message=ANOTHERS),
        answer_of(tools, "memory_context", user_id="boris", message=ANOTHERS),
        answer_of(tools, "memory_context", user_id="anna", message=ANOTHERS),
        answer_of(tools, "memory_forget", user_id="boris", fact_id="pf_777"),
        answer_of(tools, "memory_forget", user_id="anna", fact_id="pf_777"),
        answer_of(tools, "memory_forget", user_id="anna", query=ANOTHERS, confirm=True),
        answer_of(tools, "memory_update", user_id="boris", fact_id="pf_777", text="Любит зелёный чай с мёдом."),
        answer_of(tools, "memory_update", user_id="anna", fact_id="pf_777", text="Любит зелёный чай с мёдом."),
        answer_of(tools, "memory_save", user_id="boris", text="Любит зелёный чай с мёдом."),
    ]  # fmt: skip
    for answer in answers:
        assert ANOTHERS not in answer
        assert "boris" not in answer
        assert "pf_777" not in answer
        assert '"ok": true' not in answer
    assert (shared / "users/boris/profile.md").read_text(
        "utf-8"
    ) == f"- [id:pf_777] [t:profile] [imp:high] Любит {ANOTHERS}.\n"
    assert {path.name for path in (shared / "users").iterdir()} == {"anna", "boris", "boris.md.bak"}


def test_a_file_of_another_is_refused_in_the_words_of_one_that_is_not_there(shared: Path) -> None:
    tools = Tools(shared, {"encoder": None}, user="anna")
    for present, absent in (
        ("users/boris/profile.md", "users/doris/profile.md"),
        ("items/both.json", "items/bath.json"),
    ):
        assert answer_of(tools, "memory_read", path=present) == answer_of(tools, "memory_read", path=absent)


def test_a_user_of_a_server_has_what_is_the_users_and_what_is_nobodys(shared: Path) -> None:
    tools = Tools(shared, {"encoder": None}, user="anna")
    paths = {hit["file_path"] for hit in tools.memory_search("чай", k=100)["results"]}
    assert paths == {"MEMORY.md", "users/anna/profile.md", "items/own.json", "items/both.json"}
    assert tools.memory_read(path="MEMORY.md")["text"].startswith("# Чай")
    assert tools.memory_read(path="items/own.json")["text"]
    assert tools.memory_read(user_id="anna")["text"] == "- [pf_001] [profile] Любит зелёный чай."
    assert tools.memory_save("Обсуждали структуру памяти.", "anna")["ok"]
    assert tools.memory_search("структура", k=1)["results"][0]["fact_id"] == "ar_001"
    assert tools.memory_reindex()["id"] == str(len(tools.memory_search("чай структура памяти", k=100)["results"]))
    with pytest.raises(ParameterError, match="user: expected letters"):
        Tools(shared, {"encoder": None}, user="../boris")


def test_a_user_is_named_in_other_fields_and_folders_too(tmp_path: Path) -> None:
    files = {
        "Users/anna/a.md": "# А\n\nАнна пьёт чай.\n",
        "b.md": "---\nuserId: anna\n---\n\n# Б\n\nАнна любит мёд.\n\n# Ещё\n\nИ липу.\n",
        "c.md": "---\nmetadata:\n  user_id: anna\n---\n\n# В\n\nАнна живёт в Казани.\n",
        "d.md": "# Г\n\nОбщая память.\n",
    }
    root = mk.testing.write_files(tmp_path, files)
    corpus = mk.read(root)
    assert visible_to("boris", corpus).memories["path"].to_pylist() == ["d.md"]
    assert {*visible_to("anna", corpus).memories["path"].to_pylist()} == {*files}


def test_an_error_shows_no_secret(tools: Tools) -> None:
    token = "sk-notarealkeyonlyanexamplefordocs"
    with pytest.raises(NotFoundError) as told:
        tools.memory_get([token])
    assert token not in str(told.value)
