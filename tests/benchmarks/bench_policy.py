"""The policies in one SQL statement beside a Python loop and pandas, and dedup beside scikit-learn and SemHash.

    python tests/benchmarks/bench_policy.py --facts 1000000 --users 10000 --vectors 1000 10000 --texts FOLDER

Every competitor applies the same rules to the same rows; the results are asserted equal before a time is printed. Texts
beside given vectors are paragraphs of data/, and of the files of `--texts`, recombined (`life.py`); with `--encode 160`
the distinct ones of 160 characters or more as they are, with vectors of the default encoder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import generate
import life
import numpy as np
import pandas as pd
import pyarrow as pa

from memkit import presets
from memkit.base.duck import connect
from memkit.index.encode import as_encoder
from memkit.index.encoders.base import unit_rows
from memkit.policy.admission import Admission, Classifier, keywords
from memkit.policy.dedup.deduplicator import Deduplicator
from memkit.policy.limits import Expiry, Quota
from memkit.policy.pipeline import Pipeline
from memkit.schemas import TIMESTAMP
from memkit.tables.statement import input_table

# Processor seconds of each timing: on a shared machine the wall clock tells less.
CPU: list[float] = []
AS_OF = datetime(2026, 3, 1, tzinfo=UTC)
QUOTA = Quota(max_facts=150, max_profile=30, max_working=30)
ADMISSION = Admission(**presets.memory_v2_policy["admission"])
"""The document's own rules, which a bot's code has too."""
STEPS = [ADMISSION, Classifier(), QUOTA, Expiry()]


def facts(n: int, users: int, seed: int = 0) -> pa.Table:
    """Russian and English facts; one in twelve is to be refused, a few users hold far more than the others."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("аеиоубвгдклмнпрст" + "aeioubcdlmnprst"))
    words = np.array(["".join(rng.choice(letters, rng.integers(3, 9))) for _ in range(20_000)])
    openings = ["", "", "", "", "", "Меня зовут ", "Сейчас чиним ", "I live in ", "The plan is ", "Говорили про "]
    openings += ["Как настроен ", "Show me ", "git push origin ", "ключ sk-" + "a1" * 12 + " "]
    weights = np.r_[np.full(10, 0.098), np.full(4, 0.005)]
    rare = np.array(openings)[rng.choice(len(openings), n, p=weights)]
    picked = words[rng.integers(0, len(words), (n, 9))]
    lengths = rng.integers(2, 10, n)
    texts = [head + " ".join(row[:k]) for head, row, k in zip(rare.tolist(), picked, lengths.tolist(), strict=True)]
    days = rng.integers(-400, 0, n)
    ends = np.where(rng.random(n) < 0.3, rng.integers(-30, 60, n), 10_000)
    start = np.datetime64(AS_OF.replace(tzinfo=None), "us")
    return pa.table(
        {
            "memory_id": [f"facts:{i:07}" for i in range(n)],
            "user_id": [f"u{i}" for i in np.minimum(rng.integers(0, users, n), rng.integers(0, users * 2, n)).tolist()],
            "text": texts,
            "importance": pa.array(
                np.array([None, "high", "low"], dtype=object)[rng.choice(3, n, p=[0.8, 0.05, 0.15])]
            ),
            "created_at": pa.array(start + days.astype("timedelta64[D]")).cast(TIMESTAMP),
            "expires_at": pa.array(start + ends.astype("timedelta64[D]"), mask=ends == 10_000).cast(TIMESTAMP),
        }
    )


def python_pattern(pattern: str) -> re.Pattern[str]:
    """An RE2 pattern of memkit's in Python's words."""
    for ours, theirs in ((r"[^\p{L}\p{N}_-]", r"[^\w-]"), (r"[^\p{L}\p{N}_]", r"\W"), (r"[^\p{L}\p{N}]", r"[\W_]"),
                         (r"[\p{L}\p{N}_.-]", r"[\w.-]"), (r"[\x09-\x0d\x1c-\x20\x{85}\p{Z}]", r"\s")):  # fmt: skip
        pattern = pattern.replace(ours, theirs)
    return re.compile(re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern))


def rules() -> dict[str, list[re.Pattern[str]]]:
    """The patterns of all rules, in their order."""
    classifier = Classifier()
    patterns_of = {
        "question": [pattern.re2 for pattern in ADMISSION._questions()],
        "command": [pattern.re2 for pattern in ADMISSION._commands()],
        "secret": [pattern.re2 for pattern in ADMISSION._secrets()],
        "profile": [str(keywords(classifier.profile_words))],
        "working": [str(keywords(classifier.working_words))],
    }
    return {name: [python_pattern(pattern) for pattern in patterns] for name, patterns in patterns_of.items()}


def by_loop(rows: list[dict[str, Any]]) -> list[str | None]:
    """A bot's code: row by row, then user by user."""
    patterns, reasons = rules(), [None] * len(rows)
    users: dict[str, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        text = row["text"]
        reasons[i] = "length" if not 12 <= len(text.strip()) <= 240 else next(
            (r for r in ("question", "command", "secret") if any(p.search(text) for p in patterns[r])), None
        )  # fmt: skip
        if reasons[i] is None:
            kind = next((k for k in ("profile", "working") if patterns[k][0].search(text)), "archive")
            row["kind"] = kind
            row["importance"] = row["importance"] or {"profile": "high", "working": "normal", "archive": "low"}[kind]
            if kind == "working" and row["expires_at"] is None:
                row["expires_at"] = AS_OF + timedelta(days=14)
            row["expired"] = row["expires_at"] is not None and row["expires_at"].date() < AS_OF.date()
            if not row["expired"]:
                users[row["user_id"]].append(i)
    for members in users.values():
        _limit(rows, members, reasons)
    for i, row in enumerate(rows):
        if reasons[i] is None and row["expired"]:
            reasons[i] = "expired"
    return reasons


def _limit(rows: list[dict[str, Any]], members: list[int], reasons: list[Any]) -> None:
    def age(i: int) -> tuple[Any, ...]:
        return (min(rows[i]["created_at"], AS_OF), rows[i]["memory_id"])

    for kind, limit in (("profile", QUOTA.max_profile), ("working", QUOTA.max_working)):
        for i in sorted((i for i in members if rows[i]["kind"] == kind), key=age)[limit:]:
            reasons[i] = "limit"
    remaining = [i for i in members if reasons[i] is None]
    weak = [i for i in remaining if rows[i]["kind"] == "archive" and rows[i]["importance"] != "high"]
    weak.sort(key=lambda i: (rows[i]["importance"] != "low", *age(i)))
    for i in weak[: max(0, len(remaining) - QUOTA.max_facts)]:
        reasons[i] = "evicted"


def by_pandas(frame: pd.DataFrame) -> pd.Series:
    """The same with whole columns."""
    patterns, text = rules(), frame["text"]
    reason = pd.Series(None, index=frame.index, dtype=object)
    reason[~text.str.strip().str.len().between(12, 240)] = "length"
    for name in ("question", "command", "secret"):
        for pattern in patterns[name]:
            open_rows = text[reason.isna()]
            reason[open_rows.index[open_rows.str.contains(pattern)]] = name
    rows = frame[reason.isna()].copy()
    profile = rows["text"].str.contains(patterns["profile"][0])
    working = ~profile & rows["text"].str.contains(patterns["working"][0])
    rows["kind"] = np.select([profile, working], ["profile", "working"], "archive")
    rows["importance"] = rows["importance"].fillna(
        rows["kind"].map({"profile": "high", "working": "normal", "archive": "low"})
    )
    rows.loc[working & rows["expires_at"].isna(), "expires_at"] = AS_OF + timedelta(days=14)
    expired = rows["expires_at"].dt.normalize() < AS_OF
    reason[rows.index[expired]] = "expired"
    live = rows[~expired].assign(later=rows["importance"] != "low").sort_values(["created_at", "memory_id"])
    place = live.groupby(["user_id", "kind"]).cumcount()
    limit = live["kind"].map({"profile": QUOTA.max_profile, "working": QUOTA.max_working, "archive": np.inf})
    reason[live.index[place >= limit]] = "limit"
    live = live[place < limit]
    excess = live.groupby("user_id")["kind"].transform("size") - QUOTA.max_facts
    weak = live[(live["kind"] == "archive") & (live["importance"] != "high")].sort_values("later", kind="stable")
    reason[weak.index[weak.groupby("user_id").cumcount() < excess[weak.index]]] = "evicted"
    return reason


def quota_by_pandas(frame: pd.DataFrame, limit: int) -> pd.Series:
    """The quota alone, with whole columns: ranks within a user and kind, then within a user."""
    reason = pd.Series(None, index=frame.index, dtype=object)
    live = frame[~(frame["expires_at"].dt.normalize() < AS_OF)].sort_values(["created_at", "memory_id"])
    place = live.groupby(["user_id", "kind"]).cumcount()
    most = live["kind"].map({"profile": Quota().max_profile, "working": Quota().max_working, "archive": np.inf})
    reason[live.index[place >= most]] = "limit"
    live = live[place < most]
    excess = live.groupby("user_id")["kind"].transform("size") - limit
    is_newest = live.groupby("user_id").cumcount(ascending=False) == 0
    weak = live[(live["kind"] == "archive") & (live["importance"] != "high") & ~is_newest]
    weak = weak.assign(later=weak["importance"] != "low").sort_values("later", kind="stable")
    reason[weak.index[weak.groupby("user_id").cumcount() < excess[weak.index]]] = "evicted"
    return reason


def compare_quota(n: int, users: int, limit: int = 100) -> None:
    """`Quota` alone beside the same rule in pandas, and beside one `groupby.rank`, which is a part of it."""
    table, rng = facts(n, users), np.random.default_rng(1)
    kinds = np.array(["archive", "profile", "working"])[rng.choice(3, n, p=[0.7, 0.15, 0.15])]
    table = table.append_column("kind", pa.array(kinds))
    frame = table.to_pandas()
    timed(lambda: Quota(max_facts=limit).transform(table, as_of=AS_OF), best_of=2)
    judged = Quota(max_facts=limit).transform(table, as_of=AS_OF)["reason"].to_pylist()
    _, reasons = timed(lambda: quota_by_pandas(frame, limit), best_of=2)
    if reasons.where(reasons.notna(), None).tolist() != judged:
        raise SystemExit("pandas and SQL disagree")
    timed(lambda: frame.groupby("user_id")["created_at"].rank(method="first"), best_of=2)
    ours, theirs, rank = CPU[-3:]
    print(
        f"\nquota of {limit} a user over {n:,} facts of {users:,} users, processor seconds: memkit {ours:.2f}, "
        f"the same rule in pandas {theirs:.2f} ({theirs / ours:.1f}x), one groupby.rank {rank:.2f}; "
        f"{dict(Counter(judged))}"
    )


def timed(work: Callable[[], Any], best_of: int = 1) -> tuple[float, Any]:
    """The best time in seconds, and the last result; its processor time goes to `CPU`."""
    best, result = (float("inf"), 0.0), None
    for _ in range(best_of):
        start, spent = time.perf_counter(), time.process_time()
        result = work()
        best = min(best, (time.perf_counter() - start, time.process_time() - spent))
    CPU.append(best[1])
    return best[0], result


def compare_rules(n: int, users: int) -> None:
    """SQL, loop and pandas on the same facts."""
    table = facts(n, users)
    pipeline = Pipeline(STEPS)
    sql, judged = timed(lambda: pipeline.transform(table, as_of=AS_OF), best_of=3)
    expected = judged["reason"].to_pylist()
    frame = table.to_pandas()
    pandas_time, reasons = timed(lambda: by_pandas(frame))
    if reasons.where(reasons.notna(), None).tolist() != expected:
        raise SystemExit("pandas and SQL disagree")
    rows = table.to_pylist()
    loop, looped = timed(lambda: by_loop(rows))
    if looped != expected:
        raise SystemExit("the loop and SQL disagree")
    print(f"\n{n:,} facts of {users:,} users; {dict(Counter(expected))}")
    sql_cpu, pandas_cpu, loop_cpu = CPU[-3:]
    print(f"one SQL statement  {sql:8.2f} s, processor {sql_cpu:8.2f} s")
    print(
        f"pandas             {pandas_time:8.2f} s, processor {pandas_cpu:8.2f} s: "
        f"{pandas_time / sql:5.1f}x, processor {pandas_cpu / sql_cpu:5.1f}x (aim 3x)"
    )
    print(
        f"Python loop        {loop:8.2f} s, processor {loop_cpu:8.2f} s: "
        f"{loop / sql:5.1f}x, processor {loop_cpu / sql_cpu:5.1f}x (aim 20x; rows made dicts before, not counted)"
    )
    for step in STEPS:
        alone = pa.table({**dict(zip(table.column_names, table.columns, strict=True)), "kind": judged["kind"]})
        seconds, _ = timed(lambda step=step, alone=alone: step.transform(alone, as_of=AS_OF), best_of=2)
        print(f"  profile: {type(step).__name__:<12} alone {seconds:6.2f} s")
    profile(table, pipeline)


def profile(table: pa.Table, pipeline: Pipeline) -> None:
    """The statement's most costly operators, by DuckDB's own count."""
    with connect() as con:
        con.register("input", input_table(table, pipeline.needs))
        names = ", ".join(("row", *pipeline.adds))
        text = f"explain (analyze, format json) select {names} from ({pipeline.sql(AS_OF)})"  # noqa: S608  # our own names and statement
        todo = [json.loads(con.execute(text).fetchall()[0][1])]
    spent: Counter[str] = Counter()
    while todo:
        node = todo.pop()
        spent[node.get("operator_name", "")] += node.get("operator_timing", 0)
        todo += node.get("children", [])
    print("  profile, operators (s, summed over the cores):", {k.strip(): round(v, 2) for k, v in spent.most_common(7)})


def compare_notes(n: int, threshold: float = 0.9) -> None:
    """`Deduplicator.fit` by letters on notes of real sentences beside scikit-learn's trigrams and SemHash."""
    from semhash import SemHash
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    from memkit.index.encoders.without_model import HashEncoder

    texts = generate.notes(n)
    table = pa.table({"memory_id": [f"{i:07}" for i in range(n)], "text": texts})
    dedup = Deduplicator(encoder=None, lexical_floor=threshold)
    dedup.fit(table.slice(0, 10))  # what is imported only once is no part of the time
    ours, _ = timed(lambda: dedup.fit(table))

    def by_sklearn() -> int:
        grams = CountVectorizer(analyzer="char", ngram_range=(3, 3), binary=True).fit_transform(texts)
        unit = normalize(grams.astype(np.float32))
        return int(((unit @ unit.T) >= threshold).nnz - n) // 2

    theirs, pairs = timed(by_sklearn)
    encoder = HashEncoder()
    encoder.encode = encoder.encode_document  # type: ignore[attr-defined]  # as SemHash calls it
    semhash, judged = timed(lambda: SemHash.from_records(texts, model=encoder).self_deduplicate(threshold))
    kinds = Counter(dedup.pairs_["kind"].to_pylist())
    print(
        f"\n{n:,} notes of {sum(map(len, texts)) // n} characters, words alone, cosine {threshold}; processor seconds"
    )
    print(f"memkit             {CPU[-3]:8.2f} (wall {ours:.2f}), {dict(kinds)}, conflicts and places of parts included")
    print(f"scikit-learn       {CPU[-2]:8.2f} (wall {theirs:.2f}), {pairs:,} pairs of trigram sets")
    print(
        f"SemHash            {CPU[-1]:8.2f} (wall {semhash:.2f}), {len(judged.filtered):,} duplicates; n-grams hashed"
    )


def recombined(n: int, pool: list[str], chars: int = 600, seed: int = 0) -> list[str]:
    """Texts of so many characters; the last tenth are others' copies, but for a word or a number."""
    rng, texts = np.random.default_rng(seed), list[str]()
    while len(texts) < n - n // 10:
        text = ""
        while len(text) < chars:
            text += pool[int(rng.integers(len(pool)))] + "\n\n"
        texts.append(text[: chars + 100].strip())
    for place in range(n // 10):
        words = texts[place].split(" ")
        words[int(rng.integers(len(words)))] = "" if place % 2 else str(rng.integers(10, 999))
        texts.append(" ".join(words))
    return texts


def made_up(n: int, dim: int) -> np.ndarray:
    """Unit vectors, the last tenth others' copies with some noise."""
    rng, copies = np.random.default_rng(0), n // 10
    spectrum = 1 / np.sqrt(np.arange(1, dim + 1))
    rows = rng.standard_normal((n, dim)) * spectrum
    rows[-copies:] = rows[:copies] + rng.standard_normal((copies, dim)) * spectrum * rng.uniform(0.05, 0.6, (copies, 1))
    return unit_rows(rows)


def compare_dedup(texts: list[str], rows: np.ndarray, threshold: float = 0.9) -> None:
    """`Deduplicator.fit` on given vectors, letters compared too, beside SemHash's exact mode."""
    from semhash import SemHash
    from vicinity import Backend

    n, dim = rows.shape
    table = pa.table({"memory_id": [f"{i:07}" for i in range(n)], "text": texts})
    dedup = Deduplicator(encoder=None, centre="none", floor=threshold)
    dedup.fit(table.slice(0, 10), vectors=rows[:10])  # what is imported only once is no part of the time

    def search() -> Any:
        index = SemHash.from_embeddings(rows, list(map(str, range(n))), model=None, ann_backend=Backend.BASIC)
        return index.index.query_threshold(index.index.vectors, threshold=threshold)

    repeats = 5 if n < 10_000 else 1
    ours, _ = timed(lambda: dedup.fit(table, vectors=rows), repeats)
    theirs, neighbours = timed(search, repeats)
    semantic = dedup.pairs_.filter(pa.compute.equal(dedup.pairs_["kind"], "semantic"))
    mine = {(int(a), int(b)) for a, b in zip(semantic["a_id"].to_pylist(), semantic["b_id"].to_pylist(), strict=True)}
    near = {(min(i, int(j)), max(i, int(j))) for i, (rest, _) in enumerate(neighbours) for j in rest if i != j}
    print(f"\n{n:,} vectors of {dim}, cosine {threshold}, texts of {sum(map(len, texts)) // n} characters")
    print(f"memkit             {CPU[-2]:8.3f} s of the processor (wall {ours:.3f}), {len(mine):,} pairs by meaning")
    print(
        f"SemHash, exact     {CPU[-1]:8.3f} s (wall {theirs:.3f}), so {CPU[-2] / CPU[-1]:.1f} times it; "
        f"{len(near):,} pairs, {len(near - mine)} not ours, {len(mine - near)} of ours missed"
    )


def main() -> None:
    """Read the sizes and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--notes", type=int, default=2_000)
    parser.add_argument("--vectors", type=int, nargs="*", default=[1_000, 20_000, 100_000])
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--encode", type=int, help="least characters of paragraphs that are encoded")
    sizes = parser.parse_args()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine}")
    print(f"DuckDB {duckdb.__version__}, pandas {pd.__version__}, load {os.getloadavg()[0]:.1f} before the start")
    if sizes.facts:
        compare_rules(sizes.facts, sizes.users)
        compare_quota(sizes.facts, sizes.users)
    if sizes.notes:
        compare_notes(sizes.notes)
    pool = life.known_paragraphs(sizes.texts) if any(sizes.vectors) else []
    for count in filter(None, sizes.vectors):
        if sizes.encode is None:
            compare_dedup(recombined(count, pool), made_up(count, sizes.dim))
        else:
            texts = [text for text in pool if len(text) >= sizes.encode]
            texts = np.random.default_rng(0).permutation(np.array(texts, object))[:count].tolist()
            compare_dedup(texts, as_encoder("use").encode_document(texts))


TINY = "--facts 200 --users 5 --notes 20 --vectors 50 --dim 8"


if __name__ == "__main__":
    main()
