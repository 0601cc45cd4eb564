"""What the pods of a control plane of root may do in the folder of a job that root submits."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.errors import ApiError

if TYPE_CHECKING:
    from unisono.kube.client import Client


async def share_folder(client: Client, namespace: str, folder: Path) -> bool:
    """Add a folder that only root can reach to those that pods of the namespace may read.

    Only an administrator of the control plane can do so; for others nothing happens, and a pod that needs the folder
    says what is missing.

    Args:
        client: a control plane of this machine.
        namespace: of the job.
        folder: in which the job's pods start.

    Returns:
        Whether the folder was added.
    """
    if os.geteuid() != 0:
        return False
    from unisono.agent.processes.users import (
        MOST_DIRECTORIES,
        closed_folder,
        hidden,
        is_privileged,
        readable_directories,
    )
    from unisono.api.annotations import READABLE_DIRECTORIES
    from unisono.api.kinds import NAMESPACES

    if closed_folder(folder) is None or ":" in str(folder):
        return False
    try:
        namespace_object = await client.get(NAMESPACES, namespace)
        listed = readable_directories(namespace_object)
        # Without those that were removed, or can be reached by now.
        needed = {path for _, paths in hidden(listed) for path in paths}
        shared = [each for each in listed if each in needed]
        if is_privileged(namespace_object) or any(folder.is_relative_to(each) for each in shared):
            return False
        kept = [each for each in shared if not Path(each).is_relative_to(folder)]
        # Where there is no room for all, those that were added longest ago go.
        value = ":".join([*kept[1 - MOST_DIRECTORIES :], str(folder)])
        version = namespace_object.metadata.resource_version
        change = {"metadata": {"annotations": {READABLE_DIRECTORIES: value}, "resourceVersion": version}}
        await client.patch(NAMESPACES, namespace, change)
    except ApiError:
        return False
    return True


async def is_read_only(client: Client, namespace: str, folder: Path) -> bool:
    """Whether the pods of root's control plane cannot write to a folder that root, who submits them, can.

    They run as a user of their namespace. Where this cannot be known, nothing is said.

    Args:
        client: a control plane of this machine.
        namespace: of the job.
        folder: in which the job's pods start.

    """
    if os.geteuid() != 0:
        return False
    from unisono.agent.processes.users import is_privileged
    from unisono.api.kinds import NAMESPACES

    try:
        namespace_object = await client.get(NAMESPACES, namespace)
    except ApiError:
        return False
    return not is_privileged(namespace_object) and not _others_may_write(folder)


def _others_may_write(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return True
