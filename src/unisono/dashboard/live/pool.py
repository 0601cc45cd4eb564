"""Pods that several viewers see, kept once: each viewer reads them with the own credentials, and equal ones are one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

if TYPE_CHECKING:
    from unisono.api.core import Container, Pod

# The cache is emptied when it holds this many different containers.
_MOST_KINDS = 20_000


class Pool:
    """Pods by UID and resourceVersion, for as long as a viewer holds them.

    What a viewer gets of it is what the API server has just sent to that viewer: the same object in the same version.
    """

    def __init__(self) -> None:
        self._pods: WeakValueDictionary[tuple[str, str], Any] = WeakValueDictionary()
        self._containers: dict[bytes, Sequence[Container]] = {}

    def __len__(self) -> int:
        """How many pods are in use."""
        return len(self._pods)

    def share(self, pod: Pod) -> Pod:
        """The one pod for all, without what no view shows; what has no UID or version stays as it is."""
        uid, version = pod.metadata.uid, pod.metadata.resource_version
        if not uid or not version:
            return pod
        found: Pod | None = self._pods.get((uid, version))
        if found is not None:
            return found
        pod.metadata.managed_fields = None
        spec = pod.spec
        spec.tolerations = spec.volumes = spec.affinity = None
        for each in spec.containers or ():
            each.env = each.env_from = each.volume_mounts = None
        if spec.containers:
            # Those of one template are alike.
            spec.containers = list(self._alike(spec.containers))
        self._pods[uid, version] = pod
        return pod

    def _alike(self, containers: Sequence[Container]) -> Sequence[Container]:
        told = msgspec.json.encode(containers)
        found = self._containers.get(told)
        if found is None:
            if len(self._containers) >= _MOST_KINDS:
                self._containers.clear()
            found = self._containers[told] = tuple(containers)
        return found
