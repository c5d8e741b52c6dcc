"""Lines of code by room: no blank lines, no comments, no docstrings. For comparing with an older checkout.

python tests/audit/lines.py [CHECKOUT ...]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_house import lines_of_code  # by which the house has its ceilings


def rooms(checkout: Path) -> Counter[str]:
    """Lines of code by room of memkit/."""
    package, lines = checkout / "memkit", Counter[str]()
    for path in package.rglob("*.py"):
        if "_shipped" not in path.parts:
            room = path.relative_to(package).parts[0].removesuffix(".py")
            lines[room] += lines_of_code(path)
    return lines


def main() -> None:
    checkouts = [Path(name) for name in sys.argv[1:]] or [Path(__file__).parents[2]]
    counts = [rooms(checkout) for checkout in checkouts]
    for room in [*sorted(set().union(*counts)), "all"]:
        numbers = [counted.total() if room == "all" else counted[room] for counted in counts]
        change = f"{numbers[-1] - numbers[0]:+9}" if len(numbers) > 1 else ""
        print(f"{room:<12}{''.join(f'{number:>9}' for number in numbers)}{change}")


TINY = ""


if __name__ == "__main__":
    main()
