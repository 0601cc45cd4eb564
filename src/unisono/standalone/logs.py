"""Structured logs of a control plane: JSON lines to a file, or readable lines to a terminal."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, TextIO, cast

import structlog

from unisono.standalone.log_limit import CAUSE, LogLimit


class _CurrentStderr:
    """Standard error as it is when something is written: code that replaces it must not end up with a closed stream."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


class LogFile:
    """A file that lines are added to; what finds no room is dropped, and counted in the first line that finds some.

    A full disk must be told of and not be made worse: who logs goes on as if the line had been written.

    Args:
        path: made where it is not there, mode 0600.

    Raises:
        OSError: it cannot be opened.

    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lost = 0

    def write(self, text: str) -> int:
        """Add ``text``, which ends with its line."""
        if self._lost:
            # On a line of its own, whatever part of the last one is there.
            note = json.dumps({"lines": self._lost, "event": "log.lines_lost", "level": "warning"})
            data = f"\n{note}\n{text}".encode()
        else:
            data = text.encode()
        try:
            written = os.write(self._file, data)
        except OSError:
            written = 0
        self._lost = self._lost + 1 if written < len(data) else 0
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class LibraryLogs(logging.Handler):
    """Passes what libraries log through the standard library on to structlog, so that it is limited and rendered alike.

    What one place in a library says has one cause, whatever it names.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record."""
        try:
            fields: dict[str, Any] = {"logger": record.name, CAUSE: f"{record.pathname}:{record.lineno}"}
            if record.exc_info and record.exc_info[0] is not None:
                fields["exc_info"] = record.exc_info
            _say(record.levelname.lower(), record.getMessage(), fields)
        except Exception:
            self.handleError(record)


def _say(level: str, event: str, fields: dict[str, Any]) -> None:
    known = level if level in ("debug", "info", "error", "critical") else "warning"
    getattr(structlog.get_logger(), known)(event, **fields)


def _tell(outline: dict[str, Any]) -> None:
    """Log what the limit counted of a cause."""
    _say(outline.pop("level"), outline.pop("event"), outline)


def configure_logs(file: Path | None = None, *, level: str = "info") -> None:
    """Send the logs of this process to ``file`` as JSON lines, or to stderr.

    Args:
        file: appended to, mode 0600; None for stderr (coloured where it is a terminal).
        level: ``debug``, ``info``, ``warning`` or ``error``.

    """
    stream = cast("TextIO", _CurrentStderr())
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        stream = cast("TextIO", LogFile(file))
    readable = file is None and sys.stderr.isatty()
    # Values of variables stay out of tracebacks: there are tokens and passwords among them.
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer: Any = console if readable else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            # Who watches a terminal has seen the first line; a log file is read later.
            LogLimit(tell=None if readable else _tell),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *([] if readable else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    # aiohttp and asyncio speak through the standard library; only their warnings matter to an operator.
    logging.basicConfig(handlers=[LibraryLogs()], level=logging.WARNING, force=True)
