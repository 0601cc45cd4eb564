"""Puts this folder on the import path (``from support.memory import MemoryClient``), and says what Hypothesis draws."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from support.cluster_turn import turn
from support.programs import missing


def helpers() -> list[str]:
    """Modules beside the tests, by the names that tests import them by, but for those that are in use already."""
    files = (path for path in Path(__file__).parent.glob("*/*.py") if not path.stem.startswith(("test_", "conftest")))
    names = (f"support.{path.stem}" if path.parent.name == "support" else path.stem for path in files)
    return sorted(set(names) - sys.modules.keys())


# An assertion of a helper that fails shows its values, as one of a test does.
pytest.register_assert_rewrite(*helpers())

# The same examples at every run, so that a change is judged by what it changes: as many as a test names with the
# profile steady, fewer where a change is tried (make test), and new and many more every night (make test-nightly). On a
# busy machine one of them may take any time.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)
settings.register_profile("nightly", parent=settings.get_profile("search"), max_examples=1000)
settings.register_profile("steady", parent=settings.get_profile("search"), derandomize=True)
settings.register_profile("quick", parent=settings.get_profile("steady"), max_examples=40)
settings.load_profile("steady")

# A traceback that rich paints, with the values of all variables, takes a hundred times as long as one of Python.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


def pytest_report_header() -> list[str]:
    """What is not tested here, before the tests: a run without kubectl is green and says less."""
    return [missing()] if missing() else []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Says which tests one process of ``pytest -n`` runs together, and in which order they are begun."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and not shares_nothing(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    if hasattr(config, "workerinput"):
        items[:] = spread(items)
        if config.getvalue("loadgroup"):
            for item in items:
                write_group(item)


def write_group(item: pytest.Item) -> None:
    """Puts a test's group at the end of its id, where pytest-xdist looks for it.

    pytest-xdist 3.8 writes it into an attribute that pytest 9.2 no longer reads: each test would be a group of its own,
    and a module's fixtures would be made in every process.
    """
    mark, known = item.get_closest_marker("xdist_group"), getattr(item, "_id", None)
    if mark is not None and known is not None:
        item._id = type(known).parse(f"{item.nodeid}@{mark.args[0]}")


def shares_nothing(item: pytest.Item) -> bool:
    """Whether a test has a control plane of its own; the others of a module stay together, for their fixtures' sake."""
    return item.get_closest_marker("unshared") is not None or "start_plane" in getattr(item, "fixturenames", ())


def spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Tests of processes among the others: they wait for most of their time, in which the others can use a processor.

    The last third is without them, so that nothing long is left at the end.
    """
    waiting = [item for item in items if item.get_closest_marker("processes") is not None]
    busy = [item for item in items if item.get_closest_marker("processes") is None]
    if not waiting or not busy:
        return items
    every = len(busy) * 2 // 3 / len(waiting)
    places = [(number * every, 0, number) for number in range(len(waiting))]
    places += [(number, 1, number) for number in range(len(busy))]
    return [(waiting if kind == 0 else busy)[number] for _, kind, number in sorted(places)]


def pytest_collection() -> None:
    """What is collected lives as long as the run: to look for garbage there would take a third of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempts from later collections what lives as long as the run: modules and the tests themselves.

    Each module ends with a collection, so those in between may be rare: they would take an eighth of the time.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def a_module_answers_for_what_it_left_open() -> Iterator[None]:
    """Collects when a module's tests are over, so that a socket they forgot fails them and not a later module's tests.

    What is still in use then is exempt from later collections, so that each looks at one module's objects only.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def an_error_in_a_trial_is_no_answer() -> None:
    """Raises what goes wrong in a trial of a change; a scheduler reports it and goes on."""
    from unisono.engine.verdicts.trial import (
        Trials,  # most tests need the engine, and this takes as long for the others
    )

    Trials.strict = True


@pytest.fixture(scope="session")
def cluster_turn() -> Iterator[None]:
    """Asked for by whatever works on a cluster; see ``support.cluster_turn``."""
    with turn():
        yield
