"""Secrets: what is one, what only looks like one, and what a mask leaves."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Callable
from itertools import combinations, pairwise
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit.tables.samples import sample_data
from memkit.text.secrets import PREFIXES, SECRETS, SHORT_PREFIXES, Mask, Secret, find, kinds_in, mask, may_hold

EXAMPLES = [(secret.name, example) for secret in SECRETS for example in secret.examples]


def parts_of(example: str) -> tuple[str, str, str]:
    """What stands before the secret of an example, the secret, and what stands after it."""
    before, rest = example.split("⟦")
    secret, after = rest.split("⟧")
    return before, secret, after


@pytest.mark.quick
def test_every_kind_of_the_list_finds_its_own_english_and_russian_example_and_has_a_meaning() -> None:
    for secret in SECRETS:
        english, russian = secret.examples
        for before, value, after in map(parts_of, secret.examples):
            assert find(before + value + after, [secret]) == [(secret.name, len(before), len(before) + len(value))]
        assert english.replace("⟦", "").replace("⟧", "").isascii()
        assert re.search("[а-я]", russian)
        assert secret.meaning


@pytest.mark.quick
@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_a_secret_is_found_where_it_lies_and_nothing_else_is_masked(name: str, example: str) -> None:
    before, secret, after = parts_of(example)
    assert find(before + secret + after) == [(name, len(before), len(before) + len(secret))]
    assert mask(before + secret + after) == f"{before}[{name} hidden]{after}"


X = "Qm7-vol-3kd!a"


@pytest.mark.parametrize(
    "text",
    [
        "password ru: пароль: {}",
        "password (ru): пароль от базы: {}",
        "Пароли: password: пароль: {}",
        "token: пароль: {}",
        "The password is currently: {}",
        "ssh root@elm / {}",
        "ssh: root / {}",
        "login: anna / {}",
        "user filin, birch / {}",
        "логин anna / {}",
        "логин / пароль: anna / {}",
        "Пароль от вайфая {}",
        "Пароль от вайфая дома {} не менять",
        "curl -u anna:{} https://birch",
        "curl -fsSL --user 'anna:{}' https://birch",
        "mysql -u root -p{} filin",
        "mysqldump --host elm -p'{}' filin > a.sql",
        "sshpass -p {} ssh root@elm",
        "PGPASSWORD={} psql",
        "Cookie: session={}; Path=/",
        "Set-Cookie: connect.sid={}",
        "docker login -u bot -p {} registry",
        "The root password was changed to {}",
        "пароль сменили на {}",
        "pw: {}",
        '{{"password": "{}"}}',
    ],
)
def test_a_password_is_hidden_whatever_label_command_or_login_says_it(text: str) -> None:
    masked = mask(text.format(X))
    assert X not in masked
    assert " hidden]" in masked
    assert mask(text.format("")) == text.format("")


@pytest.mark.parametrize(
    "text",
    [
        "пароль: {}",
        "Пароль от вайфая — {}.",
        "the password for the safe is {}, tell nobody",
        "passphrase: `{}`",
        "кодовое слово: «{}»",
        '{{"password": "{}"}}',
    ],
)
def test_a_pass_phrase_of_words_is_hidden_and_known_again(text: str) -> None:
    for phrase in ("верная лошадь батарея скрепка", "correct horse battery staple", "correct-horse-battery-staple"):
        assert mask(text.format(phrase)) == text.format("[password hidden]")
    assert mask("пароль: верная лошадь батарея скрепка\nроутер / верная лошадь батарея скрепка").count("hidden") == 2


@pytest.mark.parametrize("word", ["sha256", "SHA-256", "hash", "digest", "commit", "хеш", "checksum", "fingerprint"])
def test_64_hexadecimal_digits_are_a_key_beside_one_and_never_after_a_digest(word: str) -> None:
    value = "0a1b" * 16
    for text in (f"private {value}", f"ключ подписи {value}", f"signing key {value}", f"{value} is the key"):
        assert value not in mask(text)
        assert mask(f"{word} of {text}") == f"{word} of {text}"
    assert mask(f"{word} {value} of key.pem") == f"{word} {value} of key.pem"
    assert mask(f"public key {value}") == f"public key {value}"


def test_a_value_that_is_said_once_is_hidden_wherever_it_stands_again() -> None:
    assert mask("root / sova2026; дом: sova2026, sova2026x; пароль: sova2026") == (
        "root / [password hidden]; дом: [password hidden], sova2026x; пароль: [password hidden]"
    )


@pytest.mark.parametrize("word", ["kitchen-table", "Ordinary", "12345678", "сова-не-спит", "owl2026"])
def test_a_word_is_not_hidden_again_where_nothing_calls_it_a_secret(word: str) -> None:
    hide = Mask([f'password: "{word}"'])
    assert f"the {word} is old" == hide(f"the {word} is old")


@given(st.lists(st.sampled_from(["sova2026", "sova2026-x", "Qm7-vol-3kd!a", "пароль: ", " ", "/", "root", "\n", "ё"])))
def test_texts_together_hide_no_less_than_each_alone_and_keep_what_is_not_hidden(parts: list[str]) -> None:
    text = "".join(parts)
    hide = Mask(["пароль: sova2026, пароль: Qm7-vol-3kd!a"])
    masked = hide(text)
    assert not re.search(r"(?<![^\W_])sova2026(?![^\W_])", masked)
    assert "Qm7-vol-3kd" not in masked or re.search(r"[^\W_]Qm7-vol", text) or re.search(r"3kd!a[^\W_]", text)
    pieces = re.split(r"\[\w+ hidden\]", masked)
    position = 0
    for piece in pieces:  # in their order
        position = text.index(piece, position) + len(piece)


def test_of_values_that_begin_alike_the_shorter_may_end_a_text() -> None:
    hide = Mask(["пароль: sova2026", "пароль: sova2026mira"])
    assert hide.again("root / sova2026mira, root / sova2026") == "root / [password hidden], root / [password hidden]"


def test_a_mask_for_html_knows_values_as_they_are_escaped_there() -> None:
    hide = Mask(["password: a&b<c>12'34"])
    assert "12" not in hide.in_html(f"<td>{html.escape(chr(97) + '&b<c>12' + chr(39) + '34')}</td>")


@pytest.mark.parametrize(
    "text",
    [
        "id 550e8400-e29b-41d4-a716-446655440000, token: 550e8400-e29b-41d4-a716-446655440000",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b, sha: 89e6c98d92887913cadf06b2adb97f26cde4849b",
        "0.13.0, v2.54.1, password manager: 2.54.1",
        "Her secretary: anna2026x",
        "ключевой: abcd1234efgh5678",
        "The bearer of bad news",
        "a task-force of twenty-four people",
        "password: $DB_PASSWORD, token=${FILIN_TOKEN}, пароль: <ваш-пароль-1>",
        "password: see the vault",
        "Passwords are hashed with bcrypt12 or password sha256",
        "order 1357913579135791, card 4111 1111 1111 1112",
        "password changed: 2026-01-26",
        "key: notes/2026-01-26/release.md",
        "sk-short, ghp_short, pin the version",
        "root / Ubuntu22, user / notes2.md, login / anna1@mail.ru, ssh / 22/tcp, user prompt / gpt-4o",
        "mysql -p3306:3306, mysql -protocol=tcp, curl -u $USER:$PASSWORD, curl -u user:password",
        "password for server ubuntu22 was changed, tokens = bm25s.tokenize(x), pass refit='accuracy'",
        "Cookie: theme=dark2026; the session of 2026-03-01",
        "twilio has 12 numbers, MNO is a word",
        "root cause / CVE-2024-12345, User / gpt-4o-mini-2024-07-18, login form / test_login_form_42, ssh / x86_64",
        "compass: north2, bypass: road66a",
        "password policy: minimum twelve characters; password: ask Mira tomorrow; Пароль: спроси Миру завтра",
        "Пароль: раз в квартал новый; пароль — это важно для всех; password: end-to-end encrypted",
        "",
    ],
)
def test_what_only_looks_like_a_secret_is_none(text: str) -> None:
    assert find(text) == []
    assert mask(text) == text


def test_the_list_is_a_parameter() -> None:
    secrets = (Secret("badge", "a door", r"(?P<secret>B-\d{4})"),)
    assert mask("badge B-1234, sk-notarealkeyonlyanexamplefordocs", secrets) == (
        "badge [badge hidden], sk-notarealkeyonlyanexamplefordocs"
    )


def test_secrets_that_overlap_are_one_to_the_end_of_the_longer() -> None:
    text = "password: sk-notarealkeyonlyanexamplefordocs!!2x"
    assert mask(text) == "password: [model_key hidden]"


@given(st.lists(st.sampled_from(["чай ", "x", "\n", " ", "`", *("".join(parts_of(one)) for _, one in EXAMPLES)])))
def test_spans_are_in_order_apart_and_within_the_text(parts: list[str]) -> None:
    text = "".join(parts)
    spans = find(text)
    assert all(0 <= one.start < one.end <= len(text) for one in spans)
    assert all(one.end <= other.start for one, other in pairwise(spans))


def test_the_sample_holds_no_find_that_is_no_secret(script: Callable[[str], ModuleType], capsys: Any) -> None:
    rate = script("audit/find_secrets.py").finds([str(sample_data())])
    output = capsys.readouterr().out
    assert output.count(">>>") == 8  # tests/tables/test_tables_secrets.py has them by file and line
    assert f"{rate:.2f} a million" in output


def test_most_secrets_of_a_generated_set_are_found_and_little_else(
    script: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    precision, recall = script("audit/find_secrets.py").main(1000, 1)
    assert precision >= 0.98
    assert recall >= 0.95
    assert f"precision {precision:.3f}  recall {recall:.3f}" in capsys.readouterr().out


SAID = [text.replace("⟦", "").replace("⟧", "") for _, text in EXAMPLES]
PIECES = [
    *["-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc", "curl -s --proxy-user a:b4c7 x", "с кодовым словом sova7-spit"],
    *["sk_live_", "for", "от", " changed to ", "whsec_", "bearer::", "логин/пароль root7-a9!", "SG.", "do0_v1_"],
    *["AmEx 378282246310005", "password", "Пароль", "pass", "PIN", "пин", "pın", "redis-clİ", "\u212aey", "ſecret"],
    *["token", "ключ", "кука", "basic", " ", "  ", "\n", ": ", " = ", " — ", " is ", " / ", " -a ", "://", ":", "@"],
    *['"', "«", "=", "\xa0", "\u2028", "\x1c", "sova-2026x", "qwerty", "4321", "٤٣٢١"],
    *["0a" * 32, "a1B2" * 6, "4111 1111 1111 1111", "4١١١-1111-1111-1111", "0000000"],
]
HELD = st.lists(st.sampled_from(SAID) | st.sampled_from(PIECES), max_size=6).map("".join)
CASES = st.sampled_from([str, str.upper, str.lower, str.swapcase])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(HELD, CASES).map(lambda pair: pair[1](pair[0])), min_size=1, max_size=12))
def test_a_look_is_never_too_narrow(texts: list[str]) -> None:
    """What no look lets through would be kept by admission and hidden on the screen."""
    texts = [*texts, *SAID, *PIECES]
    read = [find(text, [*SECRETS]) for text in texts]  # of a list of one's own there is no look
    allowed = may_hold(pa.chunked_array([texts])).to_pylist()
    assert [text for text, spans, may in zip(texts, read, allowed, strict=True) if spans and not may] == []
    assert [find(text) for text in texts] == read
    kinds = kinds_in(pa.chunked_array([texts]))
    assert [find(text, kinds.get(row, ())) for row, text in enumerate(texts)] == read


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.meaning)
def test_the_look_of_a_kind_lets_its_examples_through_and_no_plain_text(secret: Secret) -> None:
    texts = [text.replace("⟦", "").replace("⟧", "") for text in secret.examples]
    plain = [
        "Mira keeps the password and the key, see /docs.",
        "Ключ и пароль знает Мира, токен тоже.",
        "Встреча в 10:30.",
    ]
    matched = pc.match_substring_regex(pa.array([*texts, *map(str.upper, plain), *plain]), secret.quick).to_pylist()
    assert matched == [True] * len(texts) + [False] * 2 * len(plain)


def test_a_digit_of_python_is_one_of_the_look() -> None:
    digits = [chr(code) for code in range(0x110000) if re.match(r"\d", chr(code))]
    assert all(pc.match_substring_regex(pa.array(digits), r"\p{Nd}").to_pylist())
    assert len(digits) > 500


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n"])
@pytest.mark.parametrize("width", [64, 70])
def test_no_line_of_a_private_key_is_shown_however_the_text_is_cut(width: int, newline: str) -> None:
    draw = random.Random(width)  # no key that opens anything
    body = ["".join(draw.choices("ABCxyz0189+/", k=width)) for _ in range(12)] + ["AAECAwQFBg=="]
    lines = ["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----", "сменить в мае"]
    for first, last in combinations(range(len(lines) + 1), 2):
        if last - first > 1:
            piece = newline.join(lines[first:last])
            shown = mask(piece[5:] if 0 < first < len(body) else piece)
            assert not any(line[:20] in shown for line in body[:-1]), piece
            assert ("сменить" in shown) == ("сменить" in piece) or newline == "\\n"


@pytest.mark.parametrize(
    "text",
    ["a" * 64, "слово\n" + "a1BD" * 16 + "\nслово", "sha\n" + "0a" * 32, "ABC\n" + "a1B2" * 19 + "\nDEF", "a b c"],
)
def test_a_long_word_among_others_is_no_piece_of_a_key(text: str) -> None:
    assert find(text) == []


DIGITS_AND_LETTERS = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"
UUID_KEY = "0a1b2c3d-1111-4222-8333-444455556666"
NAMED = {
    f'"api_key": "{UUID_KEY}"': UUID_KEY,
    f"HEROKU_API_KEY={UUID_KEY}": UUID_KEY,
    f"SNYK_TOKEN: {UUID_KEY}": UUID_KEY,
    f"токен доступа {UUID_KEY}, на год": UUID_KEY,
    f"client secret is {UUID_KEY}": UUID_KEY,
    '"accessToken": "6Dj0a5Unot0l.Veq0real0key3yV0"': "6Dj0a5Unot0l.Veq0real0key3yV0",
    "call it with ?token=abc.def1234567890&page=2": "abc.def1234567890",
    "токен: x7Gf2.kQ9aZz": "x7Gf2.kQ9aZz",
    "token=bm25s.tokenize.words": None,
    '"api_key": "AQ.Ab8RN6Knot0a0real0key0at0all0"': "AQ.Ab8RN6Knot0a0real0key0at0all0",
    '"api_key": "qz7.b.0not0a0real0key0at0all0"': "qz7.b.0not0a0real0key0at0all0",
    '"api_key": settings.providers.gemini_2.api_key_of_the_user; gsk_of-the-year-2026-and-2027-too': None,
    f"key: {UUID_KEY}, token of {UUID_KEY}": None,
    f"next_page id {UUID_KEY}": None,
    f"primary key: {UUID_KEY}": None,
    f"token of the page, {UUID_KEY}": None,
    "token: settings.access.v2": None,
    "secret_santa2024partyplanning": None,
    "glc_daily_summary_2026_of_the_house": None,
    "fc-daygrid-day-top-number-2026": None,
}


HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
SHAPED = [
    f"pat{DIGITS_AND_LETTERS[:14]}.{HEX}{HEX}",  # a tracker's tables
    f"pk_12345678_{DIGITS_AND_LETTERS.upper()}",
    f"re_{DIGITS_AND_LETTERS[:8]}_{DIGITS_AND_LETTERS[:24]}",
    f"ak-{DIGITS_AND_LETTERS[:22]}",
    f"2/1201234567890123/1209876543210987:{HEX}",
    f"1/1201234567890123:{HEX}",
    f"sdk-{UUID_KEY}",
    f"{DIGITS_AND_LETTERS[:14]}.atlasv1.{HEX}{HEX}",
    f"Ab~8Q~{DIGITS_AND_LETTERS}",
    "A3-ABC123-ABC123-DEF45-AB12C-DE34F-GH56I",
    f"perm:Ym9yaXM=.NDItMQ==.{DIGITS_AND_LETTERS}",
    f"z_1dWlkIjoi{DIGITS_AND_LETTERS}.{DIGITS_AND_LETTERS}-{HEX}",
    f"sm_{DIGITS_AND_LETTERS[:22]}_{DIGITS_AND_LETTERS}{DIGITS_AND_LETTERS}",
    f"webhookb2/{UUID_KEY}@{UUID_KEY}/IncomingWebhook/{HEX}/{UUID_KEY}",
]


def test_keys_of_hosts_are_known_by_their_shape(subtests: pytest.Subtests) -> None:
    for key in SHAPED:
        with subtests.test(key):
            assert key not in mask(f"взял {key}, до осени")
    assert find(f"image sha256:{HEX}{HEX}, 2/3 of 1/1201234567890123, ak-47 and as-is, pk_12345678_of_the_table") == []


def test_keys_of_hosts_are_known_by_what_they_open_with(subtests: pytest.Subtests) -> None:
    for prefix in (" ".join(PREFIXES.values()) + " " + SHORT_PREFIXES).split():
        with subtests.test(prefix):
            key = f"{prefix}{DIGITS_AND_LETTERS}"
            (finding,) = find(f"взял {key} для стенда")
            assert f"взял {key} для"[finding.start : finding.end] == key
            assert find(f"{prefix}of-a-word-and-another-2026") == []


def test_a_named_value_with_a_dot_or_a_uuid_is_a_secret(subtests: pytest.Subtests) -> None:
    for text, secret in NAMED.items():
        with subtests.test(text):
            assert [text[one.start : one.end] for one in find(text)] == [secret] * (secret is not None)
