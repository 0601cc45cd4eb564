"""One cycle's working state: copies of the arrays that change, jobs and queues, and the plug-ins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from unisono.cluster.interning import SharedObjects
from unisono.cluster.nodes import NodeTable
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import Matrix, ResourceRegistry, Vector
from unisono.cluster.snapshot import Snapshot
from unisono.engine.answers import BoolArray
from unisono.engine.session.book import Book
from unisono.engine.session.domains import Domains
from unisono.engine.session.floating import GangLicenses, floating_limits
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.limit import Allowance
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.queue_limits import set_limits


@dataclass(slots=True)
class _Buffer:
    """The matrix of the last session, None while a session uses it."""

    matrix: Matrix | None = None


def stack(table: NodeTable, memo: SharedObjects) -> Matrix:
    """The changing and fixed amounts of all nodes in one array, so that one placement is one addition to a column.

    The memory of the last session is used again: to fill it costs a fraction of allocating it. Where pods are being
    deleted, what they hold is there a second time and stays as it is: equal columns then mean equal nodes to all.
    """
    rows = len(table.allocatable)
    leaving = table.releasing if table.sums().releasing else table.releasing[:0]
    shape = (4 * rows + 2 + len(leaving), len(table))
    buffer = memo.of(_Buffer, _Buffer)
    matrix, buffer.matrix = buffer.matrix, None
    if matrix is None or matrix.shape != shape:
        matrix = np.empty(shape, dtype=np.int64)
    matrix[3 * rows : 4 * rows] = 0
    matrix[:rows] = table.allocatable
    matrix[rows : 2 * rows] = table.used
    matrix[2 * rows : 3 * rows] = table.releasing
    matrix[4 * rows : 4 * rows + 2] = table.nonzero
    matrix[4 * rows + 2 :] = leaving
    return matrix


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
        domains: pods per topology domain, live.
        matrix: ``[4 R + 2, N]`` one column per node: allocatable, used, releasing, pipelined, nonzero. Where pods were
            being deleted when the session began, R rows more say what these hold. The arrays of ``nodes`` are parts of
            it.
        touched: log of columns that a placement or its undoing has changed; tables of candidates follow it.
        shared: objects that several plug-ins or actions use together in this session, one of each class.
        book: what jobs are promised, which of it counts, and what a job may have now.
        limits_accounts: whether a plug-in limits jobs by whom they run for (`JobState.account_limits`): then jobs of
            one shape fare differently.
        allowances: what may still be made and let in for a job, by all plug-ins that know of such bounds.
        places: how many of so many pods of a job and class nodes could take, if nothing else were there; None outside
            of a cycle. Plug-ins that divide what there is may ask when they are opened: the others are open by then.
        pipelining, releasing: whether anything is pipelined, or was releasing, so far.
        removed_failed: failed pods that this session removes, by queue; limits on evictions count them.
    """

    def __init__(self, snapshot: Snapshot, now: float, seed: int = 0) -> None:
        self.snapshot = snapshot
        self.now = now
        self.seed = seed
        self.registry: ResourceRegistry = snapshot.registry
        self.rows = len(snapshot.registry)
        self.ports: dict[int, list[PodClass]] = {}
        self.touched: list[int] = []
        self.shared = SharedObjects()
        self.limits_accounts = False
        self.allowances: list[Callable[[JobState], Iterable[Allowance]]] = []
        self.places: Callable[[JobState, PodClass, int], int] | None = None
        self.pipelining = False
        self.removed_failed: Counter[str] = Counter()
        self.releasing = snapshot.nodes.sums().releasing
        self.queues: dict[str, QueueState] = {
            name: QueueState(record) for name, record in snapshot.queues.items() if record.known
        }
        set_limits(self.queues, snapshot)
        self.book = Book(snapshot, self.queues, now)
        self.subject: JobState | None = None
        self._jobs: dict[str, JobState] = {}
        if self.registry.floating:
            self._limit_floating()

    def _limit_floating(self) -> None:
        """One limit for each floating resource over all queues, and what jobs hold of them as a whole."""
        limits = floating_limits(self.snapshot, self.now, self.queues)
        for queue in self.queues.values():
            queue.limits = (*queue.limits, *limits)
        for key in sorted(self.snapshot.licensed):
            job = self.job(key)
            if job is not None and job.record.license_vector is not None:
                job.account_limits = (GangLicenses(job, job.record.license_vector, self.registry),)
                self.limits_accounts = True

    def end(self) -> None:
        """Release the session; its largest array is left for the next one.

        What it holds per job goes at once, and not when the garbage collector finds the session.
        """
        if "matrix" in vars(self):
            self.snapshot.memo.of(_Buffer, _Buffer).matrix = self.matrix
        self._jobs.clear()
        vars(self).pop("active", None)

    # ---- nodes

    @cached_property
    def domains(self) -> Domains:
        """See the class; made when first asked for: most pods depend on no others."""
        return Domains(self.snapshot)

    @property
    def columns(self) -> npt.NDArray[np.intp]:
        """``[N]`` the numbers of all columns, read only."""
        return self.snapshot.nodes.columns

    @cached_property
    def matrix(self) -> Matrix:
        """See the class; laid out when first asked for, which a cycle in which nothing waits never does."""
        return stack(self.snapshot.nodes, self.snapshot.memo)

    @cached_property
    def nodes(self) -> NodeView:
        """See the class."""
        return self.view(self.snapshot.nodes.columns, self.matrix)

    def view(
        self, columns: npt.NDArray[np.intp], matrix: Matrix, steps: npt.NDArray[np.intp] | None = None
    ) -> NodeView:
        """A view of ``matrix`` (laid out as `stack` does), whose columns stand for ``columns`` of the table."""
        rows = self.rows
        arrays = (
            matrix[:rows],
            matrix[rows : 2 * rows],
            matrix[2 * rows : 3 * rows],
            matrix[3 * rows : 4 * rows],
            matrix[4 * rows : 4 * rows + 2],
        )
        leaving = matrix[4 * rows + 2 :] if len(matrix) > 4 * rows + 2 else None
        return NodeView(self.snapshot.nodes, columns, arrays, self._port_conflicts, steps, leaving)

    def part(self, columns: npt.NDArray[np.intp]) -> NodeView:
        """A copy of some columns."""
        return self.view(columns, self.matrix[:, columns])

    def change_of(self, pod_class: PodClass, *, pipelined: bool) -> Vector:
        """What placing one task of the class adds to its node's column of the matrix."""
        rows = self.rows
        change = np.zeros(len(self.matrix), dtype=np.int64)
        start = 3 * rows if pipelined else rows
        change[start : start + rows] = pod_class.vector
        change[4 * rows : 4 * rows + 2] = pod_class.nonzero
        return change

    def release(self, pod_class: PodClass, column: int, sign: int) -> None:
        """Count a task of the class as evicted from a node (``sign`` 1), or as staying after all (-1)."""
        rows, node = self.rows, self.matrix[:, column]
        node[2 * rows : 3 * rows] += sign * pod_class.vector
        node[4 * rows : 4 * rows + 2] -= sign * pod_class.nonzero

    @property
    def total(self) -> Vector:
        """``[R]`` sum of allocatable over all nodes, unusable ones included (Volcano's total)."""
        return self.snapshot.nodes.sums().allocatable

    @property
    def usable_total(self) -> Vector:
        """``[R]`` sum of allocatable over nodes that are ready and not cordoned."""
        return self.snapshot.nodes.sums().usable

    @property
    def sharable_total(self) -> Vector:
        """``[R]`` what queues can share: see `unisono.cluster.nodes.NodeSums`.

        Volcano counts every node it has heard of and what pods of other schedulers hold there, so a queue deserves
        resources that it cannot use, and never reclaims what it could use. What pods of queues still hold on a
        cordoned or a tainted node stays in the total, because it is in the queues' allocated sums as well.
        """
        return self.snapshot.nodes.sums().sharable

    @property
    def promisable_total(self) -> Vector:
        """``[R]`` what jobs may be promised whose pods are not made yet: whatever the taints, and pods of others."""
        return self.snapshot.nodes.sums().promisable

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

    @cached_property
    def active(self) -> list[JobState]:
        """Jobs with pending tasks or not yet running, in order of their keys."""
        states, jobs, active_jobs = self._jobs, self.snapshot.jobs, list[JobState]()
        for key in sorted(self.snapshot.active):
            record = jobs.get(key)
            queue = self.queues.get(record.queue) if record is not None and record.known else None
            if record is not None and queue is not None:
                state = states.get(key) or JobState(record, queue, self.snapshot.priority_of(record))
                states[key] = state
                active_jobs.append(state)
        return active_jobs

    def opened(self) -> Mapping[str, JobState]:
        """Jobs that have been asked for in this session."""
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
        protocol == theirs and port == their_port and (address == their_address or not address or not their_address)
        for protocol, address, port in one.host_ports
        for theirs, their_address, their_port in other.host_ports
    )
