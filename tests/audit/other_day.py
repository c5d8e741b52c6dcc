"""Run notebooks, or tests, on another day: what they print or expect must not depend on the day of the run.

    python tests/audit/other_day.py --days 200 [notebooks tests/search …]

A copy of the checkout has memkit's clock set forward, and files that were changed on a day of their own. Beside what
depends on the day, tests fail that compare memkit's clock with the system's, or with files that they write.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLOCK = "return datetime.now(UTC)"
CHANGED = datetime(2026, 10, 3, 4, 5).timestamp()


def copy(folder: Path, days: int) -> None:
    """The files that git tracks, with another clock and another time of change."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    params = folder / "memkit" / "base" / "params.py"
    before, clock, after = params.read_text("utf-8").partition(CLOCK)
    assert clock, f"{params}: the clock is read elsewhere"
    params.write_text(f"{before}{clock} + timedelta(days={days}){after}", "utf-8")
    for path in folder.rglob("*"):
        os.utime(path, (CHANGED, CHANGED), follow_symlinks=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=200)
    parser.add_argument("paths", nargs="*", default=["notebooks"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy(Path(folder), options.days)
        command = [sys.executable, "-m", "pytest", "-q", *options.paths]
        sys.exit(subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": folder}, check=False).returncode)


TINY = "--days 1 tests/base/test_hashes.py"


if __name__ == "__main__":
    main()
