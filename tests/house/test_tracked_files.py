"""The repository holds no links, and nothing that a tool installs or builds beside the sources."""

from __future__ import annotations

import subprocess

import pytest

from support.plane import REPOSITORY

INSTALLED = {"node_modules", ".venv", "__pycache__", "dist", "build"}


def _tracked() -> list[tuple[str, str]]:
    """Mode and path of each tracked file."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("the sources were not cloned with git")
    listed = subprocess.run(["git", "ls-files", "-s", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [(entry.split(" ", 1)[0], entry.split("\t", 1)[1]) for entry in listed.stdout.split("\0") if entry]


def test_no_tracked_file_is_a_link():
    assert [path for mode, path in _tracked() if mode == "120000"] == []


def test_nothing_installed_or_built_is_tracked():
    assert [path for _, path in _tracked() if INSTALLED & set(path.split("/"))] == []
