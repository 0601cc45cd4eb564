"""A folder for what pages do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where jobs of other users of this machine may work, too: pods are such users where this is root."""
    with TemporaryDirectory(prefix="unisono-docs-") as made:
        Path(made).chmod(0o755)
        yield Path(made)
