"""One cycle's working state: copies of the arrays that change, jobs and queues, and the plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import ResourceRegistry, Vector
from unisono.cluster.snapshot import Snapshot
from unisono.engine.answers import BoolArray
from unisono.engine.job_state import JobState, QueueState
from unisono.engine.view import NodeView

__all__ = ["JobState", "QueueState", "Session"]


class Session:
    """What plug-ins see as ``session``.

    Attributes:
        snapshot: the cluster as it was; never changed.
        now: seconds since the epoch.
        seed: for plug-ins that want randomness.
        registry: resource names and their rows.
        nodes: all nodes, live: its arrays follow what the session decides.
        queues: known queues by name.
        total: ``[R]`` sum of allocatable over all nodes.
        usable_total: the same over nodes that are ready and not cordoned.
        subject: the job that is being placed, for plug-ins whose scope is QUEUE or JOB.

    """

    def __init__(self, snapshot: Snapshot, now: float, seed: int = 0) -> None:
        self.snapshot = snapshot
        self.now = now
        self.seed = seed
        self.registry: ResourceRegistry = snapshot.registry
        table = snapshot.nodes
        rows, size = table.allocatable.shape
        self.pipelined = np.zeros((rows, size), dtype=np.int64)
        arrays = (
            table.allocatable,
            table.used.copy(),
            table.releasing.copy(),
            self.pipelined,
            table.nonzero.copy(),
        )
        self.columns: npt.NDArray[np.intp] = np.arange(size, dtype=np.intp)
        self.ports: dict[int, list[PodClass]] = {}
        self.nodes = NodeView(table, self.columns, arrays, self._port_conflicts)
        self.queues: dict[str, QueueState] = {
            name: QueueState(record) for name, record in snapshot.queues.items() if record.known
        }
        self.subject: JobState | None = None
        self._jobs: dict[str, JobState] = {}

    @property
    def total(self) -> Vector:
        """``[R]`` sum of allocatable over all nodes, unusable ones included (Volcano's total)."""
        return self.nodes.allocatable.sum(axis=1)

    @property
    def usable_total(self) -> Vector:
        """``[R]`` sum of allocatable over nodes that are ready and not cordoned."""
        table = self.nodes.table
        return self.nodes.allocatable[:, table.ready & ~table.unschedulable].sum(axis=1)

    # ---- jobs

    def job(self, key: str) -> JobState | None:
        """The job of a PodGroup, None when the PodGroup or its queue is unknown."""
        state = self._jobs.get(key)
        if state is None:
            record = self.snapshot.jobs.get(key)
            queue = self.queues.get(record.queue) if record is not None and record.known else None
            if record is None or queue is None:
                return None
            state = self._jobs[key] = JobState(record, queue, self.snapshot.priority_of(record))
        return state

    @property
    def jobs(self) -> Iterator[JobState]:
        """All jobs. With many running jobs this is long; sums over them are kept in `QueueState.record`."""
        return (state for key in self.snapshot.jobs if (state := self.job(key)) is not None)

    @property
    def active(self) -> Iterator[JobState]:
        """Jobs with pending tasks or not yet running, in no particular order."""
        return (state for key in self.snapshot.active if (state := self.job(key)) is not None)

    def touched(self) -> Mapping[str, JobState]:
        """Jobs that somebody has asked for in this session."""
        return self._jobs

    # ---- host ports

    def _port_conflicts(self, pod_class: PodClass, columns: npt.NDArray[np.intp]) -> BoolArray:
        taken = np.zeros(len(columns), dtype=np.bool_)
        if not pod_class.host_ports:
            return taken
        held = self.snapshot.port_holders
        names = self.nodes.table.names
        for position, column in enumerate(columns.tolist()):
            holders = [*held.get(names[column], {}).values(), *self.ports.get(column, ())]
            taken[position] = any(_ports_clash(pod_class, other) for other in holders)
        return taken


def _ports_clash(one: PodClass, other: PodClass) -> bool:
    """Same protocol and port, and the same address, an empty one meaning every address."""
    return any(
        protocol == theirs
        and port == their_port
        and (address == their_address or not address or not their_address)
        for protocol, address, port in one.host_ports
        for theirs, their_address, their_port in other.host_ports
    )
