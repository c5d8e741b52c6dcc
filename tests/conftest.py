"""What all tests share: how examples are drawn, which tests are quick, and a script of tests/ as a module."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent

# Neither the time that one example takes nor the time to make one says anything about memkit.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _UNTIMED, derandomize=True)
settings.register_profile("random", _UNTIMED, print_blob=True)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def script() -> Callable[[str], ModuleType]:
    """script("benchmarks/bench_quality.py"): a script below tests/ as a module."""

    def load(path: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(Path(path).stem, TESTS / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load
