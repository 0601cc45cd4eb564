"""The built page: read once into memory, so that no path of a request ever names a file of this machine."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass
from pathlib import Path

BUILT = Path(__file__).parents[1] / "page" / "dist"
HOW_TO_BUILD = "The dashboard's page is not built: run 'make dashboard' in the clone."
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class File:
    """One file of the page."""

    body: bytes
    content_type: str


def is_built(folder: Path = BUILT) -> bool:
    """Whether there is a page to serve."""
    return (folder / "index.html").is_file()


def read_files(folder: Path = BUILT) -> dict[str, File]:
    """All files of the built page by their path in the address; empty where it is not built."""
    if not is_built(folder):
        return {}
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".map")
    return {f"/{path.relative_to(folder).as_posix()}": File(path.read_bytes(), _type(path)) for path in files}


def _type(path: Path) -> str:
    known = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"{known}; charset=utf-8" if known.startswith("text/") else known
