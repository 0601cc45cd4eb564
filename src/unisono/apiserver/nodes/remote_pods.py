"""Pods that run elsewhere and can be read here: the hub of a fleet knows them, the server relays what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from unisono.apiserver.nodes.remote import PodCommands


class RemotePods(Protocol):
    """Reads pods of the jobs of this API that other clusters run; the caller has checked the rights of the user."""

    async def find(self, namespace: str, name: str) -> bytes | None:
        """The pod as JSON; None where no job of the namespace has such a pod anywhere.

        Raises:
            ApiError: the cluster that has it does not answer.

        """
        ...

    async def listed(self, namespace: str | None, query: Mapping[str, str]) -> tuple[Sequence[bytes], Sequence[str]]:
        """Pods of the jobs of a namespace, None for all, and one sentence for each cluster that does not tell.

        Args:
            namespace: of the jobs.
            query: ``labelSelector`` and ``fieldSelector``.

        """
        ...

    async def reach(self, namespace: str, name: str) -> tuple[bytes, PodCommands] | None:
        """The pod as JSON and what runs commands in it; None where no job of the namespace has such a pod anywhere.

        Raises:
            ApiError: the cluster that has it does not answer.

        """
        ...

    def log(self, namespace: str, name: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Stream a log of the pod.

        Args:
            namespace: of the pod.
            name: of the pod.
            query: what of the log is asked for, in Kubernetes' words.

        Raises:
            NotFound: there is no such pod.
            ApiError: the cluster that has it refuses, or does not answer.

        """
        ...
