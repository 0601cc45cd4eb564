"""The Numatopology object of a node on which a kubelet runs, for schedulers that must know its CPUs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from unisono.agent.cpus.described import bring_up_to_date, numatopology, spec_of
from unisono.agent.cpus.kubelet import CONFIG_FILE, STATE_FILE, KubeletConfig, read_config, read_state
from unisono.agent.cpus.sysfs import SYSTEM, online_cpus, read_cpus
from unisono.api.keys import APP_PART_OF
from unisono.api.kinds import NODES, NUMATOPOLOGIES
from unisono.api.nodeinfo import Numatopology, NumatopologySpec
from unisono.errors import AgentError, AlreadyExists, ApiError, NotFound
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.reflector import ReflectorStatistics

_log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 2.0
REFRESH_SECONDS: Final = 300.0
"""From one look at the object to the next, for what others did to it, such as deleting it."""
OURS: Final = {APP_PART_OF: "unisono"}
# Volcano's resource-exporter writes the time into it with each change.
_ANOTHER_WRITES: Final = "timestamp"


@dataclass(frozen=True, slots=True)
class KubeletPlace:
    """Where a kubelet keeps its files.

    Attributes:
        directory: of its state, ``/var/lib/kubelet``.
        config: its configuration; None for ``config.yaml`` there.
        system: the kernel's folder of CPUs and NUMA nodes.

    """

    directory: Path
    config: Path | None = None
    system: Path = SYSTEM

    def read(self) -> NumatopologySpec:
        """What the node's object is to say now.

        Raises:
            AgentError: a file cannot be read.

        """
        detail = read_cpus(self.system, online_cpus(self.system))
        if not detail:
            raise AgentError(f"{self.system}: the kernel does not tell of any CPU")
        config = self.config or self.directory / CONFIG_FILE
        # A kubelet that has no such file runs with what its command line and its defaults say.
        known = read_config(config) if self.config or os.path.lexists(config) else KubeletConfig()
        return spec_of(read_state(self.directory / STATE_FILE, known, detail))


class NumaExporter:
    """Writes the object when something has changed; stands aside where another exporter writes it.

    Args:
        client: the API.
        name: of the node.
        place: where its kubelet keeps its files.
        clock: paces the looks.

    """

    def __init__(self, client: Client, name: str, place: KubeletPlace, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client, self._name, self._place, self._clock = client, name, place, clock
        self.ready = asyncio.Event()
        self._problem = ""
        self._aside = False
        self._written: NumatopologySpec | None = None
        # The exporters of many nodes start at once, and need not come back at once.
        self._due = clock.monotonic() + REFRESH_SECONDS * (zlib.crc32(name.encode()) % 1000) / 1000

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            problem = ""
            try:
                await self._look()
            except (AgentError, ApiError) as error:
                problem = str(error)
            if problem and problem != self._problem:
                _log.warning("numatopology.not_written", node=self._name, problem=problem)
            self._problem = problem
            self.ready.set()
            await self._clock.sleep(LOOK_SECONDS)

    def streams(self) -> Mapping[str, ReflectorStatistics]:
        """It watches nothing."""
        return {}

    def unready(self) -> list[str]:
        """Why the object is not as it should be."""
        return [self._problem] if self._problem else []

    async def _look(self) -> None:
        wanted, now = self._place.read(), self._clock.monotonic()
        if now < self._due:
            if self._aside or wanted == self._written:
                return
        else:
            self._due = now + REFRESH_SECONDS
        try:
            found = await self._client.get(NUMATOPOLOGIES, self._name)
        except NotFound:
            await self._create(wanted)
        else:
            if self._stands_aside(found):
                return
            await bring_up_to_date(self._client, found, wanted)
        self._written, self._aside = wanted, False

    async def _create(self, wanted: NumatopologySpec) -> None:
        node = await self._client.get(NODES, self._name)
        # One that came in between is looked at the next time.
        with contextlib.suppress(AlreadyExists):
            await self._client.create(NUMATOPOLOGIES, numatopology(node, wanted, OURS))

    def _stands_aside(self, found: Numatopology) -> bool:
        aside, before = not _ours(found), self._aside
        self._aside = aside
        if aside and not before:
            way_out = f"where it is gone: kubectl delete numatopology {self._name}"
            _log.warning("numatopology.of_another_exporter", node=self._name, way_out=way_out)
        return aside


def _ours(found: Numatopology) -> bool:
    meta = found.metadata
    return OURS.items() <= (meta.labels or {}).items() and _ANOTHER_WRITES not in (meta.annotations or {})
