"""Transcripts as files: one JSON document per step, so that a changed answer is a changed line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write(path: Path, client: str, server: str, steps: list[dict[str, Any]]) -> None:
    """Store a scene's transcript with the versions of those who talked."""
    lines = [{"kubectl": client, "server": server}, *steps]
    path.write_text("".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines))


def read(path: Path) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The versions and the steps."""
    first, *steps = (json.loads(line) for line in path.read_text().splitlines())
    return first, steps
