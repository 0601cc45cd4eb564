"""Where container logs come from: the node agent implements this, the server only relays it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol


class LogSource(Protocol):
    """Reads the logs of containers that run, or ran, on this machine."""

    def open(
        self,
        namespace: str,
        pod: str,
        uid: str,
        container: str,
        *,
        follow: bool,
        tail_lines: int | None,
        since_seconds: float | None,
        timestamps: bool,
        previous: bool,
        limit_bytes: int | None,
    ) -> AsyncIterator[bytes]:
        """Stream one container's log as raw bytes; chunks need not end at line ends.

        Args:
            namespace: the pod's namespace.
            pod: the pod's name.
            uid: the incarnation of the pod whose log is meant.
            container: container or init container name; the caller has checked that the pod has it.
            follow: go on until the container ends, else stop at the end of what is written.
            tail_lines: start that many lines before the end; None starts at the beginning.
            since_seconds: leave out lines older than this.
            timestamps: put each line's RFC 3339 time in front of it.
            previous: the run before the present one.
            limit_bytes: stop after this many bytes.

        Raises:
            unisono.errors.UnisonoError: the log cannot be read; the message is shown to the user.

        """
        ...
