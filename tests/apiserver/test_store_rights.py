"""Rights that are missing and disks that are read-only: one sentence with the way out; the store stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from support.backends import put
from unisono.apiserver.storage.store import Store

NOBODY = 65534
USER = NOBODY if os.geteuid() == 0 else os.geteuid()
# Opens a store of its own first: an ordinary user cannot import from every place at which Python may be installed.
SCRIPT = """
import asyncio, os, sys, tempfile
from unisono.apiserver.storage.files import StoreError
from unisono.apiserver.storage.store import Store

async def attempt(path):
    store = await Store.open(path)
    await store.close()

with tempfile.TemporaryDirectory() as folder:
    asyncio.run(attempt(folder + "/state.db"))
if sys.argv[2] == "drop":
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    asyncio.run(attempt(sys.argv[1]))
except StoreError as error:
    print(error)
else:
    print("opened")
"""


@pytest.fixture
async def path() -> AsyncIterator[Path]:
    """A store in a folder that every user of the machine may reach."""
    folder = Path(tempfile.mkdtemp(prefix="unisono-rights-"))
    store = await Store.open(folder / "state.db")
    await store.write([put("a")])
    await store.close()
    if os.geteuid() == 0:
        for item in (folder, *folder.iterdir()):
            os.chown(item, NOBODY, NOBODY)
    yield folder / "state.db"
    folder.chmod(0o700)
    shutil.rmtree(folder)


def said(path: Path, *before: str) -> str:
    """What an ordinary user's process says that opens the store; ``before`` is a command that runs it."""
    drop = "drop" if os.geteuid() == 0 else ""
    command = [*before, sys.executable, "-c", SCRIPT, str(path), drop]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def of_another_user(path: Path) -> Path:
    """As root the file gets another owner; an ordinary user can take only its mode."""
    if os.geteuid() == 0:
        os.chown(path, 0, 0)
    else:
        path.chmod(0)
    return path


def read_only_file(path: Path) -> Path:
    path.chmod(0o400)
    return path


def read_only_folder(path: Path) -> Path:
    path.parent.chmod(0o500)
    return path.parent


@pytest.mark.parametrize("take", [of_another_user, read_only_file, read_only_folder])
async def test_rights_that_are_missing(path: Path, take: Callable[[Path], Path]) -> None:
    assert said(path) == "opened"
    whole = path.read_bytes()
    place = take(path)
    owner = place.stat().st_uid
    assert said(path).startswith(
        f"{place} may not be read and written by user {USER} (it belongs to user {owner}): "
        "give this user the right to write it, or "
    )
    path.parent.chmod(0o700)
    path.chmod(0o600)
    assert path.read_bytes() == whole


async def test_a_disk_that_is_mounted_read_only(path: Path) -> None:
    namespace = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)))
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    told = said(path, *namespace, "sh", "-c", mount, str(path.parent))
    assert told.startswith(f"{path} is on a disk that is mounted read-only: mount it for writing, or ")
    assert said(path) == "opened"
