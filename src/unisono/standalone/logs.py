"""Structured logs of a control plane: JSON lines to a file, or readable lines to a terminal."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import structlog

CAUSE = "_cause"
"""Field that names the cause of a line where its text cannot; it is not written."""

_LIMITED = frozenset(("warning", "error", "critical", "exception"))
_CAUSES = ("kind", "resource", "controller", "plugin", "part", "logger")
"""Fields that tell causes of one event apart; names of objects do not, a user has any number of them."""

Fields = MutableMapping[str, Any]
After = Callable[[float, Callable[[], None]], object]
"""Calls a function once, so many seconds from now."""


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
    method = level if level in ("debug", "info", "error", "critical") else "warning"
    getattr(structlog.get_logger(), method)(event, **fields)


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
        # A cached logger would keep these processors when others are configured.
        cache_logger_on_first_use=False,
    )
    # aiohttp and asyncio speak through the standard library; only their warnings matter to an operator.
    logging.basicConfig(handlers=[LibraryLogs()], level=logging.WARNING, force=True)


@dataclass(slots=True)
class _Seen:
    """When a line of a cause passed, how many did not since then, and what a line of it says in any case."""

    at: float
    outline: dict[str, Any]
    suppressed: int = 0


class LogLimit:
    """A structlog processor that lets warnings and errors of one cause pass once an interval.

    Args:
        interval: seconds.
        most: causes that are remembered; the one that was silent for longest is forgotten first.
        monotonic: the clock.
        tell: logs a line (its event and fields) that counts what was dropped of a cause that has been silent since;
            None where it is not written before the next line of that cause.
        after: the timer.
    """

    def __init__(
        self,
        interval: float = 10.0,
        most: int = 1000,
        monotonic: Callable[[], float] = time.monotonic,
        tell: Callable[[dict[str, Any]], None] | None = None,
        after: After | None = None,
    ) -> None:
        self._interval, self._most, self._monotonic = interval, most, monotonic
        self._tell, self._after = tell, after or _in_a_thread
        self._seen: OrderedDict[Hashable, _Seen] = OrderedDict()
        self._lock = threading.Lock()
        self._waiting = False

    def __call__(self, logger: Any, method: str, event: Fields) -> Fields:
        """The event, with ``suppressed`` where lines of its cause were dropped since the last one; or `DropEvent`."""
        named = event.pop(CAUSE, None)
        level = event.get("level", method)
        if level not in _LIMITED:
            return event
        parts = {name: event[name] for name in _CAUSES if name in event}
        cause = (named or str(event.get("event")), *(str(parts.get(name, "")) for name in _CAUSES))
        with self._lock:
            now = self._monotonic()
            seen = self._seen.get(cause)
            if seen is not None and now - seen.at < self._interval:
                seen.suppressed += 1
                start = self._tell is not None and not self._waiting
                self._waiting |= start
                dropped = seen.suppressed
            else:
                dropped, start = 0, False
                outline = {"event": event.get("event"), "level": level, **parts}
                self._seen[cause] = _Seen(now, outline | ({CAUSE: named} if named else {}))
                self._seen.move_to_end(cause)
                while len(self._seen) > self._most:
                    self._seen.popitem(last=False)
        if start:
            self._after(self._interval, self._tell_overdue)
        if dropped:
            raise structlog.DropEvent
        if seen is not None and seen.suppressed:
            event["suppressed"] = seen.suppressed
        return event

    def _tell_overdue(self) -> None:
        """Tell of causes that have been silent for an interval since lines of them were dropped."""
        with self._lock:
            now = self._monotonic()
            counting = [seen for seen in self._seen.values() if seen.suppressed]
            overdue = [seen.outline for seen in counting if now - seen.at >= self._interval]
            self._waiting = len(counting) > len(overdue)
            left = min((seen.at for seen in counting if now - seen.at < self._interval), default=now)
            again = self._waiting
        if self._tell is not None:
            for outline in overdue:  # each is a line of its cause, and takes the number along
                self._tell(dict(outline))
        if again:
            self._after(left + self._interval - now, self._tell_overdue)


def _in_a_thread(seconds: float, function: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()
