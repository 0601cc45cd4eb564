"""Puts this folder on the import path (``from support.memory import MemoryClient``), and says what Hypothesis draws."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from support.cluster_turn import turn

# The same examples at every run, so that a change is judged by what it changes: as many as a test names with the
# profile steady, fewer where a change is tried (make test), and new and many more every night (make test-nightly). On a
# busy machine one of them may take any time.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)
settings.register_profile("nightly", parent=settings.get_profile("search"), max_examples=1000)
settings.register_profile("steady", parent=settings.get_profile("search"), derandomize=True)
settings.register_profile("quick", parent=settings.get_profile("steady"), max_examples=40)
settings.load_profile("steady")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps a module's tests in one process of ``pytest -n``, so that its fixtures and its collection happen once."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish() -> None:
    """Exempts from later collections what lives as long as the run: modules and the tests themselves."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def a_module_answers_for_what_it_left_open() -> Iterator[None]:
    """Collects when a module's tests are over, so that a socket they forgot fails them and not a later module's tests.

    What is still in use then is exempt from later collections, so that each looks at one module's objects only.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def cluster_turn() -> Iterator[None]:
    """Asked for by whatever works on a cluster; see ``support.cluster_turn``."""
    with turn():
        yield
