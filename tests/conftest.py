"""Puts this folder on the import path (``from support.memory import MemoryClient``), and says what Hypothesis draws."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from support.cluster_turn import turn

# The same examples at every run, so that a change is judged by what it changes; --hypothesis-profile=search draws
# others. On a busy machine one of them may take any time.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", parent=settings.get_profile("search"), derandomize=True)
settings.load_profile("steady")


@pytest.fixture(autouse=True, scope="module")
def a_module_answers_for_what_it_left_open() -> Iterator[None]:
    """Collects when a module's tests are over, so that a socket they forgot fails them and not whoever comes next."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def cluster_turn() -> Iterator[None]:
    """Asked for by whatever works on a cluster; see ``support.cluster_turn``."""
    with turn():
        yield
