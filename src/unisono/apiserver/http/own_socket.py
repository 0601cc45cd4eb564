"""A socket of this machine for the control plane's own components: plain HTTP, for the user who runs it alone.

Scheduler and controllers make thousands of requests a second at their busiest; between two processes of one user TLS
protects nothing and costs as much as many a request. Who connects says who it is by a token, as everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

from unisono.errors import ConfigError, system_reason
from unisono.kube.listening import Listener


class OwnSocket:
    """Listens at ``path``, in a folder that only its owner may enter."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listener: Listener | None = None

    async def open(self, served: Callable[[], asyncio.BaseProtocol]) -> None:
        """Listen; what a process that was killed has left is taken away.

        Raises:
            ConfigError: nothing can listen there.

        """
        bound = socket.socket(socket.AF_UNIX)
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._path.parent.chmod(0o700)
            self._path.unlink(missing_ok=True)
            bound.bind(str(self._path))
            self._path.chmod(0o600)
            self._listener = Listener(bound, lambda address: served())
            self._listener.start()
        except OSError as error:
            bound.close()
            raise ConfigError(f"cannot listen at {self._path} ({system_reason(error)})", key="own_socket") from error

    async def close(self) -> None:
        """Take no more connections."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
