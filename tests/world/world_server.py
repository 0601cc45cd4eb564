"""The API server of a world: the real store, admission and housekeeping, over a disk that loses power."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import itertools
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from world_configured import Configured
from world_disk import CrashingDisk, Pump
from world_loop import SeededLoop, WorldClock
from world_network import Weather
from world_nevers import Truth
from world_story import Story

from unisono.apiserver.backend import Backend
from unisono.apiserver.local import LocalClient
from unisono.apiserver.storage.objects import Retention
from unisono.errors import UnisonoError

NOW = 1_700_000_000.0
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Server:
    """The API server of a world, over a disk that loses power; ``world_network.Server`` for its wires."""

    def __init__(self, story: Story, folder: Path, loop: SeededLoop) -> None:
        self.story, self._folder, self._loop = story, folder, loop
        self.draw = Random(story.seed * 7 + 1)
        self.weather = Weather()
        self.history: list[str] = []
        self._pump: Any = type("SeededPump", (Pump,), {"draw": self.draw})
        self._clock = WorldClock(loop, NOW)
        self._uids, self._generations = itertools.count(1), itertools.count(1)
        self.truth = Truth(loop.time, Configured(story.config))
        self._backend: Backend | None = None
        self._disk: CrashingDisk | None = None
        self._serving: set[asyncio.Task[Any]] = set()
        self._acknowledged = 0
        self._opened = asyncio.Event()

    def note(self, text: str) -> None:
        """A line of the history."""
        self.history.append(f"{self._loop.time():11.6f} {text}")

    # ---- the server, as ``world_network.Server``

    def local(self, manager: str) -> LocalClient | None:
        """A client in the server's process."""
        return None if self._backend is None else self._backend.client(field_manager=manager)

    def serve(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Run a request."""
        # It is the server that does it, and not the process that has asked.
        task: asyncio.Task[Any] = contextvars.Context().run(asyncio.ensure_future, work)
        self._serving.add(task)
        task.add_done_callback(self._served)
        return task

    def _served(self, task: asyncio.Task[Any]) -> None:
        self._serving.discard(task)
        if not task.cancelled():
            task.exception()

    def is_paused(self, process: str) -> bool:
        """Whether a process stands still."""
        return self._loop.is_paused(process)

    def sent(self, process: str, verb: str, what: str) -> None:
        """A request reaches the server."""
        if verb not in ("get", "list"):
            self.note(f"{process} {verb} {what}")
        self.truth.sent(process, verb, what)

    def acknowledged(self, process: str, verb: str, answer: Any) -> None:
        """A process was told that its write is done."""
        meta = getattr(answer, "metadata", None)
        if meta is not None and meta.resource_version:
            self._acknowledged = max(self._acknowledged, int(meta.resource_version))

    def _committed(self, event: Any) -> None:
        entry = event.entry
        text = hashlib.sha256(entry.data).hexdigest()[:12]
        self.note(f"store {event.type} {'/'.join(entry.key)} {entry.revision} {text}")
        self.truth.take(event)

    async def _open(self, disk: CrashingDisk) -> None:
        suffixes = Random(self.draw.getrandbits(32))
        backend = await Backend.open(
            clock=self._clock.time,
            timers=self._clock,
            new_uid=lambda: f"00000000-0000-4000-8000-{next(self._uids):012d}",
            new_suffix=lambda: "".join(suffixes.choice(_LETTERS) for _ in range(5)),
            retention=Retention(events=8, seconds=1.0),
            disk=disk,
            writer=self._pump,
            pick=suffixes.randrange,
        )
        self._backend, self._disk = backend, disk
        self._opened.set()

    async def _start_server(self) -> None:
        folder = self._folder / f"disk-{next(self._generations)}"
        folder.mkdir()
        disk = CrashingDisk(folder, self.draw)
        await self._open(disk)
        assert self._backend is not None
        store = self._backend.store
        for entry in sorted(
            (entry for resource in store.resources() for entry in store.scan(resource)), key=lambda one: one.revision
        ):
            self._committed(_Seen("ADDED", entry))
        self.truth.revision = store.revision
        store.listen(self._committed)

    async def _lose_power(self, how: str, down: float) -> None:
        disk, backend = self._disk, self._backend
        if backend is None or disk is None:
            return
        if how == "commit":
            gone = asyncio.Event()
            disk.arm(gone.set)
            with suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), 5.0)
            if self._disk is not disk:
                return  # another failure came first
        disk.cut()
        self.note("the server loses power")
        self._backend, self._disk = None, None
        self._opened.clear()
        for task in sorted(self._serving, key=hash):
            task.cancel()
        image = self._folder / f"disk-{next(self._generations)}"
        disk.image(image)
        self._broke()
        for keeper in vars(backend).values():
            stop = getattr(keeper, "stop", None)
            if stop is not None:
                await stop()
        await backend.service.context.hooks.close()
        await asyncio.sleep(down)
        fresh = CrashingDisk(image, self.draw)
        in_flight = disk.in_flight
        # What the store holds before anybody writes: bootstrap may, so the comparison is of the file as it is read.
        loaded: list[Any] = []
        read = fresh.load

        def load() -> Any:
            found = read()
            loaded.append(found)
            return found

        fresh.load = load  # type: ignore[method-assign]
        try:
            await self._open(fresh)
        except UnisonoError as error:
            self.truth.say(f"the store does not open after a crash: {error}")
            raise
        assert self._backend is not None
        store = self._backend.store
        found = _Held(loaded[0])
        for event in self.truth.compare(found, in_flight, self._acknowledged):
            self._committed(event)
        self.note(f"the server is back at {found.revision}")
        for entry in sorted(
            (entry for resource in store.resources() for entry in store.scan(resource)), key=lambda one: one.revision
        ):
            if entry.revision > found.revision:
                self._committed(_Seen("MODIFIED", entry))
        store.listen(self._committed)

    def _broke(self) -> None:
        self.truth.calm_since = self._loop.time()

    async def _service(self) -> Any:
        await self._opened.wait()
        assert self._backend is not None
        return self._backend.service

    async def _asked(self, work: Awaitable[Any]) -> Any:
        try:
            return await self.serve(work)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise ConnectionResetError("the server went away") from None


@dataclass(slots=True)
class _Seen:
    """An entry that was there when somebody looked."""

    type: str
    entry: Any


class _Held:
    """What was read from a data file, as a store shows it."""

    def __init__(self, loaded: Any) -> None:
        self.revision = loaded.revision
        self._objects = list(loaded.objects)

    def resources(self) -> list[str]:
        """All of them."""
        return sorted({entry.resource for entry in self._objects})

    def scan(self, resource: str) -> list[Any]:
        """Entries of a resource."""
        return [entry for entry in self._objects if entry.resource == resource]
