"""A control plane in this process on virtual time, empty or a copy of a cluster, with all its components.

What happens in minutes happens here in a fraction of a second of CPU, and nothing of it anywhere else. A copy of a
cluster keeps names, UIDs and status; its pods start when they are bound and go when they are deleted, whatever their
nodes do. Webhooks of others are not asked, and Secrets, ConfigMaps and events are not copied.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry

from unisono.agent.lifecycle import decide as planned
from unisono.agent.simulated.specs import simulated_view
from unisono.agent.status import pod_status, status_patch
from unisono.agent.volumes.provisioner import Imagined, VolumeProvisioner
from unisono.api.core import Node
from unisono.api.groups.access import GROUP as RBAC
from unisono.api.groups.admission_registration import WEBHOOK_KINDS
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS, MACHINES
from unisono.api.keys import HOSTNAME
from unisono.api.kind import Kind
from unisono.api.kind_families import FLEET_KINDS
from unisono.api.kinds import ALL_KINDS, CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, SECRETS
from unisono.api.pod_states import has_ended
from unisono.api.resources import to_wire
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.apiserver.storage.database import Loaded
from unisono.apiserver.storage.objects import Event, StoredEntry
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.execution import RETRIES
from unisono.controllers.keeper import ObjectKeeper
from unisono.controllers.node_scaling.decide import Pool
from unisono.controllers.node_scaling.provisioning import pool_of
from unisono.controllers.nodes import NodeLifecycleController
from unisono.controllers.registry import COMPONENT, all_controllers
from unisono.engine.verdict import Asked
from unisono.errors import AlreadyExists, NotFound, UnisonoError, from_status
from unisono.kube.clock import SYSTEM_CLOCK, Timer
from unisono.kube.controller import Context, Controller, Manager
from unisono.kube.events import EventRecorder
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load
from unisono.kube.transport import Transport
from unisono.scheduler.feed import KINDS as SCHEDULED_BY
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import FixedConfig
from unisono.standalone.background import SCHEDULER_NAMES

# An event loop whose time stands still while there is work, and jumps to the next timer when there is none.

# How long the loop waits for a thread that works, before it looks again (seconds).
_LOOK_SECONDS = 0.05
_TICK_SECONDS = 1e-6


class _Selector(selectors.DefaultSelector):
    """Hands every wait for a timer to the loop."""

    wait: Callable[[float], bool] = staticmethod(lambda _: False)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As the selector of the system; a wait that the loop takes for itself returns at once."""
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if ready or self.wait(timeout):
            return ready
        return super().select(min(timeout, _LOOK_SECONDS))


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its ``time`` begins at 0. Set ``busy`` to a function that tells whether a thread works for the loop."""

    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        selector.wait = self._skip
        self.busy: Callable[[], bool] = lambda: False
        self._now, self._threads = 0.0, 0

    def time(self) -> float:
        """Seconds since the start, by the virtual clock."""
        # The base class asks before this one is complete.
        return getattr(self, "_now", 0.0)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """As in the base class; time stands still meanwhile."""
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        self._threads -= 1

    def _skip(self, seconds: float) -> bool:
        if self._threads or self.busy():
            return False
        # A little more than was asked for: a rounding error must not leave a timer due for ever at the same moment.
        self._now += seconds + _TICK_SECONDS
        return True


class LoopClock:
    """``kube.clock.Clock`` by the running loop's time; ``start``: the time when the loop began, by default now."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: float | None = None) -> None:
        self._loop, self._start = loop, SYSTEM_CLOCK.time() if start is None else start

    def time(self) -> float:
        """Seconds since 1970; the loop began now."""
        return self._start + self._loop.time()

    def monotonic(self) -> float:
        """Seconds since the loop began."""
        return self._loop.time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` after ``seconds``."""
        return self._loop.call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for ``seconds``."""
        await asyncio.sleep(seconds)


# Virtual seconds: nothing was written for so long, and how long that is waited for.
_QUIET_SECONDS = 5
_LONGEST_SECONDS = 90
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_PAGE = "500"
_PODS = 110
"""Pods that a new machine takes."""
_LEFT_OUT: Final = (EVENTS, SECRETS, LEASES, CONFIG_MAPS, *WEBHOOK_KINDS, *FLEET_KINDS)
_MACHINES: Final[tuple[Kind[Any], ...]] = (MACHINE_DEPLOYMENTS, MACHINES)
COPIED: Final = (*(kind for kind in ALL_KINDS if kind not in _LEFT_OUT and kind.group != RBAC), *_MACHINES)
"""Kinds of which a copy has the objects."""
# Names of a copy's new objects are none that the cluster has.
_FIRST_OF_COPY = 10_000_000


class Shadow:
    """A control plane; made by `opened`.

    Attributes:
        client: goes through the API as a user's requests do.
    """

    def __init__(
        self, backend: Backend, client: HttpClient, clock: LoopClock, engine: Mapping[str, Any], *, copy: bool
    ) -> None:
        self.backend, self.client, self.clock = backend, client, clock
        self._engine, self._copy = engine, copy
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def end(self) -> None:
        """Stop the components."""
        for name in list(self._tasks):
            await self.kill(name)

    async def kill(self, name: str) -> None:
        """End one component as a crash does."""
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def start(self, name: str, config: Any = None, asked: Asked | None = None) -> None:
        """Start ``scheduler`` or ``controllers``.

        Args:
            name: which of them.
            config: the scheduler's, by default the default one.
            asked: the only jobs that the scheduler explains; None: all.
        """
        self.run(name, self._scheduler(config, asked) if name == "scheduler" else self._controllers())

    def run(self, name: str, part: Coroutine[Any, Any, Any]) -> None:
        """Run a component of another kind until the shadow ends, or it is killed."""
        self._tasks[name] = asyncio.create_task(part, name=name)

    async def _controllers(self) -> None:
        recorder = EventRecorder(self.backend.client(field_manager=COMPONENT), COMPONENT, clock=self.clock)
        registry = CollectorRegistry()
        client = self.backend.client(field_manager=COMPONENT)
        keeper = ObjectKeeper(client, recorder, registry=registry, clock=self.clock)
        controllers: list[Controller] = [
            *all_controllers(recorder, scheduler_names=SCHEDULER_NAMES, registry=registry),
            *builtin_controllers(recorder),
        ]
        if self._copy:  # no heartbeat of its nodes comes here
            controllers = [one for one in controllers if not isinstance(one, NodeLifecycleController)]
            controllers += [_Kubelets(), _Cloud(), VolumeProvisioner(recorder, lambda _: True, Imagined())]
        try:
            await Manager(client, clock=self.clock, keeper=keeper, retries=RETRIES).run(controllers)
        finally:
            await recorder.close(timeout=0.0)

    async def _scheduler(self, config: Any, asked: Asked | None) -> None:
        await Scheduler(
            self.backend.client(field_manager="unisono-scheduler"),
            FixedConfig(config),
            self.clock,
            registry=CollectorRegistry(),
            scheduler_names=SCHEDULER_NAMES,
            asked=asked,
            runner=_at_once,
            **self._engine,
        ).run()

    async def settle(self) -> None:
        """Let virtual time pass until nothing has been written for a while."""
        quiet, revision = 0, -1
        for _ in range(_LONGEST_SECONDS):
            await asyncio.sleep(1)
            now = self.backend.store.revision
            quiet, revision = (quiet + 1 if now == revision else 0), now
            if quiet >= _QUIET_SECONDS:
                return


@asynccontextmanager
async def opened(
    folder: Path, *, now: float, objects: Sequence[Mapping[str, Any]] | None = None, **engine: Any
) -> AsyncIterator[Shadow]:
    """A control plane without components so far; the running loop is a `VirtualLoop`.

    Args:
        folder: for keys; may be used by one after another.
        now: its time, seconds since 1970.
        objects: what it is a copy of, as `read_cluster` answers; None: it is empty.
        engine: what of the scheduler's ``decide`` and ``explanations`` stands in for the usual.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock = LoopClock(loop, start=now - loop.time())
    first = 1 if objects is None else _FIRST_OF_COPY
    uids, suffixes = itertools.count(first), itertools.count(first)
    backend = await Backend.open(
        clock=clock.time,
        timers=clock,
        new_uid=lambda: f"00000000-0000-4000-8000-{next(uids):012d}",
        new_suffix=lambda: _suffix(next(suffixes)),
        disk=None if objects is None else _Memory(objects),
    )
    loop.busy = lambda: backend.store.pending > 0
    socket = folder / "socket" / "api"
    server = ApiServer(backend.service, data_dir=folder, own_socket=socket, clock=clock.time)
    try:
        await server.start()
        config = load(server.kubeconfig_path)
        client = HttpClient(config, transport=Transport(config, socket=socket, clock=clock, program="kubectl"))
        made = Shadow(backend, client, clock, engine, copy=objects is not None)
        try:
            yield made
        finally:
            await made.end()
            await client.close()
    finally:
        await server.stop()
        await backend.close()


class TooLarge(UnisonoError):
    """A cluster has more objects than a copy is made of."""


async def read_cluster(client: HttpClient, most: int, kinds: Iterable[Kind[Any]] = COPIED) -> list[dict[str, Any]]:
    """All objects of some kinds, in the words of the server.

    Args:
        client: the server.
        most: how many objects are read.
        kinds: by default all that a copy has.

    Raises:
        TooLarge: there are more.
        ApiError: the user may not list what a scheduler goes by (other kinds are left out then), or the server cannot
            answer.
    """
    objects: list[dict[str, Any]] = []
    await asyncio.gather(*(_list(client, kind, objects, most) for kind in kinds))
    for item in objects:
        item["metadata"].pop("managedFields", None)
    return objects


def without_lost_owners(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of a copy: its garbage collector must not take what kinds own that it does not have."""
    uids = {item["metadata"].get("uid") for item in objects}
    for meta in (item["metadata"] for item in objects):
        if "ownerReferences" in meta:
            meta["ownerReferences"] = [one for one in meta["ownerReferences"] if one.get("uid") in uids]
    return objects


async def _list(client: HttpClient, kind: Kind[Any], found: list[dict[str, Any]], most: int) -> None:
    params = {"limit": _PAGE}
    while True:
        status, _, body = await client.request("GET", kind.path(None), params=params)
        if status == 403 and kind in SCHEDULED_BY:
            raise from_status(msgspec.json.decode(body), status)
        if status >= 300:
            return
        page = msgspec.json.decode(body)
        found += [{"apiVersion": kind.api_version, "kind": kind.kind, **one} for one in page.get("items") or ()]
        meta = page.get("metadata") or {}
        more, left = meta.get("continue"), meta.get("remainingItemCount") or 0
        if len(found) + left > most:
            raise TooLarge(f"the cluster has more than {most} objects")
        if not more:
            return
        params = {"limit": _PAGE, "continue": more}


class _Memory:
    """What a store begins with, and nothing that is kept."""

    def __init__(self, objects: Sequence[Mapping[str, Any]]) -> None:
        plural = {(kind.api_version, kind.kind): kind.resource for kind in COPIED}
        self._entries = []
        for number, one in enumerate(objects, start=1):
            meta = {**one["metadata"], "resourceVersion": str(number)}
            key = plural[one["apiVersion"], one["kind"]], meta.get("namespace", ""), meta["name"]
            self._entries.append(StoredEntry(*key, number, msgspec.json.encode({**one, "metadata": meta})))

    def open(self) -> None:
        """There is no file."""

    def load(self) -> Loaded:
        """The objects."""
        return Loaded(revision=len(self._entries), objects=sorted(self._entries, key=lambda entry: entry.key))

    def apply(self, events: Sequence[Event], *, compact_to: int = 0) -> None:
        """Nothing is kept."""

    def backup(self, path: Path) -> None:
        """There is none."""
        raise OSError(f"a copy in memory is not backed up to {path}")

    def close(self) -> None:
        """There is no file."""


class _Kubelets(Controller):
    """Of a copy: pods that are bound start at once, and pods that are deleted go at once."""

    name = "kubelets"

    def setup(self, context: Context) -> None:
        """Watch pods; those that had begun before go on as they are."""
        self._pods = context.watch(PODS)

    async def reconcile(self, key: str) -> None:
        """Start or end the pod."""
        pod = self._pods.get(key)
        if pod is None or not pod.spec.node_name:
            return
        meta = pod.metadata
        try:
            if meta.deletion_timestamp is not None:
                await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)
            elif not pod.status.start_time and not has_ended(pod):
                await self._begin(pod)
        except NotFound:
            return

    async def _begin(self, pod: Any) -> None:
        now, meta = self._clock.time(), pod.metadata
        view = simulated_view(pod, now, now)
        status = pod_status(
            pod, view, planned(view, now), pod_ip="198.18.0.1", host_ip="127.0.0.1", start_time=now, now=now
        )
        patch = {"status": status_patch(pod, status)}
        await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")


class _Cloud(Controller):
    """Of a copy: machines that are asked for are nodes at once; none goes."""

    name = "cloud"

    def setup(self, context: Context) -> None:
        """Watch MachineDeployments, where there are any."""
        self._groups = context.watch(MACHINE_DEPLOYMENTS, optional=True)

    async def reconcile(self, key: str) -> None:
        """Make the nodes that its group lacks."""
        group = self._groups.get(key)
        pool = pool_of(group) if group is not None else None
        if group is None or pool is None:
            return
        meta, ready = group.metadata, group.status.ready_replicas or 0
        for number in range(ready, pool.replicas):
            node = _machine(f"{meta.name}-machine-{number}", pool)
            with suppress(AlreadyExists):
                await self._client.create(NODES, node)
            await self._client.patch(
                NODES, node.metadata.name, {"status": msgspec.to_builtins(node.status)}, subresource="status"
            )
        if pool.replicas > ready:
            status = {"status": {"replicas": pool.replicas, "readyReplicas": pool.replicas}}
            await self._client.patch(
                MACHINE_DEPLOYMENTS, meta.name, status, namespace=meta.namespace, subresource="status"
            )


def _machine(name: str, pool: Pool) -> Node:
    """The node of a new machine."""
    amounts = to_wire({"pods": _PODS, **pool.offers})
    value = {
        "metadata": {"name": name, "labels": {**pool.labels, HOSTNAME: name}},
        "spec": {"taints": [msgspec.to_builtins(each) for each in pool.taints]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    return msgspec.convert(value, Node)


async def _at_once(work: Callable[..., Any], *given: Any) -> Any:
    """In this thread, so that its clock of CPU time has all that a shadow takes."""
    return work(*given)


def _suffix(number: int) -> str:
    letters = ""
    for _ in range(5):
        number, at = divmod(number, len(_LETTERS))
        letters += _LETTERS[at]
    return letters
