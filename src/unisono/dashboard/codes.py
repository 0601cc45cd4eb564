"""One-time codes, in memory or as files that the owner of a folder alone can make.

The process that owns the dashboard's port writes these codes; the pages of the dashboard do not need them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

CODE_SECONDS = 120.0
"""How long a one-time link can be used."""


def new_code() -> str:
    """A code that cannot be guessed."""
    return secrets.token_urlsafe(32)


def leave_code(folder: Path) -> str:
    """A new code that the server of this folder will take, once and soon.

    The file has the code's hash as its name, so that who sees the folder does not know the code.

    Raises:
        OSError: the folder cannot be written.

    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    code = new_code()
    os.close(os.open(_file(folder, code), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return code


def take_code(folder: Path, code: str, now: float) -> bool:
    """Whether the code was left in the folder and is not too old; it cannot be taken again."""
    file = _file(folder, code)
    try:
        made = file.stat().st_mtime
        file.unlink()
    except OSError:
        return False
    for other in folder.glob("*"):
        if now - other.stat().st_mtime > CODE_SECONDS:
            other.unlink(missing_ok=True)
    return now - made <= CODE_SECONDS


def _file(folder: Path, code: str) -> Path:
    return folder / hashlib.sha256(code.encode()).hexdigest()
