"""Where logs go when standard error is replaced."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from unisono.standalone.logs import configure_logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before, handlers = structlog.get_config(), logging.getLogger().handlers[:]
    yield
    structlog.configure(**before)
    logging.getLogger().handlers[:] = handlers


def test_lines_go_to_the_standard_error_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    configure_logs(level="warning")
    log = structlog.get_logger("test")
    log.warning("once", number=1)
    first_text = first.getvalue()
    first.close()
    monkeypatch.setattr(sys, "stderr", second)
    log.warning("twice")
    log.info("unheard")
    logging.getLogger("aiohttp").warning("from the library")
    assert json.loads(first_text)["number"] == 1
    lines = second.getvalue().splitlines()
    assert json.loads(lines[0])["event"] == "twice"
    assert lines[1:] == ["aiohttp: from the library"]
