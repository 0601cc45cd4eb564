"""Keeps what a server in the tests' own process logs apart from what a command prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs_apart() -> Iterator[None]:
    """Logs go to the process' own stderr, where ``capsys`` does not look: a slow machine makes a server warn."""
    before = structlog.get_config()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))
    yield
    structlog.configure(**before)
