"""Folders of jobs that root submits from a closed place, in the annotation of their namespace."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.memory import MemoryClient
from unisono.agent.processes.users import MOST_DIRECTORIES, directories
from unisono.api.annotations import WRITABLE_DIRECTORIES
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.groups.access import ClusterRoleBinding, RoleBinding, RoleRef, Subject
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, NAMESPACES, ROLE_BINDINGS
from unisono.apiserver.authorization.roles import default_bindings
from unisono.sdk.jobs.submission import is_read_only, share_folder, share_writing

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
    listed = directories(await client.get(NAMESPACES, "default"))
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


async def test_pods_of_root_alone_may_write_where_they_start(closed: Path) -> None:
    client = MemoryClient()
    client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
    project = closed / "project"
    (project / "sub").mkdir(parents=True)
    assert await share_writing(client, "default", project / "sub")
    assert await share_writing(client, "default", project)
    assert not await share_writing(client, "default", project / "sub")
    assert directories(await client.get(NAMESPACES, "default"), WRITABLE_DIRECTORIES) == [str(project)]
    assert not await is_read_only(client, "default", project / "sub")
    assert not await share_folder(client, "default", project)
    assert await is_read_only(client, "default", closed)


@pytest.mark.parametrize(
    ("folder", "data"), [("/", ""), ("/etc/x", ""), ("/root", ""), ("/usr/share", ""), ("", "data"), ("", "..")]
)
async def test_the_machines_folders_and_the_control_planes_are_not_given(
    closed: Path, folder: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = MemoryClient()
    client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
    assert not await share_writing(client, "default", Path(folder) if folder else closed, closed / data)
    monkeypatch.setenv("HOME", str(closed / "home"))
    assert not await share_writing(client, "default", closed, Path("/nowhere"))


@pytest.mark.parametrize(
    ("role", "kind", "wide", "given"),
    [
        ("edit", "ClusterRole", False, False),
        ("edit", "ClusterRole", True, False),
        ("cluster-admin", "ClusterRole", True, True),
        # They administer the namespace, and not the machine.
        ("cluster-admin", "ClusterRole", False, False),
        ("cluster-admin", "Role", False, False),
        ("unisono:queue-viewer", "ClusterRole", False, True),
        ("unisono:queue-viewer", "Role", False, False),
        ("unisono:aggregate-to-edit", "ClusterRole", False, False),
        ("system:aggregate-to-edit", "ClusterRole", True, False),
        ("system:own", "ClusterRole", True, False),
    ],
)
async def test_where_others_have_rights_nothing_is_given(
    closed: Path, role: str, kind: str, wide: bool, given: bool
) -> None:
    client = MemoryClient()
    client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
    subjects, reference = [Subject(kind="User", name="bob")], RoleRef(kind=kind, name=role)
    if wide:
        binding = ClusterRoleBinding(metadata=ObjectMeta(name="b"), subjects=subjects, role_ref=reference)
        client.put(CLUSTER_ROLE_BINDINGS, binding)
    else:
        meta = ObjectMeta(name="b", namespace="default")
        client.put(ROLE_BINDINGS, RoleBinding(metadata=meta, subjects=subjects, role_ref=reference))
    assert await share_writing(client, "default", closed) is given


async def test_what_every_control_plane_gives_to_all_users_is_no_right_to_make_pods(closed: Path) -> None:
    client = MemoryClient()
    client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
    for binding in default_bindings():
        client.put(CLUSTER_ROLE_BINDINGS, binding)
    assert await share_writing(client, "default", closed)
