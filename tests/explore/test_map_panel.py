"""The map: what its colours say, what is chosen on it, and what of a memory leaves the kernel."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import memkit as mk
from memkit.base.params import as_of_time
from memkit.explore.places import grouped

DAY = "2026-03-01"
ATTACK = "<script>window.ran=1</script><img src=x onerror='window.ran=1'>"
SECRET = "hunter2hunter2"
WORDS = ("чай", "пул", "деплой", "аренда")
N = 60


def rows() -> dict[str, list[Any]]:
    texts = [f"{WORDS[number % 4]} номер {number}" for number in range(N)]
    texts[5], texts[6], texts[7] = f"Чай {ATTACK}", f"password: {SECRET} от пула", ""
    return {
        "memory_id": [f"it's {number:02d}" for number in range(N)],
        "text": texts,
        "kind": ["profile" if number % 3 else "working" for number in range(N)],
        "user_id": [ATTACK if number == 5 else None if number % 5 == 0 else f"u{number % 2}" for number in range(N)],
        "created_at": [None if number in (7, 9) else f"2026-0{1 + number % 2}-10" for number in range(N)],
    }


@pytest.fixture(scope="module")
def search() -> mk.Retriever:
    return mk.Retriever(encoder="hash").fit(mk.from_table(rows()))


@pytest.fixture
def panel(search: mk.Retriever) -> Any:
    return mk.panels.map(search, projection="pca", as_of=DAY)


def ids(panel: Any) -> list[str]:
    chosen: list[str] = panel.result["memory_id"].to_pylist()
    return chosen


@pytest.mark.quick
def test_what_is_set_narrows_together_and_can_be_undone(panel: Any, search: mk.Retriever) -> None:
    texts, kinds = rows()["text"], rows()["kind"]
    placed = [f"it's {number:02d}" for number in range(N) if texts[number]]
    assert ids(panel) == placed
    lasso = placed[:30]
    panel.choose(lasso)
    assert ids(panel) == lasso
    panel.set(group="working")
    working = [memory_id for memory_id in lasso if kinds[int(memory_id[-2:])] == "working"]
    assert ids(panel) == working
    panel.set(where="text like '%чай%'")
    tea = [memory_id for memory_id in working if "чай" in texts[int(memory_id[-2:])]]
    assert ids(panel) == tea
    panel.set(where=None, query="пул", k=20)
    hits = search.search("пул", k=20, as_of=DAY)["memory_id"].to_pylist()
    assert ids(panel) == sorted(set(working) & set(hits))
    assert re.findall(r"memory:it&#x27;s (\d\d)", panel.body) == [
        memory_id[-2:] for memory_id in hits if memory_id in working
    ]
    assert panel.undo()
    assert panel.undo()
    assert ids(panel) == working
    panel.press("clear")
    assert ids(panel) == placed
    assert (panel.values["group"], panel.values["query"]) == (None, "")


@pytest.mark.quick
def test_the_code_gives_the_table_by_sql_for_a_few_and_a_large_choice_is_a_table(panel: Any) -> None:
    for n in (1, 20, 21, 40):
        panel.choose([f"it's {number:02d}" for number in range(10, 10 + n)])
        assert (".corpus.sql(" in panel.code) == (n <= 20)
        table = eval(panel.code, {"mk": mk, "search": panel.search})  # noqa: S307  # memkit's own
        assert table.equals(panel.result)
        assert panel.corpus.sql(panel.answer.query).to_arrow_table().equals(table)
        assert ("from selection" in panel.answer.query) == (n > 20)
        assert table["memory_id"].to_pylist() == [f"it's {number:02d}" for number in range(10, 10 + n)]
    places = panel.corpus.sql("select memory_id, x, y from places order by memory_id").to_arrow_table()
    assert places.filter(
        pa.array([10 <= int(memory_id[-2:]) < 50 for memory_id in places["memory_id"].to_pylist()])
    ).equals(panel.result.select(["memory_id", "x", "y"]))
    assert "places" not in panel.search.corpus_.tables


@pytest.mark.quick
def test_every_row_is_reached_by_turning_pages_and_enter_shows_a_text(panel: Any) -> None:
    reached: list[str] = []
    for _ in range(4):
        reached += [number for number in re.findall(r"memory:it&#x27;s (\d\d)", panel.body) if number not in reached]
        panel.press("next")
    assert len(reached) == N - 1
    for _ in range(4):
        panel.press("previous")
    panel.pick("memory:it's 06")
    assert "mkwhy" in panel.body
    assert "[password hidden]" in panel.body
    panel.pick("memory:it's 06")
    assert "mkwhy" not in panel.body


def test_a_group_of_the_legend_is_chosen_and_given_up_and_other_colours_forget_it(panel: Any) -> None:
    names = re.findall(r'data-pick="(group:\d)"[^>]*>.*?<span>(\w+)</span> <b>(\d+)</b>', panel.strip_html)
    kinds = [kind for kind, text in zip(rows()["kind"], rows()["text"], strict=True) if text]
    assert {name: int(count) for _, name, count in names} == {kind: kinds.count(kind) for kind in set(kinds)}
    panel.pick(names[1][0])
    assert panel.values["group"] == names[1][1]
    assert 'aria-selected="true"' in panel.strip_html
    panel.pick(names[1][0])
    assert panel.values["group"] is None
    for stale in ("group:9", "group:x", "group:", "memory:none", ""):  # a page that lags behind
        panel.pick(stale)
    assert panel.values["group"] is None
    panel.set(group=names[0][1])
    panel.set(color="age")
    assert panel.values["group"] is None
    with pytest.raises(mk.errors.ParameterError, match="up to 3 months"):
        panel.set(group="profile")
    with pytest.raises(mk.errors.ParameterError, match="it's 07"):
        panel.choose(["it's 07"])  # it has no text, and no place


def test_points_follow_the_panel_and_a_lasso_chooses_in_it(panel: Any) -> None:
    assert panel.view.inner is panel.live.widget  # shown by a page, which follows the panel
    widget = panel.live.widget
    placed = panel.result["memory_id"].to_pylist()
    assert widget.points.shape == (N - 1, 4)
    widget.selection = np.array([30, 3, 4], np.uint32)
    assert ids(panel) == [placed[position] for position in (3, 4, 30)]
    panel.undo()
    assert len(widget.selection) == 0
    panel.set(group="working")
    assert [placed[position] for position in widget.selection] == ids(panel)
    before, groups = widget.color, panel.answer.groups
    panel.set(color="user")
    assert widget.color != before
    assert len(widget.color) == len(panel.answer.groups.names) != len(groups.names)
    points_before = widget.points.copy()
    panel.set(projection="tsne")
    assert not np.array_equal(widget.points[:, :2], points_before[:, :2])
    widget.selection = np.array([5], np.uint32)
    widget.selection = np.array([], np.uint32)
    assert ids(panel) == placed


def test_no_secret_leaves_the_kernel_and_no_word_is_markup(panel: Any) -> None:
    panel.set(color="user")
    texts = panel.live.widget.data["memory"].tolist()
    assert "[password hidden] от пула" in next(text for text in texts if "password" in text)
    bundle = panel._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    for page in (data["text/html"], panel.view.body, panel.view.strip, panel.view.words, *texts):
        assert SECRET not in page
    for page in (data["text/html"], panel.view.body, panel.view.strip):
        assert "<script" not in page
        assert "<img src=x" not in page
    assert data["image/png"]
    assert panel.view.picture == ""  # the points stand in its place


def test_without_its_extra_the_map_names_it_and_the_picture(
    search: mk.Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jscatter", None)
    with pytest.raises(mk.errors.MissingExtraError, match=r"memkit\[map\].*mk\.plot\.map"):
        mk.panels.map(search)
    assert "59 memories by meaning, coloured by kind" in mk.plot.map(search, projection="pca").words


def test_what_points_and_labels_stand_on_is_opaque_and_as_light_as_the_page(panel: Any) -> None:
    for page, colours in panel.spec()["ground"].items():
        for ground in ("background_color", "tooltip_color"):
            *light, opacity = colours[ground]
            assert opacity == 1, (page, ground)
            assert (np.mean(light) > 0.5) == (page == "light"), (page, ground)


def test_a_map_without_a_point_says_so() -> None:
    for texts in ([], [""]):
        panel = mk.panels.map(mk.Retriever(encoder="hash").fit(mk.from_table({"text": pa.array(texts, pa.string())})))
        assert "no memory has text" in panel.view.picture
        assert "No memory has text." in panel.html


def test_groups_count_what_they_say(search: mk.Retriever, subtests: pytest.Subtests) -> None:
    with subtests.test("the largest groups have a colour, all others one"):
        kinds = [f"k{number}" for number in range(9) for _ in range(number + 1)]
        groups = grouped("kind", pa.table({"kind": kinds}), as_of_time(DAY), None)
        assert dict(zip(groups.names, groups.counts, strict=True)) == {
            **{f"k{number}": number + 1 for number in range(8, 2, -1)},
            "3 others": 1 + 2 + 3,
        }
        assert len(set(groups.colours)) == 7
    with subtests.test("steps of age have their ends, and stop at the oldest"):
        days = ["2026-03-01", "2026-02-28", "2026-02-27", "2026-02-22", "2026-01-30", "2026-01-29", None]
        stamps = pa.array(days).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"created_at": stamps, "updated_at": pa.nulls(len(days), stamps.type)})
        groups = grouped("age", table, as_of_time(DAY), None)
        ages = {"up to a day": 2, "up to a week": 2, "up to a month": 1, "up to 3 months": 1, "no date": 1}
        assert dict(zip(groups.names, groups.counts, strict=True)) == ages
    with subtests.test("duplicates are those that a Deduplicator would refuse"):
        corpus = mk.from_table({"memory_id": ["a", "b", "c"], "text": ["Любит чай", "любит  чай", "Аренда 1200"]})
        dedup = mk.Deduplicator(encoder=None).fit(corpus)
        groups = grouped("duplicates", corpus.memories, as_of_time(DAY), dedup)
        assert groups.counts == [1, 1, 1]
        assert [groups.names[code] for code in groups.codes] == [
            "stays, of near-duplicates",
            "goes, as a near-duplicate",
            "no duplicate",
        ]
    with subtests.test("topics are those of mk.topics, and who has none is told apart"):
        topics = mk.topics(search, k=3, as_of=DAY)
        sizes = dict(zip(topics.table["name"].to_pylist(), topics.table["n"].to_pylist(), strict=True))
        words = mk.plot.map(search, "topic", projection="pca", topics=topics, as_of=DAY).words
        for name, n in sizes.items():
            if name != "no topic":
                assert re.search(rf"^{re.escape(name)} .* {n}$", words, re.MULTILINE)
        panel = mk.panels.map(search, color="topic", projection="pca", topics=topics, as_of=DAY)
        assert "coloured by topic" in panel.words
        with pytest.raises(mk.errors.ParameterError, match=r"mk\.topics"):
            mk.plot.map(search, "topic")
    with subtests.test("a hit of a query is drawn apart"):
        words = mk.plot.map(search, "user", query="пул", k=3, projection="pca", as_of=DAY).words
        assert "coloured by user; 3 chosen" in words
        assert SECRET not in words


def test_only_a_part_is_drawn_of_many_and_all_are_counted() -> None:
    n = 5000
    rng = np.random.default_rng(0)
    table = {"text": [f"текст {number}" for number in range(n)], "kind": rng.choice(["profile", "working"], n).tolist()}
    panel = mk.panels.map(
        mk.Retriever(encoder=lambda texts: rng.normal(size=(len(texts), 4))).fit(mk.from_table(table)),
        projection="pca",
        as_of=DAY,
    )
    n_drawn = sum(len(mark.x) for mark in panel.marks.marks)
    assert n_drawn == 2000
    assert sum(count for _, count in panel.marks.rows) == n
