"""Kubeconfig files and their named entries, read with errors that name file and key."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from unisono.errors import ConfigError, system_reason


@dataclass(frozen=True, slots=True)
class KubeconfigFile:
    """A file and what it says."""

    path: Path
    value: dict[str, Any]


def read_file(path: Path) -> KubeconfigFile:
    """Read one file; an empty one says nothing.

    Raises:
        ConfigError: it cannot be read, or is no mapping in YAML.

    """
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError("this is no kubeconfig: it is no text in UTF-8", file=str(path)) from error
    except OSError as error:
        raise ConfigError(f"the kubeconfig cannot be read: {system_reason(error)}", file=str(path)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not YAML"
        raise ConfigError(
            f"the kubeconfig is not valid YAML: {problem}", file=str(path), line=mark.line + 1 if mark else 0
        ) from error
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise ConfigError("the kubeconfig must be a mapping", file=str(path))
    return KubeconfigFile(path, value)


@dataclass(frozen=True, slots=True)
class Entry:
    """One named cluster, user or context with the file it stands in."""

    file: Path
    where: str
    value: dict[str, Any]

    def text(self, key: str) -> str | None:
        """A text; None for none and for an empty one."""
        value = self.value.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.error(key, "must be a string")
        return value

    def flag(self, key: str) -> bool:
        """A boolean, false where it is not set."""
        value = self.value.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def path(self, key: str) -> Path | None:
        """A path, relative to the folder of the file."""
        text = self.text(key)
        return None if text is None else self.file.parent / text

    def pem(self, key: str) -> bytes | None:
        """``<key>-data`` decoded, else the contents of the file that ``<key>`` names."""
        data = self.text(f"{key}-data")
        if data is not None:
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise self.error(f"{key}-data", "is not base64") from error
        path = self.path(key)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.error(key, f"cannot be read: {error.strerror}: {path}") from error

    def error(self, key: str, problem: str) -> ConfigError:
        """What is wrong with a key, for the user."""
        name = f"{self.where}.{key}"
        return ConfigError(f"{name} {problem}", file=str(self.file), key=name)
