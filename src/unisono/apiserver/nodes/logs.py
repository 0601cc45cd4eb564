"""Where container logs come from: the node agent implements this, the server only relays it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from unisono.api.log_options import LogOptions


class LogSource(Protocol):
    """Reads the logs of containers that run, or ran, on this machine."""

    def open(
        self, namespace: str, pod: str, uid: str, container: str, options: LogOptions = ...
    ) -> AsyncIterator[bytes]:
        """Stream one container's log as raw bytes; chunks need not end at line ends.

        Args:
            namespace: the pod's namespace.
            pod: the pod's name.
            uid: the incarnation of the pod whose log is meant.
            container: container or init container name; the caller has checked that the pod has it.
            options: which part of the log.

        Raises:
            unisono.errors.UnisonoError: the log cannot be read; the message is shown to the user.

        """
        ...

    def keeps(self, namespace: str, pod: str, uid: str, container: str) -> bool:
        """Whether the log of a container can be read although the API has no such pod any more."""
        ...
