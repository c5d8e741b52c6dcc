"""The OpenAI-compatible adapter against a real server on loopback that misbehaves on order."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.errors import EncoderUnavailableError, MemkitError, ParameterError
from memkit.index import cache as cache_module
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import OPEN_SECONDS, Circuits, in_haste
from memkit.index.encoders.http import KEY_VARIABLE, HttpEncoder


def _vector(text: str, dim: int = 4) -> list[float]:
    return [1.0, float(len(text)), float(text.count("п")), *([0.5] * (dim - 3))]


class Server:
    """Answers as `plan` says, one step a request; the last step goes on."""

    def __init__(self) -> None:
        self.plan: list[str] = ["ok"]
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(body)
                outer.keys.append(self.headers.get("Authorization"))
                outer._answer(self, outer.plan.pop(0) if len(outer.plan) > 1 else outer.plan[0], body)

            def log_message(self, *_: object) -> None:
                """Silent."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def _answer(self, handler: BaseHTTPRequestHandler, step: str, body: dict[str, Any]) -> None:
        if step == "slow":
            time.sleep(1.0)
        status, headers = {"429": (429, {"Retry-After": "7"}), "500": (500, {}), "401": (401, {})}.get(step, (200, {}))
        dim = 5 if step == "wider" else 4
        data = [{"index": i, "embedding": _vector(text, dim)} for i, text in enumerate(body["input"])]
        if step == "shuffled":
            data.reverse()
        if step == "base64":
            data = [
                {**row, "embedding": base64.b64encode(np.float32(row["embedding"]).tobytes()).decode()} for row in data
            ]
        if step == "ragged":
            data[0]["embedding"] = [1.0]
        if step == "nan":
            data[0]["embedding"] = [float("nan")] * 4
        reply = json.dumps({"data": data[1:] if step == "short" else data}) if status == 200 else "no"
        payload = b"<html>" if step == "html" else reply.encode()
        try:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(payload)))
            handler.end_headers()
            handler.wfile.write(payload)
        except OSError:
            pass  # the client did not wait


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = Server()
    thread = threading.Thread(target=running.http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield running
    running.http.shutdown()
    running.http.server_close()
    thread.join()


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def encoder(server: Server, waits: list[float]) -> HttpEncoder:
    return HttpEncoder("tiny", server.url, timeout=60, retries=3, sleep=waits.append)


def _expected(texts: list[str]) -> np.ndarray:
    rows = np.array([_vector(text) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("step", ["ok", "shuffled", "base64"])
def test_vectors_come_in_the_order_of_the_texts(server: Server, encoder: HttpEncoder, step: str) -> None:
    server.plan = [step]
    texts = ["пул", "connection pool", "кот"]
    assert encoder.encode_document(texts) == pytest.approx(_expected(texts), abs=1e-6)
    assert encoder.dim == 4


def test_batches_hold_at_most_a_hundred_texts_and_blank_ones_are_not_sent(server: Server, encoder: HttpEncoder) -> None:
    texts = [f"запись {i}" for i in range(230)] + [""]
    assert encoder.encode_document(texts)[:230] == pytest.approx(_expected(texts[:230]), abs=1e-6)
    assert [len(request["input"]) for request in server.requests] == [100, 100, 30]


def test_429_waits_as_long_as_it_is_told_and_500_backs_off(
    server: Server, encoder: HttpEncoder, waits: list[float]
) -> None:
    server.plan = ["429", "500", "500", "ok"]
    assert encoder.encode_query(["пул"]) == pytest.approx(_expected(["пул"]), abs=1e-6)
    assert waits == [7, 2**1, 2**2]


@pytest.mark.parametrize(("status", "tries", "waited"), [("500", 4, [1, 2, 4]), ("401", 1, [])])
def test_a_server_that_keeps_failing_is_given_up_and_a_refusal_is_not_tried_again(
    server: Server, encoder: HttpEncoder, waits: list[float], status: str, tries: int, waited: list[float]
) -> None:
    server.plan = [status]
    with pytest.raises(MemkitError, match=rf"encoder openai:tiny@.*status {status}.*Tries: {tries}"):
        encoder.encode_query(["пул"])
    assert waits == waited


def test_a_slow_reply_is_a_time_out_and_is_tried_again(server: Server, waits: list[float]) -> None:
    server.plan = ["slow", "ok"]
    # On a busy machine further replies may come late too.
    quick = HttpEncoder("tiny", server.url, timeout=0.5, retries=20, sleep=waits.append)
    assert quick.encode_query(["пул"]).shape == (1, 4)
    assert waits[0] == 1


@pytest.mark.quick
def test_no_server_is_said_so(waits: list[float]) -> None:
    with pytest.raises(MemkitError, match="no connection"):
        HttpEncoder("tiny", "http://127.0.0.1:9", timeout=1, retries=0, sleep=waits.append).encode_query(["пул"])


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("wider", "expected 4 dimensions, as before. Got 5"),
        ("short", "one vector for each of 2 texts. Got 1"),
        ("ragged", "one length"),
        ("html", "expected JSON"),
        ("nan", "NaN"),
    ],
)
def test_a_wrong_reply_is_an_error_that_says_what_came(
    server: Server, encoder: HttpEncoder, step: str, message: str
) -> None:
    server.plan = ["ok", step]
    encoder.encode_query(["first"])
    with pytest.raises(MemkitError, match=message):
        encoder.encode_document(["пул", "кот"])


def test_the_key_comes_from_the_environment_and_is_never_shown(
    server: Server, encoder: HttpEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder.encode_query(["пул"])
    monkeypatch.setenv(KEY_VARIABLE, "sk-not-a-real-key")
    encoder.encode_query(["пул"])
    assert server.keys == [None, "Bearer sk-not-a-real-key"]
    assert "sk-not" not in f"{encoder!r} {encoder.get_config()} {vars(encoder)}"


def test_prefixes_go_before_queries_and_documents(server: Server) -> None:
    encoder = HttpEncoder("tiny", server.url, prefixes=("query: ", "passage: "))
    encoder.encode_query(["пул"])
    encoder.encode_document(["пул"])
    assert [request["input"] for request in server.requests] == [["query: пул"], ["passage: пул"]]


def test_the_address_and_the_model_are_the_identity(server: Server) -> None:
    spec = f"openai:org/tiny@v2@{server.url}"
    encoder = as_encoder(spec)
    assert encoder.get_config()["model"] == "org/tiny@v2"
    assert encoder.encode_query(["пул"]).shape == (1, 4)
    assert encoder.fingerprint == as_encoder(spec).fingerprint
    assert encoder.fingerprint != as_encoder(f"openai:other@{server.url}").fingerprint


@pytest.mark.quick
@pytest.mark.parametrize("url", ["ftp://host/v1", "http://", "http://user:secret@host/v1", "host/v1"])
def test_an_address_that_is_none_or_holds_a_key_is_refused(url: str) -> None:
    with pytest.raises(ParameterError) as caught:
        HttpEncoder("tiny", url)
    assert "secret" not in str(caught.value)


@pytest.mark.quick
@pytest.mark.parametrize(("header", "seconds"), [("-3", 0.0), ("soon", 2.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0)])
def test_retry_after_may_be_seconds_or_a_date(header: str, seconds: float) -> None:
    from memkit.index.encoders.http import _retry_after

    assert _retry_after(header, 2.0) == seconds


def test_who_can_do_without_vectors_gets_one_try_until_there_was_an_answer(
    server: Server, encoder: HttpEncoder, waits: list[float]
) -> None:
    server.plan = ["500", "ok"]
    with in_haste(), pytest.raises(EncoderUnavailableError, match="Tries: 1"):
        encoder.encode_query(["пул"])
    assert waits == []
    server.plan = ["ok", "500", "ok"]
    with in_haste():
        assert encoder.encode_document([f"запись {i}" for i in range(150)]).shape == (150, 4)
    assert waits == [1]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the circuits: one number that tests set."""
    moment = [0.0]
    monkeypatch.setattr(cache_module, "CIRCUITS", Circuits(lambda: moment[0]))
    return moment


@pytest.fixture
def corpus() -> mk.Corpus:
    return mk.from_table({"memory_id": ["a", "b"], "text": ["пул соединений", "зелёный чай"], "user_id": ["u", "u"]})


def test_a_search_goes_on_by_words_at_once_and_comes_back_to_vectors(
    server: Server, corpus: mk.Corpus, now: list[float]
) -> None:
    search = mk.Retriever(encoder=f"openai:tiny@{server.url}").fit(corpus)
    assert len(server.requests) == 1
    server.plan = ["500"]
    with pytest.warns(RuntimeWarning, match=r"no vectors this time.*status 500"):
        hits = search.search("пулы")
    assert (hits["memory_id"].to_pylist(), hits["vector"].null_count) == (["a"], 1)
    assert sorted(json.loads(hits.schema.metadata[b"arms"])) == ["bm25", "gram"]
    assert "Without vectors" in hits.schema.metadata[b"note"].decode()
    assert b"encoder" not in hits.schema.metadata
    assert len(server.requests) == 2

    server.plan = ["ok"]
    with pytest.warns(RuntimeWarning, match="asked again in 30 s"):
        trace = search.trace("пулы")
    assert "Without vectors" in trace.schema.metadata[b"note"].decode()
    assert len(server.requests) == 2

    now[0] = OPEN_SECONDS
    again = search.search("пулы")
    assert again["vector"].null_count == 0
    assert b"note" not in again.schema.metadata
    assert len(server.requests) == 3


def test_a_service_that_is_down_at_fit_is_asked_again_by_a_later_search(
    server: Server, corpus: mk.Corpus, now: list[float]
) -> None:
    server.plan = ["500"]
    with pytest.warns(RuntimeWarning, match="status 500"):
        search = mk.Retriever(encoder=f"openai:tiny@{server.url}", vector_weight=1.0).fit(corpus)
    assert sorted(search.arms_) == ["bm25", "gram"]
    server.plan = ["ok"]
    with pytest.warns(RuntimeWarning, match="asked again"):
        assert search.search("пулы")["memory_id"].to_pylist() == ["a"]
    now[0] = OPEN_SECONDS
    assert search.search("пулы").schema.metadata[b"arms"] == b'{"vector": 1.0}'


def test_raise_stands_beside_words(server: Server, corpus: mk.Corpus, now: list[float]) -> None:
    search = mk.Retriever(encoder=f"openai:tiny@{server.url}", on_encoder_error="raise").fit(corpus)
    now[0] = 1.0
    cache_module.CIRCUITS.open(search.arms_["vector"].encoder_.fingerprint, "no connection")
    with pytest.raises(EncoderUnavailableError, match="no connection"):
        search.search("пулы")
    with pytest.raises(EncoderUnavailableError, match="no connection"):
        mk.explain(search, "пулы", "b")


def test_what_measures_raises_whatever_search_does(server: Server, corpus: mk.Corpus, now: list[float]) -> None:
    search = mk.Retriever(encoder=f"openai:tiny@{server.url}").fit(corpus)
    cache_module.CIRCUITS.open(search.arms_["vector"].encoder_.fingerprint, "no connection")
    queries = pa.table({"query_id": ["1", "2"], "text": ["пулы", "чаи"]})
    qrels = pa.table({"query_id": ["1", "2"], "memory_id": ["a", "b"], "relevance": [1, 1]})
    with pytest.raises(EncoderUnavailableError, match="no connection"):
        mk.tune(search, queries, qrels, {("vector_weight", "bm25_weight"): mk.presets.shares(0.5, 2)})


def test_a_prompt_is_built_by_words_and_says_so(server: Server, corpus: mk.Corpus, now: list[float]) -> None:
    search = mk.Retriever(encoder=f"openai:tiny@{server.url}").fit(corpus)
    server.plan = ["500"]
    with pytest.warns(RuntimeWarning, match="status 500"):
        built = mk.ContextBuilder(search).build(corpus, "u", "пулы", "2026-03-01")
    assert "пул соединений" in built.text
    assert "Without vectors" in built.table.schema.metadata[b"note"].decode()
