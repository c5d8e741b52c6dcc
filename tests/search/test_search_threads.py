"""One corpus and one Retriever serve several threads, from the very first call on."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memkit.text.analyse import Analyser

SCRIPT = Path(__file__).parents[1] / "audit" / "threads.py"


def run(rounds: int, calls: int) -> str:
    """The last line of the audit, in a process where nothing was asked before."""
    command = [sys.executable, str(SCRIPT), "--rounds", str(rounds), "--calls", str(calls)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.stderr == ""
    return process.stdout.splitlines()[-1]


def test_eight_threads_get_what_one_gets_from_the_first_call_on() -> None:
    assert run(rounds=1, calls=8) == "round 1: 8 x 8 calls, no failure, equal results"


@pytest.mark.slow
def test_eight_threads_get_what_one_gets_a_thousand_times() -> None:
    assert run(rounds=5, calls=1000) == "round 5: 8 x 1000 calls, no failure, equal results"


def test_words_are_forgotten_while_others_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.text.analyse._KNOWN_WORDS_MAX", 20)
    texts = [f"слово{n} connection{n} 東京{n}" for n in range(40)]
    expected = [Analyser().terms([text]) for text in texts[:10]]
    shared = Analyser()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads change in the middle of a look
    try:
        with ThreadPoolExecutor(8) as pool:
            terms = list(pool.map(lambda text: shared.terms([text]), texts * 3))
    finally:
        sys.setswitchinterval(interval)
    assert terms[:10] == expected
    assert terms == terms[:40] * 3
