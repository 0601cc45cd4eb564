"""The release before this one, to go from it to this version and back.

It is the youngest tag below this commit; before there was a release it is the commit at which 0.1.0 was described. Its
sources run with the packages of this environment.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from support.plane import REPOSITORY

VARIABLE = "UNISONO_TEST_PREVIOUS"
_BEFORE_ANY = "4f889db8"


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(REPOSITORY), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def revision() -> str:
    """What is taken for the last release; empty where the history is not there."""
    # The tag of this commit itself is what is tested.
    tags = _git("tag", "--merged", "HEAD^", "--list", "v*", "--sort=-v:refname").split()
    return next((name for name in (*tags, _BEFORE_ANY) if _git("rev-parse", "--verify", f"{name}^{{commit}}")), "")


def program(folder: Path) -> tuple[str, ...]:
    """Words that start the last release, unpacked into ``folder``; ``UNISONO_TEST_PREVIOUS`` names others."""
    if VARIABLE in os.environ:
        return tuple(shlex.split(os.environ[VARIABLE]))
    if not (found := revision()):
        pytest.skip("the repository's history is not there, which has the last release")
    packed = folder / "previous.tar"
    subprocess.run(["git", "-C", str(REPOSITORY), "archive", "-o", str(packed), found, "src"], check=True)
    with tarfile.open(packed) as archive:
        archive.extractall(folder / "previous", filter="data")
    packed.unlink()
    return "env", f"PYTHONPATH={folder / 'previous' / 'src'}", sys.executable, "-m", "unisono"
