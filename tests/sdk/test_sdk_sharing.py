"""Folders of jobs that root submits from a closed place, in the annotation of their namespace."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.memory import MemoryClient
from unisono.agent.processes.users import MOST_DIRECTORIES, readable_directories
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kinds import NAMESPACES
from unisono.sdk.jobs.submission import is_read_only, share_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root shares folders")


@pytest.fixture
def closed() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="unisono-closed-"))
    yield root
    shutil.rmtree(root)


async def test_the_list_is_bounded_and_loses_what_was_removed_first(closed: Path) -> None:
    client = MemoryClient()
    client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
    folders = [closed / str(number) for number in range(MOST_DIRECTORIES + 2)]
    for folder in folders:
        folder.mkdir()
    for folder in folders[:MOST_DIRECTORIES]:
        assert await share_folder(client, "default", folder)
    folders[5].rmdir()
    assert await share_folder(client, "default", folders[-2])
    assert await share_folder(client, "default", folders[-1])
    assert not await share_folder(client, "default", folders[-1])
    listed = readable_directories(await client.get(NAMESPACES, "default"))
    assert listed == [str(folder) for folder in folders[1:] if folder != folders[5]]


async def test_pods_of_their_own_user_cannot_write_to_roots_folder(closed: Path) -> None:
    client = MemoryClient()
    client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
    trusted = ObjectMeta(name="trusted", labels={"pod-security.kubernetes.io/enforce": "privileged"})
    client.put(NAMESPACES, Namespace(metadata=trusted))
    assert await is_read_only(client, "default", closed)
    assert not await is_read_only(client, "trusted", closed)
    assert not await is_read_only(client, "absent", closed)
    closed.chmod(0o1777)
    assert not await is_read_only(client, "default", closed)
