"""Files that hold secrets: written whole or not at all, with their mode from the first byte on."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace ``path`` atomically and durably; a reader sees the old content or the new, never a part.

    Raises:
        OSError: the file cannot be written; the old content is still there.

    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def private_directory(path: Path) -> Path:
    """Make ``path`` a directory that only its owner enters."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    return path
