"""How many lines of a prompt are tails, begin with marks, or are cut within a word: `data/`, and a made workspace.

    PYTHONPATH=CHECKOUT python tests/benchmarks/bench_prompts.py

The workspace is long, repetitive and half-structured, as agents leave it, in English and Russian; its questions name a
subject and an event. Its search is by words and letters, that of `data/` is the default. A tail is shorter than 60
characters though its memory has more than 200, or begins within a sentence. The memkit that Python finds is asked, so
that two checkouts can be compared.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from pathlib import Path

import pandas as pd

import memkit as mk

DATA = Path(__file__).parents[2] / "data"
DAY = "2026-03-14"
WORDS = {
    "ru": (
        ["пул соединений", "шлюз", "рассылка", "сертификат", "резервная копия", "отчёт", "очередь", "вебхук"],
        ["вырос до {n}", "отвечает за {n} секунд", "остановлен на {n} минут", "проверен, ошибок {n}"],
        "Потом всё вернули, потому что по пятницам нагрузка другая, и это записано в уроке.",
        ("Итоги", "Что сделали", "Журнал", "Открытые вопросы"),
    ),
    "en": (
        ["connection pool", "gateway", "digest", "certificate", "backup", "report", "queue", "webhook"],
        ["grew to {n}", "answers within {n} seconds", "was down for {n} minutes", "was checked, {n} errors"],
        "It was undone later, because the load differs on Fridays, and the lesson says so in more words.",
        ("Summary", "What we did", "Log", "Open questions"),
    ),
}


def write_logs(folder: Path) -> list[str]:
    """Write 40 daily logs; the questions."""
    draw, questions = random.Random(0), list[str]()
    for number in range(40):
        things, events, because, titles = WORDS["ru" if number % 2 else "en"]

        def event_text(things: list[str] = things, events: list[str] = events) -> str:
            return f"{draw.choice(things)} {draw.choice(events).format(n=draw.randint(2, 60))}"

        parts = []
        for title in titles:
            items = [
                f"- {draw.randint(8, 19):02}:{draw.randint(0, 59):02} {event_text()}"
                for _ in range(draw.randint(4, 16))
            ]
            prose = " ".join(f"{event_text().capitalize()}. {because}" for _ in range(draw.randint(2, 9)))
            parts += [
                f"## {draw.choice(things).capitalize()}: {title}",
                *items,
                "",
                "<!-- consolidated -->",
                "",
                prose,
                "",
                "- ok",
                "---",
            ]
        name = f"2026-{1 + number // 28:02}-{1 + number % 28:02}.md"
        (folder / "memory").mkdir(exist_ok=True)
        (folder / "memory" / name).write_text("\n".join(parts) + "\n", "utf-8")
        questions.append(event_text())
    return questions


def faults(line: str, memory: str) -> set[str]:
    """What is wrong with a line of a prompt."""
    text = line.removeprefix("- ")
    kinds = {"begins with marks"} if re.match(r"(?:[-*+>]|#+) ", text) else set()
    shown = text.rstrip("…").strip()
    words = re.findall(r"\w+", memory)
    if text.endswith("…") and shown and shown[-1].isalnum() and re.findall(r"\w+", shown)[-1] not in words:
        kinds.add("cut within a word")
    if len(shown) < 60 and len(memory) > 200:
        kinds.add("tail")
    for start in (shown, shown.partition(": ")[2]):  # a title may stand before
        first = re.findall(r"\w+", start)[:4]
        place = re.search(r"\W+".join(map(re.escape, first)), memory) if first else None
        if place:
            before = memory[: place.start()].rstrip("-*#>[] x\t|`«“(\"'")
            if before and before[-1] not in ".!?…:;\n":
                kinds.add("tail")
            break
    return kinds


def report(name: str, corpus: mk.Corpus, search: mk.Retriever, questions: list[str]) -> None:
    texts = dict(zip(*(corpus.memories[column].to_pylist() for column in ("memory_id", "text")), strict=True))
    builder, counts, lines = mk.ContextBuilder(search), Counter[str](), 0
    for question in questions:
        for one in builder.build(corpus, None, question, as_of=DAY).lines:
            if one.block.startswith("RELEVANT") and one.reason is None:
                lines += 1
                counts.update(faults(one.line, texts[one.memory_id]))
    shares = " | ".join(f"{counts[fault] / lines:.2f}" for fault in ("tail", "begins with marks", "cut within a word"))
    print(f"| {name} | {len(questions)} | {lines} | {shares} |", flush=True)


def main() -> None:
    print("| workspace | questions | lines | tails | begin with marks | cut within a word |\n|---|---|---|---|---|---|")
    corpus = mk.read(DATA)
    report("data/", corpus, mk.Retriever(), pd.read_csv(DATA / "queries.csv")["text"].tolist())
    with tempfile.TemporaryDirectory() as folder:
        questions = write_logs(Path(folder))
        report("made", mk.read(folder), mk.Retriever(encoder=None), questions)


TINY = ""


if __name__ == "__main__":
    main()
