"""No verb ends at a token that only looks like a number, a date or a time: it is the word itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import memkit as mk
from memkit.tables.samples import write_files
from memkit.text.statements import Reader

LONG = "9" * 5_000  # Python converts no text of more than 4,300 digits
TOKENS = (".4,0", "1,2,3", "²", "٣", "1٢:3٤", "1e999", "−5", "5..6", ",", "1-2-3", "٢٠٢٦-٠٣-٠١", "99:99", "0x1F", LONG)
FIELDS = ("created", "updated", "expires_at", "ttl", "stale_after", "verified", "importance", "confidence")


def folder(root: Path) -> Path:
    """The tokens in texts, headings, turns, front matter, JSON, ids and file names."""
    lines = {token: f"Ставка rates {token} % вместо {token}, порт {token}." for token in TOKENS}
    facts = (f"- [id:pf_{token}] [t:profile] [imp:high] [exp:{token}] {line}\n" for token, line in lines.items())
    files = {
        "memory/2026-03-01.md": "# 2026-03-01\n\n"
        + "".join(f"## {token[:40]} встреча\n\n{line}\n- {token} ms\n\n" for token, line in lines.items()),
        "memory/sessions/2026-03-01-1200-a.md": "".join(f"**user** ({t[:20]}): {t[:40]}\n\n" for t in TOKENS),
        "MEMORY.md": "# Память\n\n" + "\n".join(lines.values()),
        "users/anna/profile.md": "".join(facts),
        "users/anna/meta.json": json.dumps({"version": 2, "lastIds": {"pf": 3}}),
        "records.json": json.dumps([{"text": line, **dict.fromkeys(FIELDS, token)} for token, line in lines.items()]),
    }
    for number, (token, line) in enumerate(lines.items()):
        front = "".join(f"{name}: {token}\n" for name in FIELDS)
        files[f"wiki/p{number}.md"] = f"---\ntype: page\n{front}---\n# Ставка {number}\n\n{line} [a](p0.md)\n"
        files[f"memory/{token[:60].replace(':', '')}.md"] = "# Заметка\n\nтекст заметки\n"
    return write_files(root, files)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> mk.Corpus:
    return mk.read(folder(tmp_path_factory.mktemp("odd")))


@pytest.mark.outside
@pytest.mark.quick
def test_every_look_at_a_folder_comes_to_its_end(corpus: mk.Corpus) -> None:
    assert mk.digest(corpus, since="2026-01-01", until="2026-12-31").table.num_rows
    assert mk.overview(corpus, as_of="2026-03-02").table.num_rows
    search = mk.Retriever(encoder=None).fit(corpus)
    assert search.search(" ".join(TOKENS[:-1]), as_of="2026-03-02").num_rows
    mk.audit(search, only="contradictions", as_of="2026-03-02")
    mk.timeline(search, "ставка", as_of="2026-03-02")
    for policy in (mk.Expiry(), mk.Quota(), mk.Classifier(), mk.Admission(), mk.Decay(), mk.Deduplicator(encoder=None)):
        assert policy.fit_transform(corpus, as_of="2026-03-02").num_rows == corpus.memories.num_rows


@pytest.mark.quick
def test_stores_number_on_after_an_id_that_is_no_number(corpus: mk.Corpus) -> None:
    saved = mk.store(corpus.root).facts.save("anna", "Меня зовут Анна Петровна", now="2026-03-02")
    assert saved.id == "pf_004"


@pytest.mark.quick
def test_a_number_that_cannot_be_read_is_the_word_itself() -> None:
    pairs = {"rates .4,0 %": ".4,0", "rates 0,40 %": "0.4", "rates 1234567890123 %": "1234567890123"}
    for text, value in pairs.items():
        found = [quantity.value for one in Reader().read([text])[0] for quantity in one.quantities]
        assert found == [value], text[:20]
