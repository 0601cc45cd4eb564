"""Looks again and again whether containers run on the CPUs that are theirs, as the kubelet's CPU manager does.

A container applies the CPUs that were its own when it was prepared. If another one was given some of them meanwhile,
and the agent moved all others before this one's command ran, nobody else would notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from unisono.agent.cpus.affinity import move_strays
from unisono.agent.cpus.book import CpuBook
from unisono.agent.limits.watch_loop import WatchLoop
from unisono.agent.machine.limit_groups import LimitGroups
from unisono.kube.clock import Clock

# As often as the kubelet reconciles.
_LOOK_SECONDS = 10.0


class AffinityKeeper:
    """Keeps containers off the CPUs of others, where containers can have CPUs for themselves.

    Args:
        clock: paces the looks.
        book: which containers have which CPUs.
        groups: where processes are listed.
        pods: uids of the pods on this node.
    """

    def __init__(self, clock: Clock, book: CpuBook, groups: LimitGroups, pods: Callable[[], Iterable[str]]) -> None:
        self._book, self._groups, self._pods = book, groups, pods
        self._loop: WatchLoop[str, None] = WatchLoop("cpus", clock, _LOOK_SECONDS, self._look)
        if book.pins:
            self._loop.add("node", None)

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, _: object) -> None:
        for uid in list(self._pods()):
            # Not in another thread: the book must not change between the question and the move.
            move_strays(self._groups, uid, partial(self._book.cpus_of, uid))
            await asyncio.sleep(0)
