"""Outputs are compared, and a progress bar says how busy the machine was; all kernels share a cache of vectors."""

import os
from collections.abc import Generator

import pytest

os.environ["TQDM_DISABLE"] = "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Before the first cell a kernel starts; it takes the environment as it is then."""
    with pytest.MonkeyPatch.context() as patch:
        if kept := os.environ.get("MEMKIT_TESTS_CACHE"):
            patch.setenv("MEMKIT_CACHE", kept)
        return (yield)
