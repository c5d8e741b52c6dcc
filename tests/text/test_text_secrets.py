"""Secrets: what is one, what only looks like one, and what a mask leaves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit.text.secrets import SECRETS, Secret, find, mask

EXAMPLES = {
    "private_key": ("x ", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----", " y"),
    "model_key": ("`", "sk-notarealkeyonlyanexamplefordocs", "`"),
    "payment_key": ("", "sk_test_4eC39HqLyjWDarjtT1zdp7dc", "."),
    "git_token": ("push with ", "ghp_0123456789abcdefghijklmnopqrstuvwxyz", ""),
    "chat_token": ("", "xoxb-123456789012-abcdef", ""),
    "bot_token": ("токен ", "0000000000:FAKE-owl-token-for-docs-not-a-real", " бота"),
    "cloud_key": ("id ", "AKIAIOSFODNN7EXAMPLE", ""),
    "session_token": ("", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", ""),
    "bearer": ("Bearer ", "not0a0real0token0at0all00", " here"),
    "url_password": ("postgres://filin:", "p4ss", "@birch/filin"),
    "card": ("card ", "4111 1111 1111 1111", ", exp 04/28"),
    "pin": ("пин-код от карты: ", "4321", "."),
    "password": ("Пароль от вайфая там новый: ", "sova-ne-spit-2026", ", старый больше не подходит"),
    "token": ("ключ для 2гис: `", "fake-2gis-key-0000-owl", "`"),
}


def test_every_kind_of_the_list_has_an_example() -> None:
    assert EXAMPLES.keys() == {secret.name for secret in SECRETS}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_secret_is_found_where_it_lies_and_nothing_else_is_masked(name: str) -> None:
    before, secret, after = EXAMPLES[name]
    assert find(before + secret + after) == [(name, len(before), len(before) + len(secret))]
    assert mask(before + secret + after) == f"{before}[{name} hidden]{after}"


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
        "",
    ],
)
def test_what_only_looks_like_a_secret_is_none(text: str) -> None:
    assert find(text) == []
    assert mask(text) == text


def test_the_list_is_a_parameter() -> None:
    own = (Secret("badge", "a door", r"(?P<secret>B-\d{4})"),)
    assert mask("badge B-1234, sk-notarealkeyonlyanexamplefordocs", own) == (
        "badge [badge hidden], sk-notarealkeyonlyanexamplefordocs"
    )


def test_secrets_that_overlap_are_one_to_the_end_of_the_longer() -> None:
    text = "password: sk-notarealkeyonlyanexamplefordocs!!2x"
    assert mask(text) == "password: [model_key hidden]"


@given(st.lists(st.sampled_from(["чай ", "x", "\n", " ", "`", *("".join(parts) for parts in EXAMPLES.values())])))
def test_spans_are_in_order_apart_and_within_the_text(parts: list[str]) -> None:
    text = "".join(parts)
    found = find(text)
    assert all(0 <= one.start < one.end <= len(text) for one in found)
    assert all(one.end <= other.start for one, other in pairwise(found))


def test_most_secrets_of_a_generated_set_are_found_and_little_else(
    script: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    precision, recall = script("audit/find_secrets.py").main(1000, 1)
    assert precision >= 0.98
    assert recall >= 0.95
    assert f"precision {precision:.3f}  recall {recall:.3f}" in capsys.readouterr().out
