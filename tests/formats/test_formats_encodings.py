"""Files that are no UTF-8: read in the encoding that is sure, left as they were where none is, and never written."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest

import memkit as mk
from memkit.formats.disk.source import LEAST_BYTES, encoding_of, guess_of
from memkit.tables.samples import write_files
from tests.test_growth import assert_grows_linearly

PAGE = """# Пул соединений

Пул держит не больше двадцати соединений: вчера отчёты заняли их все, и бот молчал до утра.

## Кто дежурит

На этой неделе дежурит Анна, на следующей Борис; телефон лежит в общей папке.
"""
NAMES = {"cp1251": "windows-1251", "koi8-r": "koi8-r", "cp866": "cp866", "utf-16-le": "utf-16-le"}
NAMES |= {"utf-16-be": "utf-16-be", "utf-16": "utf-16-le", "utf-32": "utf-32-le", "utf-32-be": "utf-32-be"}
NAMES |= {"mac_cyrillic": "mac-cyrillic", "iso8859_5": "iso-8859-5"}


@pytest.mark.quick
def test_a_file_is_read_in_the_encoding_that_is_sure(tmp_path: Path, subtests: pytest.Subtests) -> None:
    plain = mk.read(write_files(tmp_path / "utf-8", {"MEMORY.md": PAGE})).memories
    for encoding, name in NAMES.items():
        with subtests.test(encoding):
            corpus = mk.read(write_files(tmp_path / encoding, {"MEMORY.md": PAGE.encode(encoding)}))
            assert corpus.memories["text"].to_pylist() == plain["text"].to_pylist()
            assert corpus.memories["memory_id"].to_pylist() == plain["memory_id"].to_pylist()
            assert [json.loads(extra) for extra in corpus.memories["extra"].to_pylist()] == [{"encoding": name}] * 2
            (problem,) = corpus.problems.to_pylist()
            assert (problem["rule"], f"{name}, read as such" in problem["message"]) == ("encoding", True)
            search = mk.Retriever(encoder=None).fit(corpus)
            assert search.search("кто дежурит", k=1)["memory_id"][0].as_py().endswith("кто-дежурит")
            with pytest.raises(mk.MemkitError, match="no UTF-8"):
                mk.store(tmp_path / encoding).workspace.append_to_memory("ещё", now="2026-03-01")


LANGUAGES = (  # a text, the encodings in which it is sure, and those in which it is not
    ("Αποφασίσαμε ότι το ημερολόγιο θα είναι στα ελληνικά. Η Άννα παραγγέλνει το φαγητό.", "cp1253 iso8859_7", "cp737"),
    ("החלטנו שהיומן יהיה בעברית וכל מי שיש לו מפתח לחדר יכול לקרוא אותו. חנה מזמינה את הארוחה.", "cp1255", "cp862"),
    ("قررنا أن تكون المذكرات باللغة العربية ويقرأها كل من لديه مفتاح الغرفة. آنا تطلب الغداء.", "cp1256 iso8859_6", ""),
    (
        "Ми вирішили, що щоденник буде українською, і його читає кожен, хто має ключ від її",
        "koi8-u cp1251",
        "",
    ),
    ("Zdecydowaliśmy: obiad zamawia Łucja w każdy piątek, żeby zdążyć na spółkę. " * 5, "", "cp1250 iso8859_2"),
    ("Öğle yemeğini her cuma Ayşe ısmarlıyor, çünkü işi bu. " * 6, "", "cp1254"),
    ("我们决定日记用中文写，有房间钥匙的人都可以读。每个星期五由安娜订午饭，下午再把账单交给财务。", "", "gbk big5"),
    ("日記は日本語で書くことにしました。部屋の鍵を持っている人は誰でも読めます。", "", "shift_jis euc_jp"),
    ("เราตัดสินใจว่าบันทึกประจำวันจะเป็นภาษาไทย และทุกคนที่มีกุญแจห้องสามารถอ่านได้", "", "tis-620"),
)


def test_a_text_is_read_in_the_encoding_of_its_own_alphabet_or_in_none(subtests: pytest.Subtests) -> None:
    for text, sure, not_sure in LANGUAGES:
        for encoding in (sure + " " + not_sure).split():
            with subtests.test(f"{encoding}: {text[:20]}"):
                data = text.encode(encoding, "ignore")
                told = encoding_of(data)
                assert data.decode(told) == text if encoding in sure.split() else told == "utf-8"


NOT_SURE = {
    "short": "Пул".encode("cp1251"),
    "two kinds": PAGE.encode() + PAGE.encode("cp1251"),
    "french": "Après le dîner, ma sœur a préféré rentrer à l'hôtel près de Nîmes.\n".encode("cp1252") * 9,
    "noise": random.Random(0).randbytes(4000),
    "zeros": b"\0" * 4000,
    "one zero": b"plain words, and a zero\0 " + b"words " * 40 + b".",
    "half a sign": PAGE.encode("utf-16-le")[:-1],
    "a mark alone": b"\xff\xfe\0\0\xff",
}


@pytest.mark.quick
def test_what_nobody_is_sure_of_stays_as_it_was(subtests: pytest.Subtests) -> None:
    for name, data in NOT_SURE.items():
        with subtests.test(name):
            assert encoding_of(data) == ("utf-16-le" if name == "a mark alone" else "utf-8")
    assert encoding_of(b"\xef\xbb\xbf" + PAGE.encode()) == encoding_of(b"") == "utf-8"


@pytest.mark.quick
def test_below_the_least_number_of_bytes_nothing_is_guessed() -> None:
    words = PAGE.replace("\n", " ").encode("cp1251")
    short = words[: next(n for n in range(999) if sum(byte > 127 for byte in words[:n]) == LEAST_BYTES) - 1]
    assert [encoding_of(short), encoding_of(words)] == ["utf-8", "windows-1251"]
    assert [encoding_of(data) for data in (b"\0\0\0\t", b"\0\0\0a", b"a\0", b"a\0b\0")] == ["utf-8"] * 3 + ["utf-16-le"]


def test_the_encoding_of_a_huge_file_is_found_in_linear_time() -> None:
    for unit in (PAGE.encode("cp1251"), b"\0a", b"\xe4\n", b"\xff"):
        assert_grows_linearly(encoding_of, partial(bytes.__mul__, unit), 20_000)


def test_latin_letters_with_marks_are_not_shown_as_cyrillic(tmp_path: Path) -> None:
    assert {guess_of("Η Άννα παραγγέλνει".encode("cp1253")), guess_of("我们决定日记".encode("gbk"))} == {"windows-1252"}
    texts = {"fr": "Déjà vu à l'hôtel, où Hélène prépare la crème.", "de": "Die Bäckerei öffnet früh, Käthe übt."}
    for name, text in texts.items():
        (tmp_path / f"{name}.md").write_bytes(text.encode("latin-1"))
    corpus = mk.read(tmp_path)
    kept = [json.loads(extra) for extra in corpus.memories.sort_by("path")["extra"].to_pylist()]
    assert kept == [{"windows-1252": {"1": texts[name]}} for name in sorted(texts)]
    said = [problem["message"] for problem in corpus.problems.to_pylist() if problem["rule"] == "encoding"]
    assert [message.split(":")[2] for message in said] == [" expected UTF-8. Got bytes that read as windows-1252"] * 2
