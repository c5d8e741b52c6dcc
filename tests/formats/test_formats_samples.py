"""Of each kind of folder a broken, a hostile and a huge sample: it is read, nothing is lost, and the work is linear."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import memkit as mk

Files = dict[str, str | bytes]
WORD = "маяк"
"""What has to be found again in a broken file: in a text, in extra, or in what a row of problems quotes."""
BROKEN: dict[str, tuple[Files, set[str]]] = {
    "empty pages": ({f"s/{n}.md": "" for n in range(99)} | {"a.md": WORD}, {"empty_text"}),
    "a manifest": ({"manifest.json": '{"id": "x", "version": ', "a.md": WORD}, {"unparsable"}),
    "attachments": ({".obsidian/app.json": "{}", "a.md": f"{WORD} ![[b.png]] [[c.pdf#page=2]]"}, {"dead_link"}),
    "heads": ({"a.md": f'+++\ntitle = "{WORD}\n+++\nЧай\n'}, {"loose_front_matter"}),
    "dates": ({"a.md": f"---\ncreated: 2026-13-41 25:00 XYZ\n---\n{WORD}\n"}, {"bad_date"}),
    "times": ({"memory/2026-07-03 25.00.md": f"{WORD}\n\n## 2026-07-03 10.61\n\nчай\n"}, {"bad_date"}),
    "entries": (
        {"a.md": f"[2026-02-31 10:00] {WORD}\n\n[2026-03-01 10:00] б\n\n[2026-03-01 11:00] в\n"},
        {"bad_date"},
    ),
    "dreams": ({"memory/dreaming/2026-99-99.md": f"## Light Sleep\n{WORD}\n"}, {"bad_date"}),
    "old files": ({"archive/a.md": f"---\nstatus: [\n---\n{WORD}\n"}, {"loose_front_matter"}),
    "boxes": ({"memory/2026-02-30.md": f"- [x {WORD}\n- [?] б\n"}, {"bad_date"}),
    "logseq": ({"logseq/config.edn": "{", "pages/a.md": f"- {WORD}\n\t\t\t- б\nid:: ((\n"}, set()),
    "deep JSON": ({"a.json": f'[{{"value": {{"content": "Анна видит {WORD} ночью"}}}}, {{"value": '}, {"unparsable"}),
    "measures": ({"a.md": f"---\nimportance: -7\nconfidence: 3\n---\n{WORD}\n"}, {"bad_value"}),
    "encodings": ({"a.md": WORD.encode("cp1251") + b"\n\x98\xff\n"}, {"encoding"}),
    "secrets": ({"a.md": f"{WORD} api_key: AQ.\n"}, set()),
}
HOSTILE: dict[str, Files] = {
    "empty pages": {"s/" + "я" * 100 + f"{n}.md": "#" for n in range(60)},
    "a manifest": {"manifest.json": "[" * 5000, "saved/manifest.json": '{"version": 7, "memkit": {}}'},
    "attachments": {".obsidian/app.json": "{}", "a.md": "[[" * 3000 + "](" * 3000 + "![[../../etc/passwd]]"},
    "heads": {"a.md": "+++\n" + "[[a]]\n" * 2000 + "a." * 2000 + "b = 1\n+++\n", "b.md": "---json\n" + "{" * 5000}
    | {"c.md": "---toml\n" + "[[a]]\n" * 2000 + "---\n", "d.md": "---yaml\n" + "a: " * 2000 + "\n---\n"},
    "dates": {"a.md": "---\ncreated: " + "1" * 5000 + "\nupdated: 2026-07-01" + " +03:00" * 500 + "\n---\nЧай\n"},
    "times": {
        f"memory/2026-07-03 {'9.05 ' * 40}.md": "# 2026-07-03 " + "10:00-" * 3000 + "\n# 2026-07-03" + " МСК" * 3000
    },
    "entries": {"a.md": "[2026-07-03 10:00" * 2000 + "\n\n" + "[2026-07-03 10:00] [\n\n" * 50},
    "dreams": {"DREAMS.md": "## Light Sleep\n" * 2000},
    "old files": {"archive/" * 40 + "a (1) (1) copy copy.md": "Чай", "a" + " copy" * 40 + ".md": "Чай"},
    "boxes": {"memory/2026-07-03.md": "- [ ] " * 3000, "memory/2026-07-04.md": "\t" * 3000 + "- [x] чай"},
    "logseq": {"logseq/config.edn": "", "pages/a.md": "".join("\t" * n + "- б\n" for n in range(150)) + "a:: " * 2000},
    "deep JSON": {"a.json": '{"a":' * 900 + '"Анна пьёт чай"' + "}" * 900, "b.json": '{"a": ["' + "б " * 5000 + '"]}'},
    "measures": {"a.md": f"---\nimportance: {'9' * 4000}\naccessCount: -1\nconfidence: [[1]]\n---\nЧай\n"},
    "encodings": {"a.md": bytes(range(256)) * 40, "b.md": b"\xff\xfe" + b"\0\xd8" * 500, "c.md": b"\x80" * 9999},
    "secrets": {"a.md": "api_key=" * 2000 + "sk-" * 2000 + "ya29." * 2000},
}
HUGE: dict[str, Callable[[int], Files]] = {
    "empty pages": lambda n: {f"s/{k}.md": "---\ntitle: Чай\n---\n" for k in range(n)},
    "a manifest": lambda n: {f"{k}/manifest.json": '{"id": "my-plugin", "version": "1.0.0"}' for k in range(n)},
    "attachments": lambda n: {".obsidian/app.json": "{}", "b.png": "", "a.md": "[[b.png]] [x](c#d.md)\n" * n},
    "heads": lambda n: {"a.md": "+++\n" + "".join(f'k{k} = "чай"\n' for k in range(n)) + "+++\nЧай\n"},
    "dates": lambda n: {f"{k}.md": "---\ncreated: Wednesday, July 1st 2026, 10:05:00 am\n---\nЧай\n" for k in range(n)},
    "times": lambda n: {"log.md": "## 2026-07-03 9.05 МСК\n\nчай\n\n" * n},
    "entries": lambda n: {"a.md": "[2026-07-03 10:00 MSK] чай\n\n" * n},
    "dreams": lambda n: {"DREAMS.md": "".join(f"## Light Sleep\nсон {k}\n\n" for k in range(n))},
    "old files": lambda n: {f"{k % 9}{name}.md": "Чай с лимоном" for k in range(n) for name in (k, f"{k} (1)")},
    "boxes": lambda n: {f"memory/2026-07-0{day}.md": f"- [{'x '[day % 2]}] чай\n" * n for day in (3, 4)},
    "logseq": lambda n: {"logseq/config.edn": "{}", "pages/a.md": "- чай\n\tid:: 1\n\t- б\n" * n},
    "deep JSON": lambda n: {"a.json": "[" + ",".join(['{"value": {"content": "Анна пьёт чай"}}'] * n) + "]"},
    "measures": lambda n: {f"{k}.md": "---\nimportance: 77\nconfidence: 2\n---\nЧай\n" for k in range(n)},
    "encodings": lambda n: {"a.md": b"\xe0 caf\xe9\n" * n},
    "secrets": lambda n: {"a.md": "api_key: AQ.Ab8RN6KxVd1234567890abcdefgh\n\n" * n},
}


def written(folder: Path, files: Files) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_a_broken_sample_is_read_and_told(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind, (files, rules) in BROKEN.items():
        with subtests.test(kind):
            corpus = mk.read(written(tmp_path / kind, files))
            told = corpus.problems.select(["rule", "message"]).to_pydict()
            assert rules <= set(told["rule"])
            held = corpus.memories.select(["text", "extra", "title"]).to_pydict()
            assert any(WORD in text for texts in (*held.values(), told["message"]) for text in texts)


def test_a_hostile_sample_is_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind, files in HOSTILE.items():
        with subtests.test(kind):
            corpus = mk.read(written(tmp_path / kind, files))
            assert corpus.memories.num_rows + corpus.problems.num_rows > 0
            assert not {*corpus.problems["rule"].to_pylist()} & {"format_failed"}


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called."""
    count = [0]
    sys.setprofile(lambda frame, event, value: count.__setitem__(0, count[0] + event.endswith("call")))
    try:
        work()
    finally:
        sys.setprofile(None)
    return count[0]


def test_a_huge_sample_is_read_in_work_that_grows_as_its_size(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind, make in HUGE.items():
        with subtests.test(kind):
            once, four_times = (written(tmp_path / kind / str(n), make(n)) for n in (30, 120))
            mk.read(once)
            few, many = (calls_of(lambda folder=folder: mk.read(folder)) for folder in (once, four_times))
            assert many < 4.4 * few
