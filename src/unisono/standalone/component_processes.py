"""The parts that run as own processes beside an API server: scheduler, controllers, simulated nodes.

Each process imports what it runs and nothing of the others: a component that restarts must be back soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from unisono.api.pod_limit import MOST_PODS
from unisono.errors import ConfigError
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK
from unisono.kube.pace import Backoff
from unisono.kube.reflector import ReflectorStatistics
from unisono.standalone.component import MakePart, Part, PartEnded, keep_running

if TYPE_CHECKING:
    from unisono.agent.simulated.specs import NodeSpec
    from unisono.history.database import Bounds
    from unisono.history.storage import Storage
    from unisono.scheduler.settings import ConfigSource


@dataclass(frozen=True, slots=True)
class Recording:
    """A history that is kept beside the controllers.

    Attributes:
        storage: where.
        bounds: how much of it.
    """

    storage: Storage
    bounds: Bounds


class _Controllers:
    """All controllers on shared informers."""

    def __init__(
        self,
        client: Client,
        registry: CollectorRegistry,
        scheduler_names: Sequence[str],
        default_queue: str,
        foreign_kinds: Sequence[str],
        most_pods: int,
        history: Recording | None,
        *,
        fleet: bool = False,
    ) -> None:
        from unisono.controllers.execution import RETRIES
        from unisono.controllers.keeper import ObjectKeeper
        from unisono.controllers.registry import COMPONENT, all_controllers
        from unisono.kube.controller import Manager
        from unisono.kube.events import EventRecorder
        from unisono.kube.fetching import NetworkFetch, NetworkProber

        self._recorder = EventRecorder(client, COMPONENT)
        keeper = ObjectKeeper(client, self._recorder, most_pods=most_pods, registry=registry)
        self._manager = Manager(client, keeper=keeper, retries=RETRIES)
        self._controllers = all_controllers(
            self._recorder,
            scheduler_names=scheduler_names,
            default_queue=default_queue,
            prober=NetworkProber(),
            fetch=NetworkFetch(),
            foreign_kinds=foreign_kinds,
            registry=registry,
            runs_jobs=not fleet,
        )
        self.ready: asyncio.Event = self._manager.ready
        self._client, self._history = client, history

    async def run(self) -> None:
        """Reconcile until cancelled, and beside that write down what ran."""
        recording = None
        if self._history is not None:
            recording = asyncio.create_task(
                keep_running("history", self._record, SYSTEM_CLOCK, Backoff(base=1.0, cap=60.0), lambda: False)
            )
        try:
            await self._manager.run(self._controllers)
        finally:
            if recording is not None:
                # It stores what it knows before another leader takes over.
                recording.cancel()
                await asyncio.gather(recording, return_exceptions=True)
            await self._recorder.close()

    async def _record(self) -> None:
        """One time of the history; jobs never wait for it.

        Raises:
            PartEnded: the database cannot be used now.
        """
        from unisono.history.recorder import Recorder
        from unisono.history.storage import HistoryError, NotStored

        assert self._history is not None
        try:
            await Recorder(self._client, self._history.storage, bounds=self._history.bounds).run()
        except (HistoryError, NotStored, ConfigError) as error:
            raise PartEnded(str(error)) from error

    def unready(self) -> list[str]:
        """It has nothing to say beyond its watches."""
        return []

    def streams(self) -> Mapping[str, ReflectorStatistics]:
        """By resource."""
        watches: dict[str, ReflectorStatistics] = self._manager.informers.statistics()
        return watches


def scheduler_part(
    source: ConfigSource,
    scheduler_names: Sequence[str],
    default_queue: str,
    *,
    record: Path | None = None,
    fleet: bool = False,
    **options: Any,
) -> MakePart:
    """Schedules the pods of ``scheduler_names``; ``options`` are further ones of ``Scheduler``.

    With ``fleet`` it is a hub's, which sends jobs to members; their gangs are looked after there.
    Each time that it runs, it begins a recording in ``record``, or in a file of that name with a number.
    """
    from unisono.scheduler.explanations import beside_cycles
    from unisono.scheduler.recording import recorder_to
    from unisono.scheduler.scheduler import Scheduler

    part: Callable[..., Scheduler] = Scheduler
    if fleet:
        from unisono.fleet.hub import Hub
        from unisono.install.manifests import manifests_for_values

        part = partial(Hub, own_chart=manifests_for_values)
        options.pop("gang_patience", None)

    def make(client: Client, registry: CollectorRegistry) -> Part:
        if not fleet and record is None:  # a recording has the verdicts of its cycles
            options["explanations"] = beside_cycles()
        return part(
            client,
            source,
            registry=registry,
            scheduler_names=scheduler_names,
            default_queue=default_queue,
            recorder=None if record is None else recorder_to(record),
            **options,
        )

    return make


def controllers_part(
    scheduler_names: Sequence[str],
    default_queue: str,
    foreign_kinds: Sequence[str] = (),
    most_pods: int = MOST_PODS,
    history: Recording | None = None,
    *,
    fleet: bool = False,
) -> MakePart:
    """Runs every controller but those of ``foreign_kinds``; raises ConfigError when one of these is unknown.

    ``most_pods`` is the number of pods that one object may ask for. With ``fleet`` those that make pods are a member's.
    """
    from unisono.controllers.training.registry import check_kinds

    check_kinds(foreign_kinds)
    return lambda client, registry: _Controllers(
        client, registry, scheduler_names, default_queue, foreign_kinds, most_pods, history, fleet=fleet
    )


def simulated_part(specs: Sequence[NodeSpec], heartbeat: float) -> MakePart:
    """Registers simulated nodes and plays their pods; ``heartbeat`` is the time in seconds between two renewals."""
    from unisono.agent.simulated.nodes import SimulatedNodes

    return lambda client, registry: SimulatedNodes(client, specs, heartbeat=heartbeat)


def numa_part(node_name: str, directory: Path, config: Path | None, system: Path) -> MakePart:
    """Describes the CPUs of a node on which a kubelet runs; every node has its own, and none leads.

    ``directory`` and ``config`` are the kubelet's, ``system`` is the kernel's folder of CPUs and NUMA nodes.
    """
    from unisono.agent.cpus.numatopology import KubeletPlace, NumaExporter

    place = KubeletPlace(directory, config, system)
    return lambda client, registry: NumaExporter(client, node_name, place)


def webhook_part(
    serve: str, namespace: str, configuration: str, also: Sequence[str] = (), most_pods: int = MOST_PODS
) -> MakePart:
    """Answers admission reviews at ``HOST:PORT``.

    ``also`` are further names of the server, ``most_pods`` is the number of pods that one object may ask for.

    Raises:
        ConfigError: ``serve`` is no address.
    """
    from unisono.kube.http import HttpClient
    from unisono.standalone.component import parse_listen
    from unisono.webhook.server import WebhookServer

    host, port = parse_listen(serve)

    def make(client: Client, registry: CollectorRegistry) -> Part:
        # It stands by for no other replica, so its client is not fenced.
        assert isinstance(client, HttpClient)
        return WebhookServer(
            client,
            registry,
            host=host,
            port=port,
            namespace=namespace,
            configuration=configuration,
            also=also,
            most_pods=most_pods,
        )

    return make
