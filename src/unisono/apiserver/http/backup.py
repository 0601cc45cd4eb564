"""``/unisono/v1/backup``: a copy of everything in the store, for users with access to this path."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from unisono.apiserver.http.exchange import Exchange

PATH = "/unisono/v1/backup"
_PIECE = 256 * 1024


class BackupHandler:
    """Makes a copy on disk and sends it.

    Args:
        make: writes a copy to a path.
        directory: where copies are for a moment; only its owner reads it.

    """

    def __init__(self, make: Callable[[Path], Awaitable[None]], directory: Path) -> None:
        self._make, self._directory = make, directory

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Answer with the copy."""
        path = self._directory / f".backup-{uuid.uuid4().hex}.tmp"
        try:
            await self._make(path)
            # Opened, it is read to its end even though its name is gone: nothing is left behind.
            file = path.open("rb")
        finally:
            path.unlink(missing_ok=True)
        with file:
            response = await exchange.stream("application/vnd.sqlite3", length=os.fstat(file.fileno()).st_size)
            while piece := await asyncio.to_thread(file.read, _PIECE):
                await exchange.write(response, piece)
        return response
