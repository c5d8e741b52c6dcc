"""A corpus like life: real paragraphs recombined into plain notes, notes with front matter, logs and linked pages.

    python tests/benchmarks/life.py TARGET [--notes 10000] [--texts FOLDER] [--vault]

Paragraphs are those of data/, and of the Parquet, Markdown and text files of `--texts`. A quarter of the files is of
each sort; every other one is Russian, one in ten mixes languages. Lengths in words are lognormal around a median of 60,
up to 2,000. A tenth repeats an earlier file but for a word or a number. With `--vault` all are one vault as a person
fills it in years: of 37 files 20 are stubs, the others long linked pages with tasks and, of each twenty, a log. The
same arguments make the same bytes.

>>> paragraphs("Чай без сахара, как всегда.\\n\\nNo.")
['Чай без сахара, как всегда.']
>>> pool = paragraphs("Чай без сахара.\\n\\nTea without sugar.")
>>> sorted(files(8, pool)) == sorted(files(8, pool)) and len(set(files(8, pool)))
8
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np

SORTS = ("plain", "noted", "memory", "vault")
"""Folders: plain notes, notes with front matter, daily logs, a vault of linked pages."""
MEDIAN, SPREAD, LEAST, MOST = 60, 1.15, 5, 2_000
_COLUMNS = ("text", "text_a", "text_b")
_CYRILLIC = re.compile(r"[а-яё]", re.IGNORECASE)
_NO_WORD = re.compile(r"\W+")
_HEADS = {
    "ru": ["Итоги", "Заметки", "Что дальше", "Вопросы", "Контекст", "Решение", "Ссылки"],
    "en": ["Summary", "Notes", "Next steps", "Questions", "Context", "Decision", "Links"],
}
_TAGS = {"ru": ["работа", "идеи", "дом", "проект/отчёт", "здоровье"], "en": ["work", "ideas", "home", "project/api"]}
_SAYS = {"ru": ["См. {}.", "Подробнее — {}.", "Ср. {}"], "en": ["See {}.", "More in {}.", "Compare {}"]}
_STUBS = (
    *("# {title}\n", "# {title}\n\n{link}\n", "---\ntitle: '{title}'\n---\n", "{link}\n", "", "#{tag}\n"),
    *("---\ncreated: {day}\ntags: [{tag}]\n---\n\n# {title}\n", "![[{title}.png]]\n"),
)
"""Pages that people begin and leave."""
_CODE = "```python\npool = connect(size={}, timeout=2.5)\n```"
_START, _VAULT_START = date(2024, 1, 1), date(2021, 6, 1)


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text that have more than two words, each on one line."""
    pieces = (" ".join(piece.split()) for piece in re.split(r"\n\s*\n|\n(?=[-*#] )", text))
    return [piece for piece in pieces if piece.count(" ") > 1]


def known_paragraphs(texts: Path | None = None) -> list[str]:
    """The distinct paragraphs of data/, and of the files below `texts`, sorted."""
    from memkit.tables.corpus import read
    from memkit.tables.samples import sample_data

    found = read(sample_data()).memories["text"].to_pylist()
    for path in sorted(texts.rglob("*")) if texts else ():
        if path.suffix in (".md", ".txt"):
            found.append(path.read_text(encoding="utf-8", errors="replace"))
        elif path.suffix == ".parquet":
            found += _column_texts(path)
    return sorted({piece for text in found for piece in paragraphs(text.lstrip("#-* "))})


def _column_texts(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    names = [name for name in _COLUMNS if name in table.column_names]
    return [text for name in names for text in table[name].to_pylist() if text]


def files(count: int, pool: Iterable[str], seed: int = 0, is_vault: bool = False) -> dict[str, str]:
    """`count` files of paragraphs of `pool`: path and text."""
    maker = (_Vault if is_vault else _Maker)(list(pool), count, seed)
    return dict(maker.file(row) for row in range(count))


def write(target: Path, count: int, texts: Path | None = None, seed: int = 0, is_vault: bool = False) -> int:
    """Write the corpus below `target`; the bytes written."""
    size = 0
    for name, text in files(count, known_paragraphs(texts), seed, is_vault).items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        size += path.write_bytes(text.encode())
    (target / "vault" / ".obsidian").mkdir(parents=True, exist_ok=True)
    (target / "vault" / ".obsidian" / "app.json").write_text("{}")
    return size


class _Maker:
    """Draws files one after the other; each may link to and repeat any before it."""

    median, words_of_section = MEDIAN, 120

    def __init__(self, pool: list[str], count: int, seed: int) -> None:
        self.rng = np.random.default_rng([seed, count])
        russian = [piece for piece in pool if _CYRILLIC.search(piece)]
        english = [piece for piece in pool if not _CYRILLIC.search(piece)]
        self.pool = {"ru": russian or pool, "en": english or pool}
        self.bodies: list[str] = []
        self.pages: list[tuple[str, str]] = []
        """Path and title of each page of the vault."""

    def file(self, row: int) -> tuple[str, str]:
        sort, language = SORTS[row % 4], "ru" if row // 4 % 2 else "en"
        body = self._edited(self.bodies[self._below(row)]) if row > 9 and self._happens(0.1) else self._body(language)
        self.bodies.append(body)
        title, slug = self._called(row, body)
        day = _START + timedelta(days=row // 4)
        if sort == "plain":
            return f"plain/{row % 100:02}/{slug}.md", f"# {title}\n\n{body}\n"
        if sort == "noted":
            head = f"title: {self._quoted(title)}\ntags: [{', '.join(self._tags(language))}]\ncreated: {day}\n"
            return f"noted/{row % 100:02}/{slug}.md", f"---\n{head}---\n\n{body}\n"
        if sort == "memory":
            return f"memory/{day}.md", self._log(day, body)
        path = f"{row % 30:02}/{slug}"
        self.pages.append((path, title))
        return f"vault/{path}.md", self._page(language, title, day, body)

    @staticmethod
    def _called(row: int, body: str) -> tuple[str, str]:
        title = " ".join(body.split("\n", 1)[0].split()[:6]).strip("#-*` .,:;[]|\"'") or f"Note {row}"
        return title, _NO_WORD.sub("-", title).strip("-").lower()[:60] + f"-{row}"

    def _log(self, day: date, body: str) -> str:
        """A day: each paragraph an entry, half of the days with a time for each."""
        entries, is_timed = body.split("\n\n"), self._happens(0.5)
        heads = [f"## {9 + number % 12:02}:{self._below(60):02}" for number in range(len(entries))]
        lines = [f"{head}\n\n{entry}" if is_timed else entry for head, entry in zip(heads, entries, strict=True)]
        return f"# {day}\n\n" + "\n\n".join(lines) + "\n"

    def _page(self, language: str, title: str, day: date, body: str) -> str:
        blocks, n_links = body.split("\n\n"), 2 + self._below(7)
        for _ in range(n_links):
            sentence = self._of(_SAYS[language]).format(self._link())
            place = self._below(len(blocks))
            blocks[place] += f"\n\n{sentence}" if blocks[place].startswith(("```", "#", "- ")) else f" {sentence}"
        tags = " ".join(f"#{tag}" for tag in self._tags(language))
        head = f"---\naliases: [{self._quoted(title.upper())}]\ncreated: {day}\n---\n\n" if self._happens(0.5) else ""
        return f"{head}# {title}\n\n{tags}\n\n" + "\n\n".join(blocks) + "\n"

    def _link(self) -> str:
        """A link to an earlier page in one of the ways of writing; one in thirty leads nowhere."""
        if not self.pages or self._happens(0.03):
            return "[[nowhere to be found]]"
        path, title = self.pages[self._below(len(self.pages))]
        slug, text = path.rpartition("/")[2], re.sub(r"[\[\]|#^]", "", title)
        return self._of([f"[[{slug}]]", f"[[{slug}|{text}]]", f"[[{path}]]", f"[{text}](../{path}.md)"])

    def _body(self, language: str) -> str:
        """Paragraphs up to the drawn number of words, under headings where there are many."""
        wanted = int(np.clip(self.median * np.exp(SPREAD * self.rng.standard_normal()), LEAST, MOST))
        is_mixed, blocks, n_words, next_head = self._happens(0.1), list[str](), 0, self.words_of_section
        while n_words < wanted:
            spoken = self._of(["ru", "en"]) if is_mixed else language
            words = self._of(self.pool[spoken]).split(" ")[: wanted - n_words]
            n_words += len(words)
            blocks.append(self._block(" ".join(words)))
            if n_words > next_head and n_words < wanted:
                blocks.append(f"## {self._of(_HEADS[language])}")
                next_head += self.words_of_section
        return "\n\n".join(blocks)

    def _block(self, text: str) -> str:
        """A paragraph as it is, or its sentences as a list, or with code below."""
        way = self.rng.random()
        if way < 0.15:
            return "- " + re.sub(r"(?<=[.!?]) ", "\n- ", text)
        return f"{text}\n\n{_CODE.format(self._below(99))}" if way < 0.18 else text

    def _edited(self, body: str) -> str:
        """The text with a word less, or another number in place of a word."""
        words = body.split(" ")
        words[self._below(len(words))] = "" if self._happens(0.5) else str(self._below(1000))
        return " ".join(words).strip() or body

    def _tags(self, language: str) -> list[str]:
        return sorted({self._of(_TAGS[language]) for _ in range(2)})

    @staticmethod
    def _quoted(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def _of(self, values: Sequence[str]) -> str:
        return values[self._below(len(values))]

    def _below(self, most: int) -> int:
        return int(self.rng.integers(most))

    def _happens(self, share: float) -> bool:
        return bool(self.rng.random() < share)


class _Vault(_Maker):
    """Draws a vault, twenty files a day."""

    median, words_of_section = 315, 155

    def file(self, row: int) -> tuple[str, str]:
        language, day = "ru" if row // 4 % 2 else "en", _VAULT_START + timedelta(days=row // 20)
        folder = f"vault/{'проекты' if language == 'ru' else 'areas'}/{row % 300:03}"
        if row % 37 >= 17:
            title, slug = self._called(row, self._of(self.pool[language]).replace("'", ""))
            said = {"title": title, "link": self._link(), "tag": self._tags(language)[0], "day": day}
            return f"{folder}/{slug}.md", self._of(_STUBS).format(**said)
        body = self._edited(self._of(self.bodies)) if self.bodies and self._happens(0.02) else self._body(language)
        self.bodies.append(body)
        if self._happens(0.15):
            tasks = (" ".join(self._of(self.pool[language]).split()[:6]) for _ in range(3))
            body += "\n\n" + "\n".join(f"- [{self._of([' ', 'x'])}] {task}" for task in tasks)
        if row % 20 == 0:
            return f"vault/journal/{day}.md", self._log(day, body)
        title, slug = self._called(row, body)
        self.pages.append((f"{folder.removeprefix('vault/')}/{slug}", title))
        return f"{folder}/{slug}.md", self._page(language, title, day, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--texts", type=Path, help="a folder of texts, besides those of data/")
    parser.add_argument("--vault", action="store_true", help="one large vault, with stubs")
    options = parser.parse_args()
    size = write(options.target, options.notes, options.texts, is_vault=options.vault)
    print(f"{options.notes:,} files of recombined paragraphs, {size:,} bytes")


TINY = "{folder}/life --notes 40 --vault"


if __name__ == "__main__":
    main()
