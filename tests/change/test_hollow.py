"""No plan leaves a page without its text: the file goes with its line in an index, or the plan refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import memkit as mk
from tests.folders import tree

TEXT = "Сборка идёт с нуля на каждом коммите, без общего кэша.\n"
OLD = "---\ntitle: Чай\nexpires: 2026-01-01\ntags: [напитки]\n---\n# Чай\n\nПьём зелёный чай утром.\n"
VAULT = {
    "index.md": "# Страницы\r\n\r\n- [[чай]] — про чай\r\n- [[кофе]]\r\n- [Мёд](мёд.md)\r\n",
    "чай.md": OLD,
    "кофе.md": "---\ntitle: Кофе\n---\n# Кофе\n\nВарим в турке.\n",
    "мёд.md": "---\ntitle: Мёд\n---\nЛиповый мёд берём к нему.\n",
}


def topic(name: str, more: str = "") -> str:
    more += "metadata:\n  node_type: memory\n  originSessionId: 0f3c\n  type: project\n"
    return f"---\nname: {name}\n{more}---\n{TEXT}"


def page(name: str) -> str:
    return f"---\ntitle: Склад\ntype: note\npermalink: {name}\n---\n# Склад\n\n- [tech] {TEXT}"


FIELDS = '"tags": [], "priority": "high", "version": "1.0", "updated": "2026-01-01"'
ENTRY_A, ENTRY_B = (f'{{"title": "A", "file": "memory/{name}.md", {FIELDS}}}' for name in "ab")
NOTE = (
    "---\nid: {id}\nsubject: Сборка\nkeywords: [ci]\napplies_to: global\n"
    "created_at: 2026-01-01\nupdated_at: 2026-01-01\n---\n\n"
)
IDS = [f"0b1f7a52-6f0c-4d5e-9d35-0c0f3f6f2b1{number}" for number in (1, 2)]
LAYOUTS: dict[str, tuple[dict[str, str], str, dict[str, str]]] = {
    "claude": (
        {
            ".claude/memory/MEMORY.md": "# Память\n\n- [Сборка](project_a.md) — CI\n- [Копия](project_b.md) — снова\n",
            ".claude/memory/project_a.md": topic("project_a"),
            ".claude/memory/project_b.md": topic("project_b"),
        },
        ".claude/memory/project_b.md",
        {".claude/memory/MEMORY.md": "# Память\n\n- [Сборка](project_a.md) — CI\n"},
    ),
    "vault": (VAULT, "чай.md", {"index.md": "# Страницы\r\n\r\n- [[кофе]]\r\n- [Мёд](мёд.md)\r\n"}),
    "logseq": (
        {
            "logseq/config.edn": "{}",
            "pages/a.md": "title:: A\n\n- Дом у реки\n",
            "pages/b.md": f"title:: B\nexpires:: 2026-01-01\n\n- {TEXT}",
        },
        "pages/b.md",
        {},
    ),
    "basic_memory": ({"a.md": page("a"), "b.md": page("b")}, "b.md", {}),
    "serena": (
        {
            ".serena/memories/a.md": f"# Сборка\n\n{TEXT}",
            ".serena/memories/a/b.md": f"---\nexpires: 2026-01-01\n---\n# Сборка\n\n{TEXT}",
        },
        ".serena/memories/a/b.md",
        {},
    ),
    "index_tree": (
        {
            "memory/index.json": f'{{"category": "x", "type": "y", "files": [{ENTRY_A}, {ENTRY_B}]}}',
            "memory/a.md": f"# A\n\n{TEXT}",
            "memory/b.md": f"# A\n\n{TEXT}",
        },
        "memory/b.md",
        {"memory/index.json": f'{{"category": "x", "type": "y", "files": [{ENTRY_A}]}}'},
    ),
    "notes": (
        {f"{id}.md": NOTE.format(id=id) + TEXT for id in IDS}
        | {"MEMORY.md": f"- [a]({IDS[0]}.md)\n- [b]({IDS[1]}.md)\n"},
        f"{IDS[1]}.md",
        {"MEMORY.md": f"- [a]({IDS[0]}.md)\n"},
    ),
}


@pytest.mark.outside
@pytest.mark.quick
@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_its_only_text_a_page_goes_and_so_does_its_line_in_an_index(layout: str, tmp_path: Path) -> None:
    """An expired page, or a duplicate: the file, its line, no dead link and no empty page; undo brings all back."""
    files, gone, changed = LAYOUTS[layout]
    root = mk.testing.write_files(tmp_path, files)
    before, known = tree(root), {*mk.read(root).problems["rule"].to_pylist()}
    plan = mk.plan(mk.read(root), [mk.Expiry(), mk.Deduplicator(encoder=None)], as_of="2026-03-01")
    plan.apply(force=True)
    after = tree(root)
    went = sorted(before.keys() - after.keys())
    assert plan.refused.num_rows == 0
    assert [gone] == went
    assert {path: text.decode() for path, text in after.items() if text != before[path]} == changed
    assert {*mk.read(root).problems["rule"].to_pylist()} <= known
    assert len(set(plan.table["together"].to_pylist())) == 1, "a page and its line go together"
    mk.undo(root)
    assert tree(root) == before


KEEPING = {
    "a link of prose": ({"мёд.md": "---\ntitle: Мёд\n---\nК нему [[чай|чаю]].\n"}, "мёд.md:4 links to it"),
    "a link of front matter": ({"мёд.md": "---\nrelated: '[[чай]]'\n---\nЛиповый.\n"}, "the front matter of мёд.md"),
    "a line that says more": (
        {"index.md": "- [[чай]], [[кофе]]\n- [[мёд]]\n"},
        "index.md:1 links to it",
    ),
    "what stands below its line": (
        {"index.md": "- [[чай]]\n  - без сахара\n- [[мёд]]\n- [[кофе]]\n"},
        "index.md:1 links to it",
    ),
    "where a name leads": ({"мёд.md": "К нему [чаю][а].\n\n[а]: чай.md\n"}, "мёд.md:3 links to it ([а]: чай.md)"),
    "a field": ({"чай.md": OLD.replace("---\n#", "price: 12 рублей\n---\n#")}, "tags and id (price)"),
    "a description": ({"чай.md": OLD.replace("---\n#", "summary: Сорта\n---\n#")}, "tags and id (summary)"),
    "a comment": ({"чай.md": OLD.replace("---\n#", "# проверить\n---\n#")}, "tags and id (a comment)"),
}


@pytest.mark.quick
@pytest.mark.parametrize("what", KEEPING)
def test_what_a_page_says_beside_its_text_or_who_links_to_it_keeps_it_whole(what: str, tmp_path: Path) -> None:
    """Then nothing of the page changes, and the plan says why in words."""
    files, reason = KEEPING[what]
    root = mk.testing.write_files(tmp_path, VAULT | files)
    plan = mk.plan(mk.read(root), "expiry", as_of="2026-03-01")
    (refused,) = plan.refused.to_pylist()
    assert (len(plan), refused["path"]) == (0, "чай.md")
    assert reason in refused["reason"], refused["reason"]


@pytest.mark.quick
def test_pages_that_link_to_each_other_go_together_and_a_host_keeps_its_file(tmp_path: Path) -> None:
    """A link from what goes too keeps nothing; MEMORY.md stays, also without a text."""
    honey = "---\ntitle: Мёд\nexpires: 2026-02-01\n---\nСм. [[чай]].\n"
    files = VAULT | {"мёд.md": honey, "чай.md": OLD + "\n## Сорт\n\nКак [[мёд]].\n"}
    plan = mk.plan(mk.read(mk.testing.write_files(tmp_path / "vault", files)), "expiry", as_of="2026-03-01")
    plan.apply(force=True)
    assert sorted(tree(tmp_path / "vault")) == ["index.md", "кофе.md"]
    root = mk.testing.write_files(tmp_path / "host", {"MEMORY.md": f"# A\n\n{TEXT}", "MEMORY/A.md": f"# A\n\n{TEXT}"})
    corpus = mk.read(root)
    longer = mk.Deduplicator(encoder=None, survivor="newest").fit(corpus)
    mk.plan(corpus, longer).apply(force=True)
    assert "MEMORY.md" in tree(root)


def test_a_later_policy_sees_what_an_earlier_one_may_not_remove(tmp_path: Path) -> None:
    """A refused page stays for the next policy, and a page that two policies empty goes as one."""
    kept = VAULT | {
        "мёд.md": "К нему [[чай]].\n",
        "я.md": "---\ntitle: Копия\n---\n# Чай\n\nПьём зелёный чай утром.\n",
    }
    corpus = mk.read(mk.testing.write_files(tmp_path / "kept", kept))
    plan = mk.plan(corpus, [mk.Expiry(), mk.Deduplicator(encoder=None, survivor="longest")], as_of="2026-03-01")
    assert plan.refused["policy"].to_pylist()[:1] == ["expiry"]
    assert plan.table["path"].to_pylist() == ["я.md"], "it is a duplicate of what stayed"
