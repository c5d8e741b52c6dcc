"""Dates of Markdown: what a heading and a file's name tell, which of them is nearest, and what is no date."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memkit as mk
from memkit.base.dates import MONTHS, WEEKDAYS, dated, day_in, named_day
from memkit.tables.samples import write_files

FORMS = (
    *("{d:%Y-%m-%d}", "{d:%Y.%m.%d}", "{d:%Y/%m/%d}", "{d:%d.%m.%Y}", "{d.day}.{d.month}.{d.year}"),
    *("{d.day} {ru} {d.year}", "{d.day}-го {ru} {d.year} года", "{week_ru}, {d.day} {ru} {d.year} г."),
    *("{en} {d.day}, {d.year}", "{short} {d.day}th {d.year}", "{d.day} {en} {d.year}"),
    *("{week_en} {d.day:02} {short} {d.year}: what we did", "Итоги за {d.day} {ru} {d.year}"),
    "[{d.day} {ru} {d.year}] сборка | план",
)
days = st.dates(date(1990, 1, 1), date(2089, 12, 31))


def in_form(form: str, day: date) -> str:
    month, week = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    words = {"ru": month.russian, "en": month.english, "short": month.english[:3]}
    return form.format(d=day, week_ru=week.russian.title(), week_en=week.english, **words)


def rows_of(root: Path, files: dict[str, str], **options: Any) -> dict[str, tuple[str | None, str | None]]:
    """Day and source of the date of each memory, by the last line of its text."""
    rows = mk.read(write_files(root, files), **options).memories.to_pylist()
    return {
        row["text"].rstrip().rpartition("\n")[2]: (
            row["created_at"].date().isoformat() if row["created_at"] else None,
            row["date_source"],
        )
        for row in rows
    }


@given(days, st.sampled_from(FORMS), st.sampled_from(["", "Решения от ", "🗓 ", "("]))
def test_a_day_is_read_in_each_form_of_both_languages(day: date, form: str, before: str) -> None:
    text = before + in_form(form, day)
    named = day_in(text)
    assert named is not None
    assert named.day == day
    assert str(day.year) in text[named.start : named.end]


@given(st.text(alphabet="0123456789.-/_ :vдо январямayMфев", max_size=40))
def test_what_is_read_is_a_day_that_the_text_spells(text: str) -> None:
    named = day_in(text)
    if named is not None:
        spelled = text[named.start : named.end]
        assert str(named.day.year) in spelled
        assert str(named.day.day) in spelled
        around = text[max(named.start - 1, 0) : named.start] + text[named.end : named.end + 1]
        assert not any(sign.isdigit() for sign in around)


@pytest.mark.quick
def test_versions_addresses_bounds_and_impossible_days_are_no_dates() -> None:
    names = (
        *("v20.01.2026", "20.01.2026.3", "1.20.01.2026", "2026.01.20.1", "192.168.20.01", "3.12.2026.01.20"),
        *("до 20 января 2026", "срок: 20.01.2026", "due January 20, 2026", "until 2026.01.20", "с 20 января 2026"),
        *("30 февраля 2026", "31.04.2026", "2026/13/01", "20 маяк 2026", "January 2026", "20 января", "01/02/2026"),
        *("20260120", "x20260120", "ISBN 978-20260120", "id 202601201230", "20 000 2026", "https://a.b/2026/01/20/x"),
    )
    assert {name: day_in(name) for name in names if day_in(name)} == {}


TIMED = {
    "10:05:00": ("2026-07-03 10.05 чай", "2026-07-03_10-05", "2026-07-03T1005", "20260703-100500", "2026_07_03_10_05"),
    "10:05:42": ("IMG_20260703_100542", "03.07.2026 10.05.42 чай", "2026-07-03 10-05-42", "чай 2026-07-03 10:05:42"),
    "09:05:00": (
        *("2026-07-03 9.05", "2026-07-03_9-05_чай", "03.07.2026 9.05 чай", "3 июля 2026, 9:05", "2026-07-03 9h05"),
    ),
    "22:05:00": ("2026-07-03 at 10.05 PM", "2026-07-03_2205_чай"),
    "21:00:00": ("2026-07-03 9 PM", "чай 2026-07-03 9pm"),
    "10:05:00+00:00": ("2026-07-03T10-05Z", "2026-07-03T10-05-00.123Z", "2026-07-03T100500Z", "2026-07-03 10.05 UTC"),
    "10:05:00+03:00": ("2026-07-03 10.05 МСК", "2026-07-03 10.05+0300 чай", "чай 2026-07-03 10-05 MSK"),
    "00:00:00": (
        *("2026-07-03 - 2026-07-09", "2026-07-03 10.05.2026", "2026-07-03 v1.10", "2026-07-03", "2026-07-03 3-4 дела"),
        *("2026-07-03 25.00", "2026-07-03 10.05 CST", "2026-07-03 45.90 руб", "2026-07-03 20-80", "2026-07-03-2500"),
    ),
}


@pytest.mark.quick
def test_the_name_of_a_log_or_a_page_tells_its_day() -> None:
    day = "2026-01-13"
    logs = (
        *("2026-01-13", "2026_01_13", "20260113", "20260113-план", "2026-01-13-1230-план", "13.01.2026", "2026.01.13"),
        *("log-2026-01-13", "Log_20260113", "Дневник 2026-01-13", "journal_2026_01_13", "daily log 2026-01-13"),
        *("13 января 2026", "January 13, 2026", "Дневник 13 января 2026 вечер"),
    )
    pages = ("meeting-2026-01-13", "Встреча 13.01.2026", "report_20260113", "Разбор (2026-01-13)", "release-13.01.2026")
    pages = (*pages, "202601131230", "20260113123059 чай", "заметка-20260113123059123")
    no_days = (
        *(
            *("202601132530", "188001131230", "2026011312305", "20261313", "v2026.01.13", "2026-01", "2026"),
            "plan-1.2.2026.3",
        ),
        *("build-202601", "2026-W60", "тел-79260113", "f20260113"),
    )
    days = {stem: name and name.day.date().isoformat() for stem in logs if (name := dated(stem)) and name.day}
    assert days == dict.fromkeys(logs, day)
    assert [stem for stem in pages if dated(stem)] == []
    days = {stem: name.date().isoformat() for stem in pages if (name := named_day(stem))}
    assert days == dict.fromkeys(pages, day)
    assert {stem: named_day(stem) for stem in no_days if named_day(stem)} == {}
    assert [stem for at, stems in TIMED.items() for stem in stems if not str(named_day(stem)).endswith(at)] == []
    for week in range(1, 53):
        monday = named_day(f"2026-W{week:02}")
        assert monday is not None
        assert monday.isocalendar()[:3] == (2026, week, 1)


@pytest.mark.quick
def test_the_nearest_date_counts_and_its_source_is_said(tmp_path: Path) -> None:
    head = "---\ncreated: 2026-01-02\nupdated: 2026-01-03\n---\n"
    files = {
        # Logs: a heading, else the heading above, else the name.
        "notes/log-2026-01-13.md": "# День\n\na1\n\n## 14 января 2026\n\na2\n\n### Вечер\n\na3\n\n## Ещё\n\na4\n",
        "notes/log.md": "# Log\n\nb0\n\n## January 20, 2026\n\nb1\n\n### Morning\n\nb2\n\n## [2026-01-21] op\n\nb3\n",
        "notes/Дневник.md": "# Дневник 2025\n\nc0\n\n## Вторник, 20 января\n\nc1\n\n## план 20 января\n\nc2\n",
        "notes/2026/январь.md": "# Январь\n\n## 20 января\n\nd1\n\n### Вечер\n\nd2\n",
        # Pages: a heading, else the one above (not the title, where the front matter has dates), these, else the name.
        "wiki/встреча 2026-01-15.md": "# Встреча\n\ne1\n\n## 16.01.2026\n\ne2\n",
        "wiki/b-2026-01-15.md": head
        + "# B 1.12.2025\n\nf1\n\n## Итоги\n\nf2\n\n## 17.01.2026\n\nf3\n\n### Ещё\n\nf4\n",
        "wiki/.obsidian/app.json": "{}",
        "wiki/2026-W03.md": "# Неделя\n\ng1\n",
        "wiki/plan.md": "# План\n\nh1\n\n## Сделать до 20 января 2027\n\nh2\n\n## Версия 2.10.2026.1\n\nh3\n",
        "sessions/2026-01-18-a.md": "# S\n\ni1\n\n## План 1 мая 2025\n\ni2\n\n### Вечер\n\ni3\n",
    }
    wanted = {
        **{"a1": ("2026-01-13", "name"), "a2": ("2026-01-14", "heading"), "a3": ("2026-01-14", "heading")},
        **{"a4": ("2026-01-13", "name"), "b0": (None, None), "b1": ("2026-01-20", "heading")},
        **{"b2": ("2026-01-20", "heading"), "b3": ("2026-01-21", "heading"), "c0": (None, None)},
        **{"c1": ("2025-01-20", "heading"), "c2": (None, None), "d1": ("2026-01-20", "heading")},
        **{"d2": ("2026-01-20", "heading"), "e1": ("2026-01-15", "name"), "e2": ("2026-01-16", "heading")},
        **{"f1": ("2025-12-01", "heading"), "f2": ("2026-01-02", "own"), "f3": ("2026-01-17", "heading")},
        **{"f4": ("2026-01-17", "heading"), "g1": ("2026-01-12", "name"), "h1": (None, None), "h2": (None, None)},
        **{"h3": (None, None), "i1": ("2026-01-18", "name"), "i2": ("2025-05-01", "heading")},
        "i3": ("2026-01-18", "name"),
    }
    rows = rows_of(tmp_path, files)
    assert {key: value for key, value in rows.items() if key in wanted} == wanted
    layouts = {row["layout"] for row in mk.read(tmp_path).memories.to_pylist()}
    assert len(layouts) > 1  # logs and linked notes alike


def test_a_clock_stands_on_the_day_of_the_heading_above(tmp_path: Path) -> None:
    text = "# Log\n\n## 20 января 2026\n\n### 14:30 встреча\n\nрешили\n"
    memory = mk.read(write_files(tmp_path, {"log.md": text}), timezone="Europe/Moscow").memories.to_pylist()[-1]
    assert memory["created_at"].isoformat() == "2026-01-20T11:30:00+00:00"


@pytest.mark.outside
@pytest.mark.parametrize("layout", [".claude/memory/", ".serena/memories/", "memory/"])
def test_a_files_name_dates_it_in_each_layout(tmp_path: Path, layout: str) -> None:
    rows = rows_of(tmp_path, {f"{layout}решение-2026-01-13.md": "x1\n", f"{layout}20260114.md": "x2\n"})
    assert rows == {"x1": ("2026-01-13", "name"), "x2": ("2026-01-14", "name")}


def test_a_time_in_a_name_or_heading_is_read_in_its_zone_or_is_a_row(tmp_path: Path) -> None:
    unread = [f"2026-07-03{time}" for time in (" 25.00", " 24:00", " 10.61", " 10.05 CST", " 9:05 IST", "T2500")]
    names = [f"memory/{place}{name}.md" for place in ("", "чай ") for name in unread]
    heads = "".join(f"\n## {name}\n\nx{number}\n" for number, name in enumerate(unread))
    read = "\n## 2026-07-03 9.05\n\na\n\n## Итог 3 июля 2026, 9.05 МСК\n\nb\n\n## 2026-07-03 v25.00\n\nc\n"
    read += "\n## Thu, 02 Jul 2026 23:05:00 -0500\n\nd\n\n## 2026-07-03: 1200 заказов\n\ne\n"
    read += "\n## 2026-07-03 09.05-12.00\n\nl\n\n## 2026-07-03 19.99 за чай\n\nm\n"
    on_day = "\n## 9.30\n\ng\n\n## 9.05 МСК чай\n\nh\n\n## 2.5 часа\n\ni\n\n## 10-12 гостей\n\nj\n\n## 25.00\n\nk\n"
    logs = {"memory/2026-07-01.md": heads + "\n## 26:30 чай\n\ny\n", "memory/планы.md": heads}
    logs |= {"memory/2026-07-02.md": on_day, "memory/log.md": read}
    corpus = mk.read(write_files(tmp_path, {**dict.fromkeys(names, "чай\n"), **logs}), timezone="Europe/Moscow")
    rows = [(row["path"], row["message"]) for row in corpus.problems.to_pylist() if row["rule"] == "bad_date"]
    expected = [*names, "memory/2026-07-02.md", *["memory/2026-07-01.md"] * 7, *["memory/планы.md"] * 6]
    assert sorted(path for path, _ in rows) == sorted(expected)
    assert {message.partition(". Got ")[2].count("Write") for _, message in rows} == {0}
    times = {row["text"].rstrip()[-1]: str(row["created_at"])[11:16] for row in corpus.memories.to_pylist()}
    wanted = {**dict.fromkeys("abhl", "06:05"), **dict.fromkeys("ceijkm", "00:00"), "d": "04:05", "g": "06:30"}
    assert {key: times[key] for key in wanted} == wanted


def test_a_heading_of_dates_without_end_costs_no_more_than_its_length(tmp_path: Path) -> None:
    start = "# " + "до 20 января 2026 " * 20_000
    rows = rows_of(tmp_path, {"a.md": f"{start}\n\nx\n", "b.md": "# " + "2026-" * 50_000 + "\n\ny\n"})
    assert rows == {"x": (None, None), "y": (None, None)}
    assert timedelta(0) == day_in("1 мая 2026").day - date(2026, 5, 1)  # type: ignore[union-attr]  # it is there


def test_a_file_that_is_named_for_a_day_has_the_time_that_its_head_tells_for_it(tmp_path: Path) -> None:
    """One of another day is when the file was made, and a section with a time of its own keeps it."""
    head = "---\ndate: 2026-07-0{}T11:00\n---\n## Итог\n\nчай\n\n## 9:30 обед\n\nкофе\n"
    files = {"2026-07-03 Встреча.md": head.format(3), "2026-07-04.md": head.format(5)}
    logs = [row for row in mk.read(write_files(tmp_path, files)).memories.to_pylist() if row["text"].startswith("##")]
    times = [(f"{row['created_at']:%d %H:%M}", row["date_source"]) for row in logs]
    assert times == [("03 11:00", "own"), ("03 09:30", "name"), ("04 00:00", "name"), ("04 09:30", "name")]
