"""Small files of the agent that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec


def write_whole(path: Path, data: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """Write a file under a temporary name and rename it: a reader sees the old or the new one.

    Args:
        path: the file.
        data: its content.
        mode: its permissions.
        owner: user and group that get it; None keeps the writer's.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    if owner is not None:
        os.chown(temporary, *owner)
    temporary.chmod(mode)
    temporary.rename(path)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(value))


def read_json(path: Path, default: Any) -> Any:
    """The value in a JSON file; ``default`` when there is none or it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return default


def read_record(path: Path) -> dict[str, str] | None:
    """A ``key=value`` file of the shim; None when there is none."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    return {key: value.encode("ascii", "ignore").decode("unicode_escape") for key, _, value in pairs}


def rewrite_in_place(path: Path, text: str) -> bool:
    """Change a file that is bound into running containers, keeping its inode; False when nothing changed.

    One write of the new text and a cut behind it: a reader meets the old text or the new one, never an empty file.
    """
    data = text.encode()
    try:
        if path.read_bytes() == data:
            return False
    except FileNotFoundError:
        write_whole(path, data, 0o644)
        return True
    with path.open("r+b", buffering=0) as file:
        file.write(data)
        file.truncate(len(data))
    return True
