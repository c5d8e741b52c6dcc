"""The server as a client sees it: in process, over standard input and output, and over loopback HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import memkit as mk

pytest.importorskip("mcp")
import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from memkit.change.disk import Disk
from memkit.serve.server import _with_token, make_server, serve_http
from memkit.serve.tools import Tools

TEN = {*Tools.READING, *Tools.WRITING}
COMMAND = ["-m", "memkit", "serve"]
IMPATIENT = """
from memkit.cli.run import main
from memkit.serve import server

server._GRACE = 0.2
main()"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return mk.testing.write_files(tmp_path / "root", {"MEMORY.md": "# Чай\n\nЛюбит зелёный чай.\n"})


def talk(client: Any, talking: Callable[[Any], Awaitable[None]]) -> None:
    async def run() -> None:
        with anyio.fail_after(300):
            async with client() as connected:
                await talking(connected)

    anyio.run(run)


async def drive(client: Any) -> None:
    """All ten tools, and what a bad call gets."""
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(listed) == TEN
    assert {name for name, tool in listed.items() if tool.annotations.destructive_hint} == set(Tools.DESTROYING)
    assert {name for name, tool in listed.items() if tool.annotations.read_only_hint} == set(Tools.READING)
    assert all(tool.output_schema and tool.input_schema["additionalProperties"] is False for tool in listed.values())

    async def call(name: str, **arguments: Any) -> Any:
        answer = await client.call_tool(name, arguments)
        assert not answer.is_error, answer.content
        return answer.structured_content

    reply = await call("memory_search", query="зелёный чай", k=1)
    chunk = reply["results"][0]["chunk_id"]
    assert (await call("memory_get", chunk_ids=[chunk]))["results"][0]["file_path"] == "MEMORY.md"
    assert "зелёный" in (await call("memory_read", path="MEMORY.md"))["text"]
    assert (await call("memory_append", content="Живёт в Казани."))["ok"]
    assert (await call("memory_log", content="Выкатили бота 🚀"))["ok"]
    assert "🚀" in (await call("memory_context"))["text"]
    assert (await call("memory_reindex"))["ok"]
    assert (await call("memory_save", text="Обсуждали структуру памяти.", user_id="anna"))["id"] == "ar_001"
    refused = await call("memory_save", text="Как дела с памятью?", user_id="anna")
    assert (refused["ok"], refused["reason"]) == (False, "question")
    assert (await call("memory_update", user_id="anna", fact_id="ar_001", text="Обсуждали формат строк."))["ok"]
    assert (await call("memory_forget", user_id="anna", fact_id="ar_001"))["ok"]
    for name, arguments in {
        "memory_search": {"query": "чай", "limit": 3},
        "memory_forget": {"user_id": "anna", "fact_id": "ar_999", "dry_run": True},
        "memory_update": {"user_id": "anna", "fact_id": "ar_999", "text": "Обсуждали формат строк."},
        "memory_read": {"path": "../../etc/passwd"},
        "memory_get": {"chunk_ids": ["none"]},
        "memory_append": {},
        "no_such_tool": {},
    }.items():
        assert (await client.call_tool(name, arguments)).is_error
    assert (await client.call_tool("memory_append", {"content": "м" * 100_001})).is_error
    assert (await call("memory_append", content="м" * 100_000))["ok"]
    assert (await call("memory_context"))["text"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_drives_all_ten_tools(root: Path, mode: str) -> None:
    server = make_server(Tools(root, {"encoder": None}))
    talk(lambda: Client(server, mode=mode), drive)


def test_a_read_only_server_has_the_reading_tools_alone(root: Path) -> None:
    async def look(client: Any) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == set(Tools.READING)
        assert (await client.call_tool("memory_append", {"content": "x"})).is_error

    server = make_server(Tools(root, {"encoder": None}, log=False), read_only=True)
    talk(lambda: Client(server), look)
    assert not (root / ".memkit").exists()


def parameters(root: Path, *options: str) -> StdioServerParameters:
    paths = [str(Path(mk.__file__).parents[1]), os.environ.get("PYTHONPATH")]
    env = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    # The SDK's client passes few variables on, and the user's cache is none of the tests'.
    env |= {name: value for name, value in os.environ.items() if name.startswith("MEMKIT_")}
    return StdioServerParameters(
        command=sys.executable, args=[*COMMAND, str(root), "--set", "encoder=none", *options], env=env
    )


def test_over_standard_input_and_output_with_odd_names(root: Path, tmp_path: Path) -> None:
    (root / os.fsdecode(b"\xff\xfe.md")).write_text("# Мёд\n\nЛиповый мёд.\n", encoding="utf-8")

    async def odd(client: Any) -> None:
        await drive(client)
        answer = await client.call_tool("memory_search", {"query": "липовый мёд", "k": "5"})
        assert not answer.is_error

    with (tmp_path / "errors").open("w") as errors:
        talk(lambda: Client(stdio_client(parameters(root), errlog=errors)), odd)


def message(id: int | None, method: str, **params: Any) -> bytes:
    request = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    return json.dumps(request).encode() + b"\n"


HELLO = message(
    1, "initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "old", "version": "1"}
) + message(None, "notifications/initialized")


def tool_call(id: int, name: str, **arguments: Any) -> bytes:
    return message(id, "tools/call", name=name, arguments=arguments)


def test_an_old_client_and_broken_lines_have_their_answers_and_never_end_the_server(root: Path) -> None:
    """Raw lines of the protocol of 2024-11-05: NaN, halves of characters, what is no UTF-8, a megabyte, a secret."""
    (root / os.fsdecode(b"\xff\xfe.md")).write_text("# Мёд\n\nЛиповый мёд.\n", encoding="utf-8")
    secret = "sk-" + "a1B2" * 8
    lines = {
        2: tool_call(2, "memory_search", query="чай", k=float("nan")),
        3: tool_call(3, "memory_search", query="липовый мёд", k=1),
        4: tool_call(4, "memory_save", user_id="anna", text="м" * 1_000_000),
        5: tool_call(5, "memory_save", user_id="anna", text=f"ключ сервиса {secret}"),
        6: tool_call(6, "memory_read", path="\udcff\udcfe.md"),
        7: tool_call(7, "memory_append", content="половина \ud83d знака"),
        8: tool_call(8, "memory_save", user_id="a/../../b", text="Обсуждали структуру памяти."),
        9: tool_call(9, "memory_search", query=f"где {secret}"),
        10: tool_call(10, "memory_search", query="чай " * 250_000),
        11: tool_call(11, "memory_save", user_id="anna", text="Обсуждали структуру памяти."),
    }
    server = parameters(root)
    process = subprocess.Popen(
        [server.command, *server.args],
        env={**os.environ, **(server.env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin
    assert process.stdout
    answers: dict[int, dict[str, Any]] = {}
    watch = threading.Timer(300, process.kill)  # a line that never comes ends the test
    watch.start()
    try:
        process.stdin.write(HELLO + b"no json\n\xff\xfe\n")
        for id, line in {1: b"", **lines}.items():
            process.stdin.write(line)
            process.stdin.flush()
            while id not in answers:
                answer = json.loads(process.stdout.readline())
                answers[answer.get("id")] = answer
    finally:
        watch.cancel()
        process.kill()
        process.communicate()
    assert answers[1]["result"]["protocolVersion"] == "2024-11-05"
    results = {id: answers[id]["result"] for id in lines if id in answers}
    contents = {id: result.get("structuredContent") for id, result in results.items()}
    assert contents[3]["results"][0]["content"] == "# Мёд\n\nЛиповый мёд."
    assert [(contents[id]["ok"], contents[id]["reason"]) for id in (4, 5)] == [(False, "length"), (False, "secret")]
    assert [id for id, result in results.items() if result.get("isError")] == [2, 6, 8, 10]
    assert "половина \ufffd знака" in (root / "MEMORY.md").read_text("utf-8")
    assert contents[11]["id"] == "ar_001"
    assert not [path for path in root.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_a_client_killed_within_a_call_leaves_no_process_and_no_lock(root: Path) -> None:
    server = parameters(root)
    command = [server.command, "-c", IMPATIENT, *server.args[2:]]
    script = f"""import subprocess, sys
child = subprocess.Popen({command!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write({HELLO!r})
child.stdin.flush()
child.stdout.readline()
print(child.pid, flush=True)
input()
child.stdin.write({tool_call(2, "memory_append", content="Никогда.")!r})
child.stdin.flush()
child.stdout.readline()"""
    env = {**os.environ, **(server.env or {})}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", script], env=env, **pipes) as process:
        assert process.stdin
        assert process.stdout
        child = int(process.stdout.readline())
        with Disk(root).locked():  # the call waits for it
            process.stdin.write("go\n")
            process.stdin.flush()
            time.sleep(0.5)
            process.send_signal(signal.SIGKILL)
            deadline = time.monotonic() + 300
            while _is_alive(child) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not _is_alive(child)
    mk.store(root).workspace.append_to_memory("Дальше.")
    assert "Никогда." not in (root / "MEMORY.md").read_text("utf-8")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


def test_over_http_with_a_token_and_exact_host_and_origin(root: Path) -> None:
    notices: list[str] = []
    server = make_server(Tools(root, {"encoder": None}))
    thread = threading.Thread(target=serve_http, args=(server, 0, "secret-token", notices.append), daemon=True)
    thread.start()
    while not notices:
        time.sleep(0.01)
    url = notices[0].split()[1]
    assert "secret-token" not in notices[0]
    bearer = {"Authorization": "Bearer secret-token"}

    async def run() -> None:
        with anyio.fail_after(300):
            await _until_up(url)
            async with httpx2.AsyncClient() as plain:
                assert (await plain.post(url, json={})).status_code == 401
                assert (await plain.post(url, json={}, headers={"Authorization": "Bearer x"})).status_code == 401
                for name, value, status in (
                    ("Host", "localhost:80@evil.example", 421),
                    ("Host", "evil.example", 421),
                    ("Origin", "http://localhost:3000.evil.example", 403),
                    ("Origin", "null", 403),
                ):
                    assert (await plain.post(url, json={}, headers={**bearer, name: value})).status_code == status
                long = await plain.post(url, json={"query": "м" * 5_000_000}, headers=bearer)
                assert (long.status_code, long.text) == (413, "expected a request of 2,097,152 bytes at most.")
            async with Client(
                streamable_http_client(url, http_client=httpx2.AsyncClient(headers=bearer, timeout=300))
            ) as client:
                await drive(client)

    anyio.run(run)


@pytest.mark.parametrize("n_parts", [0, 7])
def test_a_client_that_hangs_up_half_way_reaches_no_tool_and_is_no_fault(n_parts: int) -> None:
    sent: list[Any] = []

    async def run() -> None:
        async def app(*args: Any) -> None:
            sent.append("reached")

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            sent.append(message)

        for _ in range(2):
            messages = iter(
                [{"type": "http.request", "body": b"x", "more_body": True}] * n_parts + [{"type": "http.disconnect"}]
            )
            await _with_token(app, "t")({"type": "http", "headers": [(b"authorization", b"Bearer t")]}, receive, send)

    anyio.run(run)
    assert sent == []


def test_what_is_wrong_with_a_call_is_said_in_memkits_words(root: Path) -> None:
    messages: list[str] = []

    async def look(client: Any) -> None:
        for name, arguments in (
            ("memory_search", {}),
            ("memory_search", {"query": "чай", "users_id": "anna"}),
            ("memory_search", {"query": None}),
            ("memory_search", {"query": "чай", "k": "many"}),
            ("memory_get", {"chunk_ids": "none"}),
            ("memory_forget", {"user_id": "anna", "query": "чай", "confirm": "yes"}),
            ("memory_reindex", {"now": True}),
            ("memory_serch", {}),
            ("memory_read", {"path": "MEMORI.md"}),
            ("memory_append", {"content": "м" * 100_001}),
        ):
            answer = await client.call_tool(name, arguments)
            assert answer.is_error
            messages.append(answer.content[0].text)

    talk(lambda: Client(make_server(Tools(root, {"encoder": None}))), look)
    assert messages == [
        "memory_search: expected an argument 'query', a text. Got none.",
        "memory_search: there is no argument 'users_id'. Expected some of query, k, user_id, scope."
        " Did you mean 'user_id'?",
        "memory_search: argument 'query' must be a text. Got None.",
        "memory_search: argument 'k' must be a whole number. Got 'many'.",
        "memory_get: argument 'chunk_ids' must be a list of texts. Got 'none'.",
        "memory_forget: argument 'confirm' must be true or false. Got 'yes'.",
        "memory_reindex: there is no argument 'now'. It has none.",
        "there is no tool 'memory_serch'. Did you mean 'memory_search' or 'memory_save' or 'memory_get'?",
        "there is no file 'MEMORI.md'. Near it: MEMORY.md.",
        "content: expected 100,000 characters at most. Got 100,001.",
    ]


def test_a_refused_update_is_an_answer(root: Path) -> None:
    async def look(client: Any) -> None:
        await client.call_tool("memory_save", {"user_id": "anna", "text": "Обсуждали структуру памяти."})
        arguments = {"user_id": "anna", "fact_id": "ar_001"}
        answer = await client.call_tool("memory_update", {**arguments, "text": "Как дела с памятью?"})
        assert not answer.is_error
        assert (answer.structured_content["ok"], answer.structured_content["reason"]) == (False, "question")

    talk(lambda: Client(make_server(Tools(root, {"encoder": None}))), look)


def test_calls_at_once_wait_for_each_other(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = Tools(root, {"encoder": None})
    inside, most_inside = [0], [0]
    write = tools.store.workspace.append_to_daily_log

    def slow(content: str) -> Any:
        inside[0] += 1
        most_inside[0] = max(most_inside[0], inside[0])
        time.sleep(0.02)
        inside[0] -= 1
        return write(content)

    monkeypatch.setattr(tools.store.workspace, "append_to_daily_log", slow)

    async def crowd(client: Any) -> None:
        async def one(number: int) -> None:
            answer = await client.call_tool("memory_log", {"content": f"Запись {number}."})
            assert not answer.is_error, answer.content

        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(one, number)

    talk(lambda: Client(make_server(tools)), crowd)
    assert most_inside == [1]
    (log,) = (root / "memory").glob("*.md")
    assert all(f"Запись {number}." in log.read_text("utf-8") for number in range(12))


def test_a_call_whose_client_has_gone_before_its_turn_is_not_carried_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, notices, started, may_end = Tools(root, {"encoder": None}), list[str](), threading.Event(), threading.Event()
    write = tools.store.workspace.append_to_daily_log

    def waits(content: str) -> Any:
        started.set()
        assert may_end.wait(60)
        return write(content)

    monkeypatch.setattr(tools.store.workspace, "append_to_daily_log", waits)
    thread = threading.Thread(target=serve_http, args=(make_server(tools), 0, "t", notices.append), daemon=True)
    thread.start()
    while not notices:
        time.sleep(0.01)
    url, accepted = notices[0].split()[1], "application/json, text/event-stream"

    async def call(tool: str, content: str) -> None:
        request = {"method": "tools/call", "params": {"name": tool, "arguments": {"content": content}}}
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer t", "Accept": accepted}, timeout=60) as client:
            assert (await client.post(url, json={"jsonrpc": "2.0", "id": 1, **request})).status_code == 200

    async def run() -> None:
        await _until_up(url)
        async with anyio.create_task_group() as group:
            group.start_soon(call, "memory_log", "Выкатили бота.")
            while not started.is_set():
                await anyio.sleep(0.01)
            with anyio.move_on_after(0.3):
                await call("memory_append", "Этого никто не ждёт.")
            await anyio.sleep(0.2)  # the server learns that the connection is closed
            may_end.set()
        await call("memory_append", "Живёт в Казани.")

    anyio.run(run)
    text = (root / "MEMORY.md").read_text("utf-8")
    assert "Казани" in text
    assert "никто" not in text


def test_a_server_of_one_user_fills_the_user_in_and_takes_no_other(root: Path) -> None:
    mk.testing.write_files(root, {"users/boris/profile.md": "- [id:pf_777] [t:profile] [imp:high] Любит кукумбер.\n"})

    async def look(client: Any) -> None:
        listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        for name in ("memory_save", "memory_forget", "memory_update"):
            assert listed[name]["properties"]["user_id"]["default"] == "anna"
            assert "user_id" not in listed[name].get("required", [])
        assert listed["memory_search"]["properties"]["user_id"]["default"] is None
        saved = await client.call_tool("memory_save", {"text": "Обсуждали структуру памяти."})
        assert saved.structured_content["id"] == "ar_001"
        for name, arguments in (
            ("memory_save", {"text": "Обсуждали структуру строк."}),
            ("memory_search", {"query": "кукумбер"}),
            ("memory_read", {}),
            ("memory_forget", {"fact_id": "pf_777"}),
        ):
            answer = await client.call_tool(name, {**arguments, "user_id": "boris"})
            assert answer.content[0].text == "user_id: expected 'anna', the only user of this server. Got 'boris'."
        hits = (await client.call_tool("memory_search", {"query": "кукумбер"})).structured_content["results"]
        assert {hit["file_path"] for hit in hits} <= {"MEMORY.md", "users/anna/archive.md"}

    talk(lambda: Client(make_server(Tools(root, {"encoder": None}, user="anna"))), look)
    assert [path.name for path in (root / "users/boris").iterdir()] == ["profile.md"]


def test_control_c_ends_a_server_on_standard_input_at_once_and_without_a_traceback(root: Path) -> None:
    with started(root, "--user", "anna") as process:
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert "for the user 'anna'" in json.loads(process.stdout.readline())["result"]["instructions"]
        assert ended(process) == (130, b"")


def test_control_c_ends_a_server_over_http_whose_tool_waits_without_a_traceback(root: Path) -> None:
    with started(root, "--http", "0", MEMKIT_TOKEN="token-of-the-environment") as process:
        line = process.stderr.readline().decode()
        assert "token-of-the-environment" not in line
        anyio.run(_until_up, line.split()[1])
        body = tool_call(1, "memory_append", content="Никогда.").strip()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {line.split('/')[2]}\r\nAuthorization: Bearer token-of-the-environment\r\n"
            "Accept: application/json\r\nContent-Type: application/json\r\n"
        )
        with (
            Disk(root).locked(),
            socket.create_connection(("127.0.0.1", int(line.split("/")[2].split(":")[1]))) as client,
        ):
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.5)  # the call waits for the lock
            assert ended(process) == (130, b"")
    assert "Никогда." not in (root / "MEMORY.md").read_text("utf-8")


def started(root: Path, *options: str, **env: str) -> Any:
    server = parameters(root, *options)
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([server.command, *server.args], env={**os.environ, **(server.env or {}), **env}, **pipes)


def ended(process: Any) -> tuple[int, bytes]:
    """The exit code after Ctrl-C, and what was said of it."""
    process.send_signal(signal.SIGINT)
    stderr: bytes = process.communicate(timeout=300)[1]
    return process.returncode, stderr


async def _until_up(url: str) -> None:
    while True:
        try:
            async with httpx2.AsyncClient() as client:
                await client.get(url)
            return
        except httpx2.HTTPError:
            await anyio.sleep(0.05)


def test_without_the_sdk_the_extra_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(mk.errors.MissingExtraError, match=r"memkit\[mcp\]"):
        make_server(Tools(root, {"encoder": None}))
