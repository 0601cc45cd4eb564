"""Where logs go when standard error is replaced."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from unisono.standalone import logs
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
    library = json.loads(lines[1])
    assert (library["logger"], library["event"], library["level"]) == ("aiohttp", "from the library", "warning")
    assert len(lines) == 2


def test_loggers_that_have_spoken_follow_a_new_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    configure_logs()
    log = structlog.get_logger("test")
    log.warning("once")
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    with structlog.testing.capture_logs() as lines:
        log.warning("twice")
    assert [line["event"] for line in lines] == ["twice"]


def test_libraries_are_limited_by_where_they_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logs()
    for number in range(100):
        try:
            raise ValueError(number)
        except ValueError:
            logging.getLogger("asyncio").exception("Task %d raised %s", number, f"text of a user {number}")
    logging.getLogger("aiohttp").error("another place")
    lines = [json.loads(line) for line in stderr.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["Task 0 raised text of a user 0", "another place"]
    assert "ValueError: 0" in lines[0]["exception"]
    assert not any(key.startswith("_") for line in lines for key in line)


@pytest.mark.parametrize("terminal", [False, True])
def test_only_a_log_that_is_read_later_is_told_after_silence(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    stderr = io.StringIO()
    stderr.isatty = lambda: terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", stderr)
    started: list[float] = []
    monkeypatch.setattr(logs, "_in_a_thread", lambda seconds, _: started.append(seconds))
    configure_logs()
    for _ in range(3):
        logging.getLogger("aiohttp").error("trouble")
    assert stderr.getvalue().count("trouble") == 1
    assert started == ([] if terminal else [10.0])


_LIMITED = """
import os, resource, signal, sys
from pathlib import Path
import structlog
from unisono.standalone import logs
from unisono.standalone.logs import configure_logs

path = Path(sys.argv[1])
configure_logs(path)
log = structlog.get_logger("test")
log.info("before")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + int(sys.argv[2]), resource.RLIM_INFINITY))
for number in range(7):  # of seven causes: the log limits each
    log.error(f"lost {number}", why="x" * 50)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.info("after")
log.info("later")
"""


@pytest.mark.processes
@pytest.mark.parametrize("room", [0, 1, 30], ids=["none", "one-byte", "half-a-line"])
def test_a_full_disk_costs_lines_of_the_log_and_stops_nobody(tmp_path: Path, room: int) -> None:
    log = tmp_path / "unisono.log"
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(log), str(room)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    whole = []
    for line in log.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            whole.append(json.loads(line))
    assert [line["event"] for line in whole] == ["before", "log.lines_lost", "after", "later"]
    assert whole[1]["lines"] == 7
    assert log.stat().st_mode & 0o777 == 0o600
