"""What a control plane of one machine does besides serving: scheduler, controllers, simulated nodes, on any client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import NodeSpec
from unisono.api.pod_limit import MOST_PODS
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.execution import RETRIES
from unisono.controllers.keeper import ObjectKeeper
from unisono.controllers.metrics import MetricError
from unisono.controllers.registry import COMPONENT, all_controllers
from unisono.history.database import Bounds
from unisono.history.recorder import Recorder
from unisono.history.sqlite import SqliteFile
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK
from unisono.kube.controller import Manager
from unisono.kube.events import EventRecorder
from unisono.kube.fetching import NetworkFetch, NetworkMetrics, NetworkProber
from unisono.scheduler.explanations import beside_cycles
from unisono.scheduler.recording import recorder_to
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import ConfigSource
from unisono.standalone.component import PartMetrics

# There is no other scheduler here: pods that name Kubernetes' own would wait for ever.
SCHEDULER_NAMES = ("volcano", "unisono", "default-scheduler")

Start = Callable[[], Awaitable[None]]


def _nobody() -> None:
    pass


class Work:
    """The parts, each with a client of its own.

    Args:
        client_of: makes a client for a writer of that name; it is closed when the part ends.
        source: the scheduler's configuration.
        nodes: simulated nodes.
        metrics: gets the metrics of the scheduler's latest start.
        changed: called when a part has begun or become ready.
        most_pods: pods that one object may ask for.
        fleet: the scheduler is a hub's, and jobs run in members instead of here.
        record: file in which the scheduler writes down what it sees and decides.
        history: file of what ran.
        history_days: how long jobs that ended are kept there one by one.
    """

    def __init__(
        self,
        client_of: Callable[[str], Client],
        source: ConfigSource,
        nodes: Sequence[NodeSpec],
        metrics: PartMetrics,
        changed: Callable[[], None] = _nobody,
        *,
        most_pods: int = MOST_PODS,
        fleet: bool = False,
        record: Path | None = None,
        history: Path | None = None,
        history_days: float = 0.0,
    ) -> None:
        self._record = record
        self._history, self._history_days = history, history_days
        self._most_pods, self._fleet = most_pods, fleet
        self._client_of, self._source, self._nodes, self._metrics = client_of, source, nodes, metrics
        self._changed = changed
        self.parts: dict[str, Start] = {"controllers": self._controllers, "scheduler": self._scheduler}
        if nodes:
            self.parts["simulated nodes"] = self._simulated
        self._ready = {name: asyncio.Event() for name in self.parts}
        if history is not None:
            # Jobs do not wait for what is written about them.
            self.parts["history"] = self._recording

    def unready(self) -> list[str]:
        """Names of the parts that have not taken up their work yet."""
        return [name for name, ready in self._ready.items() if not ready.is_set()]

    async def _scheduler(self) -> None:
        client = self._client_of("unisono-scheduler")
        registry = self._metrics.renew("scheduler")
        recorder = None if self._record is None else recorder_to(self._record)
        beside = beside_cycles() if recorder is None else None  # a recording has the verdicts of its cycles
        make: Callable[..., Scheduler] = partial(Scheduler, any_release=True, explanations=beside)
        if self._fleet:
            from unisono.fleet.hub import Hub
            from unisono.install.manifests import manifests_for_values

            make = partial(Hub, own_chart=manifests_for_values, any_release=True)
        scheduler = make(client, self._source, registry=registry, scheduler_names=SCHEDULER_NAMES, recorder=recorder)
        await self._run("scheduler", scheduler.working, scheduler.run(), client)

    async def _controllers(self) -> None:
        client = self._client_of(COMPONENT)
        recorder = EventRecorder(client, COMPONENT)
        registry = self._metrics.renew("controllers")
        keeper = ObjectKeeper(client, recorder, most_pods=self._most_pods, registry=registry)
        manager = Manager(client, keeper=keeper, retries=RETRIES)
        everywhere = all_controllers(
            recorder,
            scheduler_names=SCHEDULER_NAMES,
            prober=NetworkProber(),
            fetch=NetworkFetch(),
            registry=registry,
            runs_jobs=not self._fleet,
            all_reviewed=True,
        )

        async def reconcile() -> None:
            try:
                own = builtin_controllers(recorder, NetworkMetrics(MetricError), runs_pods=not self._fleet)
                await manager.run([*everywhere, *own])
            finally:
                await recorder.close()

        await self._run("controllers", manager.ready, reconcile(), client)

    async def _simulated(self) -> None:
        client = self._client_of("unisono-simulated-nodes")
        simulated = SimulatedNodes(client, self._nodes, SYSTEM_CLOCK, volumes=True)
        await self._run("simulated nodes", simulated.ready, simulated.run(), client)

    async def _recording(self) -> None:
        assert self._history is not None
        client = self._client_of("unisono-history")
        try:
            bounds = Bounds(detail_days=self._history_days, days=max(Bounds().days, self._history_days))
            await Recorder(client, SqliteFile(self._history), bounds=bounds).run()
        finally:
            await client.close()

    async def _run(self, name: str, ready: asyncio.Event, part: Awaitable[None], client: Client) -> None:
        self._ready[name] = ready
        self._changed()
        waiting = asyncio.create_task(self._tell(ready))
        try:
            await part
        finally:
            waiting.cancel()
            await client.close()

    async def _tell(self, ready: asyncio.Event) -> None:
        await ready.wait()
        self._changed()
