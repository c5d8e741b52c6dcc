"""No door shows a secret of a folder, a query or a message: each is planted with a label, and again bare."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import memkit as mk
from memkit.change.diff import Diff
from memkit.display.draw import shown
from memkit.errors import PolicyRefusal, QueryError
from memkit.panels.panel import Panel
from memkit.serve.tools import Calls, Tools
from memkit.tables.samples import write_files
from memkit.tables.secrets import secrets_in
from memkit.text.secrets import SECRETS

Run = Callable[..., tuple[int, str, str]]
DAY = "2026-03-01"
PASSWORDS = {
    "sova-ne-spit-2026": "Пароль от пула: {}",
    "Qm7vol3kd!a": "pool password: {}",
    "Tr0ub4dor&3x<y>": "password of the pool is {}",
    "0a1b2c3d" * 8: "ключ подписи пула {}",
    "k7Jd83hsPq02mzLx": "api_key = {} for the pool",
    "Zx81spectrum's": "curl -u anna:{} https://pool",
}
BARE = "пул на birch: вход root / {}, pool\n"
"""The same values, with nothing beside them that says what they are."""
ALONE = {
    example.partition("⟦")[2].partition("⟧")[0]: example.replace("⟦", "").replace("⟧", "")
    for secret in SECRETS
    for example in secret.examples
}
"""Every example of the list, in the sentence that makes it one."""
VALUES = [*PASSWORDS, *(value for value in ALONE if len(value) >= 8)]


def files() -> dict[str, str]:
    pools = "".join(
        f"# Пул {number}\n\n{text.format(value)}\n\n" for number, (value, text) in enumerate(PASSWORDS.items())
    )
    logins = "".join(f"# Вход {number}\n\n{BARE.format(value)}\n" for number, value in enumerate(PASSWORDS))
    alone = "".join(f"# Пул примеров {number}\n\nпул: {text}\n\n" for number, text in enumerate(ALONE.values()))
    facts = "".join(
        f"- [id:wk_{number}] [t:working] [imp:high] [exp:2026-01-0{number + 1}] {text.format(value)}, пул\n"
        for number, (value, text) in enumerate(PASSWORDS.items())
    )
    note = "---\nsubject: пул\nkeywords: [sova-ne-spit-2026, k7Jd83hsPq02mzLx, ok]\napplies_to: nowhere\n---\n\nпул\n"
    return {
        "memory/2026-01-26.md": pools,
        "memory/2026-01-27.md": logins,
        "MEMORY.md": alone,
        "users/u/working.md": facts,
        "notes/a.md": note,
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("doors"), files())


@pytest.fixture(scope="module")
def corpus(root: Path) -> mk.Corpus:
    return mk.read(root)


@pytest.fixture(scope="module")
def search(corpus: mk.Corpus) -> mk.Retriever:
    return mk.Retriever(encoder=None).fit(corpus)


def shown_values(page: str, values: Iterator[str] | list[str] | dict[str, str]) -> list[str]:
    """Which values a text still shows, whole or but for a sign or two, as they are or escaped."""
    plain = re.sub(r"<[^<>]*>", "", page)
    words = {page, plain, plain.replace("&#x27;", "'").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")}
    return [value for value in values if any(value[:-2] in text or value[2:] in text for text in words)]


def html_and_text(result: Any) -> str:
    return shown(result, rows=200)._repr_html_() + shown(result, rows=200).text(200)


@pytest.mark.quick
def test_the_folder_holds_each_secret_as_planted(corpus: mk.Corpus) -> None:
    texts = "\n".join(corpus.memories["text"].to_pylist())
    assert all(texts.count(value) >= 2 for value in PASSWORDS)
    assert all(value in texts for value in ALONE)


@pytest.mark.quick
@pytest.mark.parametrize("k", [3, 200])
def test_tables_and_searches_show_none_and_keep_all_as_data(corpus: mk.Corpus, search: mk.Retriever, k: int) -> None:
    hits = search.search("пул", k=k, as_of=DAY)
    for result in (corpus.memories, hits, search.trace("пул", k=k, as_of=DAY), corpus):
        assert shown_values(html_and_text(result), VALUES) == []
    assert shown_values("\n".join(search.search("пул", k=200, as_of=DAY)["text"].to_pylist()), PASSWORDS) == list(
        PASSWORDS
    )


@pytest.mark.quick
def test_a_result_that_says_it_in_one_row_hides_it_in_all_rows_and_columns(corpus: mk.Corpus) -> None:
    judged = mk.Admission(max_chars=10_000).transform(corpus, as_of=DAY)
    assert set(judged.filter(pa.compute.equal(judged["reason"], "secret"))["matched_span"].to_pylist()) & set(PASSWORDS)
    assert shown_values(html_and_text(judged), VALUES) == []


def test_a_short_secret_is_not_shown_in_a_column_of_its_own() -> None:
    judged = mk.Admission().transform(pa.table({"text": ["Код от двери дома: пин 4321"]}), as_of=DAY)
    assert judged["matched_span"].to_pylist() == ["4321"]
    assert "4321" not in html_and_text(judged)
    assert "4321" in shown(judged, show_secrets=True).text(200)


def test_the_overview_and_its_page_show_none(corpus: mk.Corpus, tmp_path: Path) -> None:
    overview = mk.overview(corpus, as_of=DAY)
    page = overview.report(tmp_path / "a.html", title="пароль: sova-ne-spit-2026").read_text("utf-8")
    assert shown_values(overview._repr_html_() + repr(overview) + page, VALUES) == []


def test_a_prompt_keeps_them_and_what_is_shown_of_it_does_not(corpus: mk.Corpus, search: mk.Retriever) -> None:
    built = mk.ContextBuilder(search, relevant_chars=5000).build(corpus, None, "пул", as_of=DAY)
    assert shown_values(built.text, VALUES)
    assert shown_values(built._repr_html_(), VALUES) == []


def test_a_diff_shows_none(corpus: mk.Corpus) -> None:
    difference = mk.diff(mk.from_table({"memory_id": ["x"], "text": ["чай"]}), corpus)
    assert shown_values(difference._repr_html_() + repr(difference), VALUES) == []
    text = Diff("+пароль: sova-ne-spit-2026\n-root sova-ne-spit-2026\n")
    assert shown_values(text._repr_html_(), PASSWORDS) == []


@pytest.mark.parametrize(
    "verb",
    [
        ["check"],
        ["check", "--secrets"],
        ["overview"],
        ["search", "пул"],
        ["search", "пул", "--trace"],
        ["search", "пароль: sova-ne-spit-2026"],
        ["sql", "from memories"],
        ["policy", "admission", "--set", "max_chars=10000"],
        ["plan", "expiry", "--as-of", "2026-02-01"],
        ["plan", "expiry", "--as-of", "2026-02-01", "--diff"],
        ["fix"],
        ["add-memory", "пул, пароль: sova-ne-spit-2026, root / sova-ne-spit-2026"],
        ["add-memory", "пул, пароль: sova-ne-spit-2026, root / sova-ne-spit-2026", "--diff"],
        ["search", "пул", "--where", "text = 'password: Qm7vol3kd!a' and ("],
        ["sql", "select 'пароль: sova-ne-spit-2026' from nowhere"],
    ],
    ids=" ".join,
)
def test_the_command_line_shows_none(run: Run, root: Path, verb: list[str]) -> None:
    _, out, err = run(verb[0], root, *verb[1:])
    assert out + err
    assert shown_values(out + err, VALUES) == []


def test_a_command_hides_what_any_memory_of_the_folder_calls_a_secret(run: Run, tmp_path: Path) -> None:
    named = (
        "# Доступ\n\nПароль от пула: sova-ne-spit-2026\n\n# Сейф\n\nПароль от сейфа: верная лошадь батарея скрепка.\n"
    )
    bare = "# День\n\n## 10:00 вход\n\nРешили: вход root / sova-ne-spit-2026, сейф: верная лошадь батарея скрепка.\n"
    fact = "- [id:wk_1] [t:working] [imp:high] [exp:2026-01-01] стоит sova-ne-spit-2026 на пуле\n"
    files = {"MEMORY.md": named, "memory/2026-02-28.md": bare, "users/u/working.md": fact}
    root, values = write_files(tmp_path, files), ["sova-ne-spit-2026", "верная лошадь батарея скрепка"]
    verbs = (
        *(["search", "решили root", "-k", "1"], ["sql", "select text from memories where kind = 'daily_log'"]),
        *(["plan", "expiry", "--as-of", DAY], ["plan", "expiry", "--as-of", DAY, "--diff"], ["audit"]),
        *(["digest", "--since", "2026-02-01", "--until", DAY], ["policy", "expiry", "--as-of", DAY]),
    )
    for verb, *words in verbs:
        _, out, err = run(verb, root, *words)
        assert (verb, out + err != "", shown_values(out + err, values)) == (verb, True, [])
    line = mk.timeline(mk.Retriever(encoder=None).fit(mk.read(root)), "решили root вход")
    assert shown_values(line._repr_html_() + line.plot().words, values) == []


def test_a_message_of_check_hides_what_a_text_calls_a_secret(run: Run, tmp_path: Path) -> None:
    words = ", ".join(["sova-ne-spit-2026", *(f"слово{number}" for number in range(40))])
    note = f"---\nid: x\nsubject: пул\nkeywords: [{words}]\napplies_to: global\n---\n\nпароль: sova-ne-spit-2026\n"
    _, out, _ = run("check", write_files(tmp_path, {"notes/a.md": note}), "--formats", "notes")
    assert "keywords" in out
    assert shown_values(out, PASSWORDS) == []
    assert "1 of these is a secret in memories" in out


def test_a_tag_is_looked_at_too() -> None:
    table = mk.from_table({"text": ["чай"], "tags": [["пул", "пароль: sova-2026"]]}).memories
    assert [row["field"] for row in secrets_in(table)[0].to_pylist()] == ["tags"]


def test_check_counts_them_without_being_asked(run: Run, root: Path) -> None:
    _, out, _ = run("check", root)
    _, listed, _ = run("check", root, "--secrets", "--json")
    count = sum(row["rule"] == "secret" for row in json.loads(listed))
    assert count >= len(PASSWORDS) + len(ALONE)
    assert f"{count} of these are secrets in memories: memkit check {root} --secrets lists where." in out
    assert "\nwarning  secret" not in out


def panels(corpus: mk.Corpus, search: mk.Retriever) -> dict[str, Panel]:
    queries = pa.table({"query_id": ["q"], "text": ["пул, пароль: sova-ne-spit-2026"]})
    qrels = pa.table({"query_id": ["q"], "memory_id": [corpus.memories["memory_id"][0].as_py()], "relevance": [1]})
    question = "пул, пароль: sova-ne-spit-2026, root / Qm7vol3kd!a, password Qm7vol3kd!a"
    dedup = mk.Deduplicator(encoder=None, lexical_floor=0.3).fit(corpus)
    return {
        "search": mk.panels.search(search, question, as_of=DAY, k=100),
        "typed": mk.panels.policy(corpus, "admission", text=question, as_of=DAY),
        "policy": mk.panels.policy(corpus, "admission", as_of=DAY),
        "expiry": mk.panels.policy(corpus, "expiry", as_of=DAY),
        "context": mk.panels.context(corpus, mk.ContextBuilder(search), message=question, as_of=DAY),
        "pairs": mk.panels.dedup(dedup),
        "judge": mk.panels.judge(search, queries, qrels, as_of=DAY),
    }


def test_panels_and_what_they_export_show_none_and_only_memkits_own_script_can_run(
    corpus: mk.Corpus, search: mk.Retriever, tmp_path: Path
) -> None:
    for name, panel in panels(corpus, search).items():
        page = panel.export(tmp_path / f"{name}.html").read_text("utf-8")
        view = panel.view
        sent = "".join((view.body, view.strip, view.code, view.summary, view.words, repr(panel)))
        page = re.sub(r'src="data:[^"]*"', "", page)
        assert (name, shown_values(page + sent, VALUES)) == (name, [])
        assert re.search(r'<meta http-equiv="Content-Security-Policy"\s+content="default-src \'none\';', page)
        assert "<script" not in page


def test_an_error_does_not_repeat_them(search: mk.Retriever, corpus: mk.Corpus) -> None:
    for where in ("text = 'password: Qm7vol3kd!a' and (", "nothing = 'пароль: sova-ne-spit-2026'"):
        with pytest.raises(QueryError) as caught:
            search.search("пул", where=where)
        assert shown_values(str(caught.value), PASSWORDS) == []
    explanation = mk.explain(
        search, "пул", corpus.memories["memory_id"][0].as_py(), where="text = 'пароль: sova-ne-spit-2026'"
    )
    assert shown_values(explanation, PASSWORDS) == []


def test_the_log_of_calls_holds_none(tmp_path: Path) -> None:
    calls = Calls(tmp_path)
    for value, text in PASSWORDS.items():
        calls.log_search(text.format(value), f"password: {value}", {"k": 5}, {})
    assert shown_values((tmp_path / ".memkit/calls.jsonl").read_text("utf-8"), PASSWORDS) == []


def test_a_report_of_measuring_shows_none(search: mk.Retriever, corpus: mk.Corpus, tmp_path: Path) -> None:
    ids = corpus.memories["memory_id"].to_pylist()
    queries = pa.table(
        {"query_id": list("ab"), "text": [text.format(value) for value, text in list(PASSWORDS.items())[:2]]}
    )
    qrels = pa.table({"query_id": list("ab"), "memory_id": ids[:2], "relevance": [1, 1]})
    evaluation = mk.evaluate(search, queries, qrels, as_of=DAY)
    page = evaluation.report(tmp_path / "a.html").read_text("utf-8")
    assert shown_values(page + evaluation._repr_html_() + repr(evaluation), PASSWORDS) == []


@pytest.mark.parametrize("text", [*(text.format(value) for value, text in PASSWORDS.items()), *ALONE.values()])
def test_what_a_screen_hides_is_not_saved(tmp_path: Path, text: str) -> None:
    facts = mk.store(tmp_path).facts
    with pytest.raises(PolicyRefusal) as caught:
        facts.save("u", f"Запомни: {text}"[:240], now=DAY)
    assert caught.value.reason == "secret"
    assert shown_values(str(caught.value), VALUES) == []


def test_no_error_shows_a_token_given_as_an_id(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    root = write_files(tmp_path, {"a.md": "# Tea\n\nGreen.\n"})
    corpus = mk.read(root)
    search = mk.Retriever(encoder=None).fit(corpus)
    calls: list[Callable[[], Any]] = [
        lambda: search.like(token),
        lambda: mk.store(root).facts.read(f"{token}/"),
        lambda: mk.store(root).facts.migrate_user(token),
        lambda: mk.store(root).pages.rename(token, "b.md"),
    ]
    for call in calls:
        with pytest.raises(mk.MemkitError) as caught:
            call()
        assert token not in str(caught.value) + repr(caught.value), caught.value


@pytest.mark.outside
def test_results_in_python_hide_what_another_memory_calls_a_secret(tmp_path: Path) -> None:
    """The one that names it is not among the rows shown, of which there are twenty."""
    value = "sova-2026-Kedr"
    page = "---\ncreated: 2026-07-{0}\n---\n# Выкатка {0}\n\nПо строке {1} на сервер {0}.\n\n- [ ] сменить {1} на {0}\n"
    files = {f"wiki/a{n}.md": page.format(n, value) for n in range(10, 31)}
    files |= {"wiki/a11b.md": files["wiki/a11.md"], "wiki/z.md": f"---\ncreated: 2026-01-01\n---\nПароль: {value}\n"}
    states = [("2026-07-01", files), ("2026-07-30", {"wiki/a12.md": page.format(12, value).replace("сервер", "узел")})]
    root = mk.testing.write_commits(tmp_path, states)
    corpus, former = mk.read(root), mk.read(root, rev="HEAD~1")
    dedup = mk.Deduplicator().fit(corpus)
    plan = mk.plan(corpus, dedup)
    results = [mk.digest(corpus, since="2026-07-01", until="2026-07-31"), mk.history(root), plan, plan.diff()]
    results += [mk.diff(former, corpus)]
    pages = [result._repr_html_() for result in results]
    pages += [panel.html for panel in (mk.panels.dedup(dedup), mk.panels.policy(corpus, "decay"))]
    pages += [repr(result) for result in results if not isinstance(result, str)]
    pages += [repr(shown(corpus.memories)), shown(dedup.transform(corpus))._repr_html_()]
    assert [page for page in pages if value in page] == []
    assert sum("[password hidden]" in page for page in pages) >= len(results)
    tools = Tools(root, {"encoder": None})
    tools.memory_search(f"что за {value}?")
    assert value not in (root / ".memkit/calls.jsonl").read_text("utf-8")
