"""What is run by hand, in audit/ and benchmarks/, still runs: each script on as little as its own ``TINY`` says.

``TINY`` has the arguments: {sets} is a folder of small labelled sets, {folder} one to write in, {checkout} this
repository. A script without it says in ``BY_HAND`` why.
"""

from __future__ import annotations

import ast
import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TESTS = Path(__file__).parent
SETS = ("xquad_ru", "xquad_en", "xquadr_ru", "xquadr_en", "locomo", "locomo_obs", "madial_en", "precisionmem",
        "realmem", "rumeddanet_ru", "scifact", "intents_ru_en", "se_meta_dups", "tatoeba_ru_en")  # fmt: skip
"""The names by which scripts ask for labelled sets."""


def said(script: Path) -> dict[str, str]:
    """What a script says about how it is run, without running it."""
    tree = ast.parse(script.read_text("utf-8"))
    given = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    named = {node.targets[0].id: node.value for node in given if isinstance(node.targets[0], ast.Name)}
    return {name: ast.literal_eval(named[name]) for name in ("TINY", "BY_HAND") if name in named}


SCRIPTS = {
    str(path.relative_to(TESTS)): said(path)
    for room in ("audit", "benchmarks")
    for path in sorted((TESTS / room).glob("*.py"))
    if "__main__" in path.read_text("utf-8")
}


@pytest.mark.quick
def test_every_script_says_how_little_it_runs_on_or_why_it_is_run_by_hand_alone() -> None:
    assert {name for name, words in SCRIPTS.items() if ("TINY" in words) == ("BY_HAND" in words)} == set()


def test_what_a_script_imports_of_memkit_is_there(subtests: pytest.Subtests) -> None:
    for script in SCRIPTS:
        with subtests.test(script):
            for node in ast.walk(ast.parse((TESTS / script).read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("memkit"):
                    module = importlib.import_module(str(node.module))
                    for name in (alias.name for alias in node.names):
                        assert hasattr(module, name) or importlib.import_module(f"{node.module}.{name}")


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty documents and three queries under each name, and two pairs."""
    texts = [f"{words} номер {n}" for n, words in enumerate(["пул вырос", "зелёный чай", "кофе", "сбой", "отчёт"] * 8)]
    ids = [str(n) for n in range(len(texts))]
    tables = {
        "corpus": {"id": ids, "text": texts, "article": [n // 5 for n in range(len(ids))], "dia_id": ids}
        | {"intent": [f"{n % 5}" for n in range(len(ids))], "scope": ["s"] * len(ids)}
        | {"session": ["s1"] * len(ids), "speaker": ["анна"] * len(ids)},
        "queries": {
            "id": ["a", "b", "c"],
            "text": ["чай 1", "сбой 3", "отчёт 4"],
            "answer": [""] * 3,
            "intent": ["1", "3", "4"],
            "scope": ["s"] * 3,
            "part": [""] * 3,
        },
        "qrels": {"query_id": ["a", "b", "c"], "doc_id": ["1", "3", "4"], "relevance": [1] * 3},
    }
    pairs = {
        "pairs": {"id": ["1", "2"], "text_a": ["пул вырос", "чай зелёный"], "text_b": ["пул не вырос", "чай чёрный"]}
        | {"label": ["0", "1"], "entailment": ["CONTRADICTION", "NEUTRAL"], "lang": ["ru"] * 2, "part": [""] * 2}
    }
    folder = tmp_path_factory.mktemp("sets")
    for name in (*SETS, "sick", "xnli_ru"):
        (folder / name).mkdir()
        for table, columns in (tables if name in SETS else pairs).items():
            pq.write_table(pa.table(columns), folder / name / f"{table}.parquet")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, words in SCRIPTS.items() if "TINY" in words])
def test_a_script_runs_on_little(name: str, sets: Path, tmp_path: Path) -> None:
    places = {"sets": sets, "folder": tmp_path, "checkout": TESTS.parent}
    arguments = [word.format(**places) for word in shlex.split(SCRIPTS[name]["TINY"])]
    environment = {**os.environ, "MEMKIT_CACHE": os.environ["MEMKIT_TESTS_CACHE"], "TQDM_DISABLE": "1"}
    command = [sys.executable, str(TESTS / name), *arguments]
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
