"""Where the scheduler's configuration comes from, and how it changes while the scheduler runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from unisono.api.core import ObjectReference
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.plugins.registry import fresh_code, is_code
from unisono.errors import ConfigError

_log = structlog.get_logger(__name__)

# Plug-ins of modules, wherever they stand in the text: a package that is named only now is imported again, too.
_CODE = re.compile(r"name:\s*[\"']?([\w.]+:\w+)")

Loader = Callable[[str, str], SchedulerConfig]


class ConfigSource(Protocol):
    """Answers the configuration for the next cycle."""

    error: str
    """What is wrong with the newest configuration, empty when it is in use."""

    @property
    def text(self) -> str:
        """The newest configuration as it was read; empty where there is no text."""
        ...

    @property
    def name(self) -> str:
        """Where the configuration stands, in words."""
        ...

    @property
    def reference(self) -> ObjectReference | None:
        """The object of the API in which it stands, for events; None where there is none."""
        ...

    def poll(self) -> SchedulerConfig:
        """The configuration to use now; the same object as long as nothing changed. Never raises."""
        ...


class FixedConfig:
    """A configuration that never changes."""

    def __init__(self, config: SchedulerConfig | None = None) -> None:
        self.name = "the default configuration" if config is None else "a fixed configuration"
        self._config = config or default_config()
        self.error = self.text = ""
        self.reference: ObjectReference | None = None

    def poll(self) -> SchedulerConfig:
        """The configuration given."""
        return self._config


class FileConfig:
    """A configuration file that is read again when it changes.

    The content is compared, not the time alone, and the path is resolved again each time: a ConfigMap volume swaps a
    symbolic link. A file that cannot be used keeps the configuration before it. Code of plug-ins that are named as
    ``module:Class`` is imported again whenever the file is written, also with the same content.
    """

    def __init__(
        self,
        path: Path,
        load: Loader = load_config,
        on_error: Callable[[str], None] | None = None,
        reference: ObjectReference | None = None,
    ) -> None:
        """Read the file at once; ``reference`` is the object of the API that it comes from, if there is one.

        Raises:
            ConfigError: the file cannot be read or is wrong; there is nothing before it to keep.

        """
        self._path, self._load, self._on_error = path, load, on_error
        self.error, self.name, self.reference = "", str(path), reference
        self._stamp = self._stat()
        self._text = self._read()
        self._config = load(self._text, str(path))

    @property
    def text(self) -> str:
        """The newest text that was read."""
        return self._text

    def poll(self) -> SchedulerConfig:
        """The newest usable configuration."""
        try:
            stamp = self._stat()
            if stamp == self._stamp:
                return self._config
            text = self._read()
            self._stamp = stamp
            code = [plugin.name for plugin in self._config.plugins if is_code(plugin.name)]
            if text != self._text or self.error or code:
                self._text = text
                with fresh_code([*code, *_CODE.findall(text)]):
                    self._config = self._load(text, str(self._path))
                self.error = ""
                _log.info("config.reloaded", file=str(self._path))
        except ConfigError as error:
            self._failed(str(error))
        return self._config

    def _failed(self, message: str) -> None:
        if message == self.error:
            return
        self.error = message
        _log.error("config.rejected", error=message, kept="the configuration before it")
        if self._on_error is not None:
            self._on_error(message)

    def _stat(self) -> tuple[int, int, int]:
        try:
            stat = self._path.stat()
        except OSError as error:
            raise ConfigError(
                f"the scheduler configuration cannot be read: {error.strerror}", file=str(self._path)
            ) from error
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _read(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the scheduler configuration cannot be read: {error}", file=str(self._path)) from error
