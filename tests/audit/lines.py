"""Lines of code by room: no blank lines, no comments, no docstrings. For comparing with an older checkout.

python tests/audit/lines.py [CHECKOUT ...]
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def documentation(text: str) -> set[int]:
    """The lines of docstrings, and of the strings below a name that say what it is."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED):
            for child in node.body:
                if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                    lines.update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return lines


def code_lines(text: str) -> int:
    """Lines that hold code; a line within a longer string counts."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documentation(text))


def rooms(checkout: Path) -> Counter[str]:
    """Lines of code by room of memkit/."""
    package, lines = checkout / "memkit", Counter[str]()
    for path in package.rglob("*.py"):
        if "_shipped" not in path.parts:
            room = path.relative_to(package).parts[0].removesuffix(".py")
            lines[room] += code_lines(path.read_text(encoding="utf-8"))
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
