"""Programs of the machine that tests drive. Without one its tests are skipped; in continuous integration they fail."""

from __future__ import annotations

import os
import shutil

import pytest

# Where Debian has each.
PACKAGES = {
    "kubectl": "kubernetes-client",
    "cc": "gcc libc6-dev",
    "mpirun": "openmpi-bin",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
}
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))


def found(name: str) -> str | None:
    """Where a program is; those of an administrator are not on every user's ``PATH``."""
    return shutil.which(name, path=_PATH)


def needed(name: str) -> str:
    """Path of a program without which a test means nothing."""
    path = found(name)
    if path is not None:
        return path
    message = f"{name} is not installed (Debian: apt-get install {PACKAGES[name]})"
    if os.environ.get("CI"):
        raise AssertionError(message)
    pytest.skip(message)


def missing() -> str:
    """One sentence on what is not tested here; empty where nothing is missing."""
    absent = [name for name in PACKAGES if found(name) is None]
    if not absent:
        return ""
    packages = " ".join(PACKAGES[name] for name in absent)
    return f"not installed: {', '.join(absent)}; their tests are skipped (Debian: apt-get install {packages})"
