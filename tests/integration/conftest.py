"""Every test of this folder runs on each API server; what faults came to is told at the end of the run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from integration_processes import SEEN
from integration_servers import SERVERS

from unisono.kube.kubeconfig import ClusterConfig


@pytest.fixture(params=SERVERS)
async def config(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ClusterConfig]:
    if request.param == "cluster":
        request.getfixturevalue("cluster_turn")
    async with SERVERS[request.param](tmp_path) as config:
        yield config


_FAULTS = "faults"
_TOLD: list[str] = []


@pytest.fixture(autouse=True)
def faults(record_property: Callable[[str, object], None]) -> Iterator[None]:
    SEEN.clear()
    yield
    for text in SEEN:
        record_property(_FAULTS, text)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        test = report.nodeid.rpartition("::")[2]
        _TOLD.extend(f"{test}: {text}" for name, text in report.user_properties if name == _FAULTS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _TOLD:
        terminalreporter.section("faults")
        for line in _TOLD:
            terminalreporter.write_line(line)
