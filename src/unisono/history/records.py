"""What is remembered of jobs, pods and queues (pure).

Times are whole milliseconds since 1970, amounts are in engine units (``unisono.api.resources``). Whole numbers, so that
sums over intervals are exact in whatever order they are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from unisono.api.conditions import is_pod_failure, is_timeout

CLUSTER: Final = ""
"""Stands for the whole cluster where a queue is named."""

DELETED: Final = "Deleted"
"""Outcome of a job, and end of a pod, whose object was deleted before it ended."""

EVICTED: Final = "Evicted"
"""End of a pod that had to go for the sake of others, or of its node."""

MOVED: Final = "Moved"
"""End of an interval whose pod goes on with another queue or another size."""

# Exit codes of containers that are ended by SIGTERM, then SIGKILL.
_SIGNALS = (143, 137)
# Parts of a resource's name that are a measure of a card, and no card.
_PARTS_OF_CARDS = ("memory", "mem", "cores", "core", "percentage", "milli")
HOUR = 3_600_000
"""Milliseconds."""

ENDED = "ended/"
EVICTIONS = "evictions"
FAILURES = "failures"


class Link(msgspec.Struct):
    """A live object that leads from pods to jobs: a job, something between the two, or a PodGroup.

    Attributes:
        uid: of the object.
        resource: ``plural.group``.
        namespace: of the object.
        name: of the object.
        parent: UID of its controller, empty without one.
        queue: that it names, empty where it names none.
        gone: when it was deleted; 0 while it is there.
    """

    uid: str
    resource: str
    namespace: str
    name: str
    parent: str = ""
    queue: str = ""
    gone: int = 0


class JobRecord(msgspec.Struct):
    """One job, or the gang or pod that stands for itself.

    Attributes:
        uid: of the job.
        api_version: of its kind.
        kind: of the job.
        resource: ``plural.group``, by which rights are asked for.
        namespace: of the job.
        name: of the job.
        queue: in which it was last.
        user: who submitted it, empty where the server did not say.
        created: when.
        started: when its first pod got its node; 0 before.
        ended: when; 0 before.
        outcome: its last phase, or ``Deleted``.
        message: what the job says of its end.
        exit_code: of the pod that explains the end; None where none is known.
        gpus: the most cards that it held at one moment.
        cpus: the most CPUs, in milli-cores.
        pods: the most pods.
        live: its object is there.
        seen: the object was seen; else only a pod told of it.
        memory: the most bytes that one of its pods was seen to use; 0 where nothing has measured it.
    """

    uid: str
    api_version: str
    kind: str
    resource: str
    namespace: str
    name: str
    queue: str = ""
    user: str = ""
    created: int = 0
    started: int = 0
    ended: int = 0
    outcome: str = ""
    message: str = ""
    exit_code: int | None = None
    gpus: int = 0
    cpus: int = 0
    pods: int = 0
    live: bool = True
    seen: bool = True
    memory: int = 0


class Interval(msgspec.Struct):
    """A time in which a pod held the same resources for the same queue.

    Attributes:
        pod: UID.
        start: when it began.
        job: UID of the job that the pod belongs to.
        name: of the pod.
        node: name of the node.
        queue: that was charged.
        resources: held, in engine units.
        end: when it ended; 0 while it goes on.
        outcome: ``Succeeded``, ``Failed``, ``Evicted``, ``Deleted`` or ``Moved``; empty while it goes on.
        exit_code: of the container that explains the end.
        restarts: of containers in place.
        present: the pod is there, and this is its last interval.
        parent: UID of the pod's controller.
        group: ``namespace/name`` of its PodGroup.
    """

    pod: str
    start: int
    job: str
    name: str
    node: str
    queue: str
    resources: dict[str, int]
    end: int = 0
    outcome: str = ""
    exit_code: int | None = None
    restarts: int = 0
    present: bool = True
    parent: str = ""
    group: str = ""


class Share(msgspec.Struct, frozen=True):
    """What a queue had of one resource from a moment on, or the cluster.

    Attributes:
        at: from when on; until the next share of the same queue and resource.
        queue: name, empty for the cluster.
        resource: name.
        used: held by pods of the queue itself.
        deserved: the queue's share, as its specification says.
        capability: the most that it may have.
        capacity: of all nodes; of the cluster alone.
    """

    at: int
    queue: str
    resource: str
    used: int = 0
    deserved: int = 0
    capability: int = 0
    capacity: int = 0

    @property
    def amounts(self) -> tuple[int, int, int, int]:
        """Of all four kinds."""
        return self.used, self.deserved, self.capability, self.capacity


class Hour(NamedTuple):
    """Which sum of an hour: of whom, and of what.

    ``measure`` is a resource's name (the amount is its unit times seconds), or ``ended/OUTCOME``, ``evictions`` or
    ``failures`` (numbers).
    """

    hour: int
    queue: str
    namespace: str
    resource: str
    user: str
    measure: str


def worse(known: int | None, found: int | None) -> int | None:
    """Which of two exit codes explains more: a failure of its own, then the end by a signal, then success."""
    ranks = [(code not in (None, 0), code not in (None, 0, *_SIGNALS), code is not None) for code in (known, found)]
    return found if ranks[1] > ranks[0] else known


def ended_as(job: JobRecord) -> str:
    """How a job ended, as people count it: one that its own policy stopped for a pod that failed has failed.

    One that a user stopped has pods that ended by the signals that every stop sends. Want of memory and time limits
    end pods by the same signals; there the job says that a pod failed.
    """
    if job.outcome not in ("Aborted", "Terminated"):
        return job.outcome
    own = job.exit_code not in (None, 0, *_SIGNALS)
    return "Failed" if own or is_pod_failure(job.message) or is_timeout(job.message) else job.outcome


def is_gpu(name: str) -> bool:
    """Whether a resource counts cards: ``nvidia.com/gpu``, ``amd.com/gpu``, ``nvidia.com/mig-1g.5gb``.

    Memory and cores of cards that are shared (``aliyun.com/gpu-mem``) count none.
    """
    return _is_of_gpus(name) and not name.endswith(_PARTS_OF_CARDS)


def is_part_of_gpu(name: str) -> bool:
    """Whether a resource is memory or cores of cards that are shared."""
    return _is_of_gpus(name) and name.endswith(_PARTS_OF_CARDS)


def _is_of_gpus(name: str) -> bool:
    _, mark, short = name.partition("/")
    return bool(mark) and ("gpu" in name or short.startswith("mig-"))


def gpus(resources: Mapping[str, int]) -> int:
    """Cards among these resources, in thousandths."""
    return sum(amount for name, amount in resources.items() if is_gpu(name))


def overlap(start: int, end: int, low: int, high: int) -> int:
    """Milliseconds that an interval has in common with a window."""
    return max(0, min(end, high) - max(start, low))


class Changes(msgspec.Struct):
    """What is to be stored, by key; the last word on each.

    Attributes:
        links: by UID; None for what is forgotten.
        jobs: by UID; None for a record that turned out to be none.
        intervals: by pod and start; None for one that turned out to be another's.
        shares: new ones.
        versions: by resource: the resourceVersion up to which everything is in here or stored before.
        heard: when the stream of pods was last alive.
    """

    links: dict[str, Link | None] = {}
    jobs: dict[str, JobRecord | None] = {}
    intervals: dict[tuple[str, int], Interval | None] = {}
    shares: list[Share] = []
    versions: dict[str, str] = {}
    heard: int = 0

    def then(self, later: Changes) -> Changes:
        """Both as one, for when the first could not be stored."""
        return Changes(
            self.links | later.links,
            self.jobs | later.jobs,
            self.intervals | later.intervals,
            [*self.shares, *later.shares],
            self.versions | later.versions,
            max(self.heard, later.heard),
        )

    @property
    def number(self) -> int:
        """Of records."""
        return len(self.links) + len(self.jobs) + len(self.intervals) + len(self.shares)

    @property
    def empty(self) -> bool:
        """Nothing but how far the server was followed."""
        return not self.number


class Memory(msgspec.Struct):
    """What a ledger starts from: all that was stored and still matters.

    Attributes:
        links: live ones, and those that went a short time ago.
        jobs: those whose object is there, or of which a pod still holds something.
        intervals: of pods that are there.
        shares: the last one of each queue and resource.
        versions: by resource.
        heard: when the stream of pods was last alive.
    """

    links: Sequence[Link] = ()
    jobs: Sequence[JobRecord] = ()
    intervals: Sequence[Interval] = ()
    shares: Sequence[Share] = ()
    versions: Mapping[str, str] = {}
    heard: int = 0


def hour_of(moment: int) -> int:
    """The beginning of the hour that a moment is in."""
    return moment - moment % HOUR


def pieces(start: int, end: int, step: int = HOUR) -> Iterator[tuple[int, int, int]]:
    """``(begin of the step, start, end)`` of each piece of an interval, cut where steps begin."""
    at = start
    while at < end:
        begin = at - at % step
        until = min(end, begin + step)
        yield begin, at, until
        at = until


def hours_of_interval(interval: Interval, job: JobRecord) -> Iterator[tuple[Hour, float]]:
    """The sums that a closed interval adds to."""

    def key(moment: int, measure: str) -> Hour:
        return Hour(hour_of(moment), interval.queue, job.namespace, job.resource, job.user, measure)

    for _, start, end in pieces(interval.start, interval.end):
        for name, amount in interval.resources.items():
            yield key(start, name), amount * (end - start) / 1000
    if interval.outcome == EVICTED:
        yield key(interval.end, EVICTIONS), 1
    elif interval.outcome == "Failed":
        yield key(interval.end, FAILURES), 1


def hours_of_job(job: JobRecord) -> Iterator[tuple[Hour, float]]:
    """The sums that a job which has ended adds to."""
    yield Hour(hour_of(job.ended), job.queue, job.namespace, job.resource, job.user, f"{ENDED}{ended_as(job)}"), 1
