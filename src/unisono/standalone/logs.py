"""Structured logs of a control plane: JSON lines to a file, or readable lines to a terminal."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any, TextIO, cast

import structlog


class _CurrentStderr:
    """Standard error as it is when something is written: whoever replaces it must not end up with a closed stream."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure_logs(file: Path | None = None, *, level: str = "info") -> None:
    """Send the logs of this process to ``file`` as JSON lines, or to stderr.

    Args:
        file: appended to, mode 0600; None for stderr (coloured where it is a terminal).
        level: ``debug``, ``info``, ``warning`` or ``error``.

    """
    stream = cast("TextIO", _CurrentStderr())
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600, exist_ok=True)
        stream = file.open("a", buffering=1)
    readable = file is None and sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
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
    logging.basicConfig(stream=stream, level=logging.WARNING, format="%(name)s: %(message)s", force=True)
