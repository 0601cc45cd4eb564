"""Puts this folder on the import path: tests say ``from support.memory import MemoryClient``."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from support.cluster_turn import turn


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
