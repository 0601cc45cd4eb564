"""Reading what users write: files, folders and standard input, YAML or JSON, several documents and Lists."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.errors import ConfigError

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(slots=True)
class Manifest:
    """One object as written.

    Attributes:
        value: the object.
        file: where it stands, as errors name it; empty where a command makes it.
        line: first line of its document, from 1; 0 where it stands in no file.
        folder: folder of the file; of standard input, the working directory.
    """

    value: dict[str, Any]
    file: str
    line: int
    folder: Path

    @property
    def where(self) -> str:
        """``file:line`` for errors."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def told(self, text: str) -> str:
        """An error about the object, after its place where it stands in a file."""
        return f"{self.where}: {text}" if self.file else text

    @property
    def api_version(self) -> str:
        """The object's apiVersion."""
        return str(self.value["apiVersion"])

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.value["kind"])

    @property
    def metadata(self) -> dict[str, Any]:
        """The object's metadata, writable."""
        section = self.value.setdefault("metadata", {})
        assert isinstance(section, dict)
        return section

    @property
    def name(self) -> str:
        """The object's name, or its generateName."""
        return str(self.metadata.get("name") or self.metadata.get("generateName") or "")


def read(names: Iterable[str]) -> list[Manifest]:
    """All objects of the files, folders (their YAML and JSON files, sorted) or ``-``.

    Raises:
        ConfigError: a file is missing, is no YAML, or holds something that is no Kubernetes object.
    """
    manifests = [manifest for name in names for manifest in _read_one(name)]
    if not manifests:
        places = ", ".join("standard input" if name == "-" else name for name in names)
        raise ConfigError(f"there is no object in {places}: write at least one, with apiVersion and kind.")
    return manifests


def _read_one(name: str) -> Iterator[Manifest]:
    if name == "-":
        try:
            # As bytes: in the locale C Python reads what is no UTF-8 as half characters.
            text = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError:
            raise ConfigError("standard input is no text in UTF-8.") from None
        yield from _parse(text, "standard input", Path.cwd())
        return
    path = Path(name)
    if path.is_dir():
        for file in sorted(path.iterdir()):
            if file.suffix in SUFFIXES:
                yield from _read_one(str(file))
        return
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"the file {name} does not exist: check the path.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the file {name} is no text in UTF-8: is it the right file?") from None
    except OSError as error:
        raise ConfigError(f"the file {name} cannot be read: {error.strerror or error}.") from None
    yield from _parse(text, name, path.absolute().parent)


def _parse(text: str, file: str, folder: Path) -> Iterator[Manifest]:
    from unisono.api.yaml import expand_lists, load_all

    for document in expand_lists(load_all(text, file=file)):
        if document.value is not None:
            yield Manifest(_checked(document.value, file, document.line), file, document.line, folder)


def _checked(value: Any, file: str, line: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(
            "this is no Kubernetes object: expected a mapping with apiVersion and kind.", file=file, line=line
        )
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise ConfigError(f"the object has no {key}: add one.", file=file, line=line, key=key)
    if not isinstance(value.get("metadata", {}), dict):
        raise ConfigError("metadata must be a mapping.", file=file, line=line, key="metadata")
    return value
