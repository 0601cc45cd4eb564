"""Loggers that import structlog when something is logged: commands mostly say nothing, and it takes long to import."""

from __future__ import annotations

from typing import Any


class LazyLogger:
    """Stands for ``structlog.get_logger(name)``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._logger is None:
            import structlog

            self._logger = structlog.get_logger(self._name)
        return getattr(self._logger, attribute)
