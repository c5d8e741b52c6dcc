"""A page gets another path: links that led to it still do, all other bytes stay, and it can be undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memkit as mk
from memkit.change.edits import Edits
from memkit.tables.samples import write_files
from tests.folders import tree

HEAD = '---\ntitle: {0}\nrelated: ["[[{1}]]"]\n---\n'
PAGES = {
    "index.md": "# Всё\n\n- [Чай](drinks/tea.md#сорта) — о чае\n- [Мёд](</sweets/мёд из леса.md>)\n"
    "- [[drinks/tea.md|ещё]]\n",
    "drinks/tea.md": HEAD.format("Чай зелёный", "кофе") + "См. [кофе](coffee.md), [мёд](../sweets/%D0%BC%D1%91%D0%B4%20"
    "%D0%B8%D0%B7%20%D0%BB%D0%B5%D1%81%D0%B0.md) и [себя](tea.md#сорта).\n\n## Сорта\n\n`[[tea]]` в коде, [[tea]].\n",
    "drinks/coffee.md": HEAD.format("Кофе", "tea")
    + "```\n[[tea]]\n```\n[[Tea|чай]], [[Чай зелёный]] и [[drinks/tea]].\r\n",
    "sweets/мёд из леса.md": HEAD.format("Мёд", "drinks/tea")
    + '| a | b |\n|---|---|\n| [[tea\\|чай]] | [x](../drinks/tea.md "t") |\n',
    "sweets/deep/x.md": HEAD.format("X", "tea") + "[a](../../drinks/tea.md) ![[tea]] [[../../drinks/tea]]\n",
}


def links(root: Path) -> list[tuple[str, int | None, str, str | None]]:
    """Of each link: the page, line, state, and where it leads to."""
    corpus = mk.read(root, format="linked")
    paths = dict(zip(*(corpus.memories[name].to_pylist() for name in ("memory_id", "path")), strict=True))
    rows = corpus.tables["relations"].to_pylist()
    return [(paths[row["from_id"]], row["line"], row["state"], paths.get(row["to_id"])) for row in rows]


@pytest.mark.quick
@pytest.mark.parametrize("new", ["drinks/green tea.md", "tea.md", "sweets/deep/er/чай (новый).md", "x.md"])
def test_each_link_leads_where_it_led_and_nothing_else_changes(tmp_path: Path, new: str) -> None:
    root, old = write_files(tmp_path, PAGES), "drinks/tea.md"
    before, links_before = tree(root), links(root)
    assert all(state == "found" for _, _, state, _ in links_before), links_before
    store = mk.store(root).pages
    plan: Any = store.rename(old, new, dry_run=True)
    assert isinstance(plan, Edits)
    assert tree(root) == before
    assert store.rename(old, new) == new
    moved = [tuple(new if value == old else value for value in link) for link in links_before]
    assert sorted(links(root), key=str) == sorted(moved, key=str)
    after = tree(root)
    assert before.keys() - {old} == after.keys() - {new}
    assert b"```\n[[tea]]\n```" in after["drinks/coffee.md"], "code is text"
    assert after["drinks/coffee.md"].endswith(b"].\r\n")
    assert "`[[tea]]` в коде".encode() in after[new]
    for path in after.keys() - {new}:
        pairs = zip(before[path].split(b"\n"), after[path].split(b"\n"), strict=True)
        assert all(old_line == new_line or b"[" in old_line for old_line, new_line in pairs), path
    assert "[[Чай зелёный]]".encode() in after["drinks/coffee.md"], "a title stays"
    mk.undo(root)
    assert tree(root) == before


@pytest.mark.outside
@pytest.mark.quick
def test_a_memory_of_serena_takes_its_names_along(tmp_path: Path) -> None:
    home = ".serena/memories/"
    files = {
        f"{home}core/style.md": "# Стиль\nсм. [выпуск](../release/list.md)\n",
        f"{home}release/list.md": "# Выпуск\nсм. mem:core/style и mem:core/style.\n",
        f"{home}start.md": "mem:core/style; [стиль](core/style.md)\n",
    }
    root = write_files(tmp_path, files)
    before = tree(root)
    store = mk.store(root).serena
    assert store.rename("core/style", "code style") == f"{home}code style.md"
    after = {path: data.decode() for path, data in tree(root).items()}
    assert after == {
        f"{home}code style.md": "# Стиль\nсм. [выпуск](release/list.md)\n",
        f"{home}release/list.md": "# Выпуск\nсм. mem:code style и mem:code style.\n",
        f"{home}start.md": "mem:code style; [стиль](code%20style.md)\n",
    }
    mk.undo(root)
    assert tree(root) == before


@pytest.mark.quick
def test_what_cannot_be_renamed_is_refused(tmp_path: Path) -> None:
    root = write_files(tmp_path, PAGES)
    before, store = tree(root), mk.store(root).pages
    cases: list[tuple[str, str, type[Exception]]] = [
        ("no.md", "a.md", mk.errors.NotFoundError),
        ("drinks/tea.md", "drinks/coffee.md", mk.errors.ChangeRefusedError),
        ("drinks/tea.md", "../out.md", mk.errors.ParameterError),
        ("drinks/tea.md", "/out.md", mk.errors.ParameterError),
        ("drinks/tea.md", "tea.txt", mk.errors.ParameterError),
        ("drinks/tea.md", "чай [2].md", mk.errors.ChangeRefusedError),
        ("drinks/tea.md", "чай #2.md", mk.errors.ChangeRefusedError),
    ]
    for old, new, error in cases:
        with pytest.raises(error):
            store.rename(old, new)
    assert tree(root) == before


def test_a_successor_without_brackets_is_renamed_where_its_field_names_it_and_nowhere_else(tmp_path: Path) -> None:
    heads = [
        'title: tea time\nrelated: ["[[{0}]]"]\nsupersedes: {0}\n',
        "title: tea\nsupersedes: [{0}]\n",
        'supersedes:\n  - "{0}"\nrelated: "[[{0}]]"\ntags: [tea]\n',
    ]
    for number, head in enumerate(heads):
        before, after = head.format("tea"), head.format("mint")
        pages = {"tea.md": "# Чай\n", "a.md": f"---\n{before}---\nтекст\n"}
        root = write_files(tmp_path / str(number), pages)
        with pytest.raises(mk.errors.ChangeRefusedError, match="by hand"):
            mk.store(root).pages.rename("tea.md", "it's.md")
        mk.store(root).pages.rename("tea.md", "mint.md")
        assert (root / "a.md").read_text("utf-8") == f"---\n{after}---\nтекст\n"


def test_what_only_looks_like_a_link_stays_and_a_definition_follows(tmp_path: Path) -> None:
    stays = (
        "Text.\n\n    [[tea]] in code\n\n<!-- [[tea]] and\n[a](tea.md) --> %%[[tea]]%%\n"
        "\\[[tea]] \\[a](tea.md) $[[tea]]$\n$$\n[[tea]]\n$$\n"
    )
    follows = "- item\n\n    [[tea]] of the item, $5 [[tea]] and $6\n\n[the tea][t], [^1].\n\n[t]: tea.md 'Tea'\n"
    root = write_files(tmp_path, {"tea.md": "# Tea\n", "a.md": stays + follows})
    mk.store(root).pages.rename("tea.md", "b/green tea.md")
    expected = follows.replace("[[tea]]", "[[green tea]]").replace("tea.md", "b/green%20tea.md")
    assert (root / "a.md").read_text("utf-8") == stays + expected
    mk.store(root).pages.rename("a.md", "c/a.md")
    assert "\n[t]: ../b/green%20tea.md 'Tea'\n" in (root / "c/a.md").read_text("utf-8")
