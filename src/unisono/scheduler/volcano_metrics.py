"""Volcano's metrics of queues and jobs, made when they are asked for: a cycle spends nothing on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import Metric
from prometheus_client.registry import Collector

from unisono.api.groups.scheduling import PodGroup
from unisono.api.selecting import queue_of
from unisono.cluster.records import Job
from unisono.cluster.resources import CPU, MEMORY
from unisono.engine.decisions import UNLIMITED, Amounts, QueueMetrics

MOST_JOBS = 1000
"""Jobs with series of their own: more would make every scrape long and the store of metrics large."""

_PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")


@dataclass(slots=True)
class JobTimes:
    """When the latest gang of a job got its places, seconds since the epoch."""

    queue: str
    created: float
    bound: float


@dataclass(slots=True)
class Figures:
    """What the metrics are made of.

    Attributes:
        queues: of the latest cycle.
        resources: names of their rows.
        total: what queues share, by row; empty where no plug-in orders jobs by their share.
        retries: cycles in which a job waited, by its name.
        preemptions: jobs for which preempt has evicted others, counted once per cycle.
        victims: pods that preempt has chosen in the latest cycle in which it chose any.
        times: by key of the PodGroup, the latest last.
    """

    queues: Sequence[QueueMetrics] = ()
    resources: Sequence[str] = ()
    total: Amounts = field(default_factory=list)
    retries: dict[str, int] = field(default_factory=dict)
    preemptions: int = 0
    victims: int = 0
    times: dict[str, JobTimes] = field(default_factory=dict)

    def placed(self, job: str, times: JobTimes) -> None:
        """A job's gang got its places."""
        self.times.pop(job, None)
        self.times[job] = times
        while len(self.times) > MOST_JOBS:
            del self.times[next(iter(self.times))]


class VolcanoMetrics(Collector):
    """Metrics with Volcano's names and labels, as its dashboards ask for them."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self.groups: Mapping[str, PodGroup] = {}
        self.jobs: Mapping[str, Job] = {}

    def read(self, groups: Mapping[str, PodGroup], jobs: Mapping[str, Job]) -> None:
        """Where PodGroups and jobs are found, live."""
        self.groups, self.jobs = groups, jobs

    def collect(self) -> Iterable[Metric]:
        """All of them as they are now."""
        yield from self._queues()
        yield from self._pod_groups()
        yield from self._job_times()
        yield self._job_shares()
        yield from self._counts()

    # ---- queues

    def _queues(self) -> Iterable[Metric]:
        weight, share, overused = (
            _gauge(f"queue_{what}", text)
            for what, text in (
                ("weight", "Weight of a queue."),
                ("share", "Largest part that a queue holds of what it deserves."),
                ("overused", "1 where a queue holds all of its share."),
            )
        )
        amounts = {what: _Amounts(what, self.figures.resources) for what in _AMOUNTS}
        for queue in self.figures.queues:
            label = {"queue_name": queue.name}
            weight.add_sample(weight.name, label, queue.weight)
            amounts["allocated"].add(queue.name, queue.allocated)
            amounts["request"].add(queue.name, queue.request)
            if queue.capability is not None:
                amounts["capacity"].add(queue.name, queue.capability)
            shares = queue.shares
            if shares is not None:
                amounts["deserved"].add(queue.name, shares.deserved)
                amounts["real_capacity"].add(queue.name, shares.limit)
                amounts["inqueue"].add(queue.name, shares.inqueue)
                share.add_sample(share.name, label, shares.share)
                overused.add_sample(overused.name, label, float(shares.overused))
        yield from (weight, share, overused)
        for made in amounts.values():
            yield from made.metrics

    def _pod_groups(self) -> Iterable[Metric]:
        counts = Counter((queue_of(group), group.status.phase or "Pending") for group in list(self.groups.values()))
        names = sorted({queue.name for queue in self.figures.queues} | {queue for queue, _ in counts})
        for phase in _PHASES:
            metric = _gauge(f"queue_pod_group_{phase.lower()}_count", f"PodGroups of a queue in phase {phase}.")
            for name in names:
                metric.add_sample(metric.name, {"queue_name": name}, counts[name, phase])
            yield metric

    # ---- jobs

    def _job_times(self) -> Iterable[Metric]:
        duration, start, last = (
            _gauge(f"e2e_job_scheduling_{what}", text)
            for what, text in (
                ("duration", "Milliseconds from a job's creation to its latest places."),
                ("start_time", "When the job was created, seconds since the epoch."),
                ("last_time", "When the job got its latest places, seconds since the epoch."),
            )
        )
        for key, times in list(self.figures.times.items()):
            if key not in self.groups:
                del self.figures.times[key]
                continue
            namespace, _, name = key.partition("/")
            label = {"job_name": name, "queue": times.queue, "job_namespace": namespace}
            duration.add_sample(duration.name, label, (times.bound - times.created) * 1000)
            start.add_sample(start.name, label, int(times.created))
            last.add_sample(last.name, label, int(times.bound))
        return duration, start, last

    def _job_shares(self) -> Metric:
        metric = _gauge("job_share", "Largest part of a resource of the cluster that a job holds.")
        total = self.figures.total
        shares: list[tuple[float, str]] = []
        for key, job in list(self.jobs.items()) if total else ():
            if job.known and job.phase != "Completed":
                parts = zip(job.allocated.tolist(), total, strict=False)
                shares.append((max((held / whole for held, whole in parts if whole > 0), default=0.0), key))
        shares.sort(reverse=True)
        for share, key in shares[:MOST_JOBS]:
            namespace, _, name = key.partition("/")
            metric.add_sample(metric.name, {"job_ns": namespace, "job_id": name}, share)
        return metric

    def _counts(self) -> Iterable[Metric]:
        """Counters whose names do not end as the client library wants them to."""
        retries = Metric("volcano_job_retry_counts", "Cycles in which a job waited.", "unknown")
        for name, number in list(self.figures.retries.items()):
            retries.add_sample(retries.name, {"job_id": name}, number)
        attempts = Metric("volcano_total_preemption_attempts", "Jobs for which others were evicted.", "unknown")
        attempts.add_sample(attempts.name, {}, self.figures.preemptions)
        victims = _gauge("pod_preemption_victims", "Pods that preempt chose when it last chose any.")
        victims.add_sample(victims.name, {}, self.figures.victims)
        return retries, attempts, victims


_AMOUNTS = {
    "allocated": "a queue and its children hold",
    "request": "a queue's pods hold and ask for",
    "deserved": "a queue deserves",
    "capacity": "a queue may hold by its capability",
    "real_capacity": "a queue may hold beside the guarantees of others",
    "inqueue": "admitted jobs of a queue are still promised",
}


class _Amounts:
    """CPU, memory and other resources of one kind."""

    def __init__(self, what: str, resources: Sequence[str]) -> None:
        text = _AMOUNTS[what]
        self._resources = resources
        self.metrics = (
            _gauge(f"queue_{what}_milli_cpu", f"Milli-CPUs that {text}."),
            _gauge(f"queue_{what}_memory_bytes", f"Bytes of memory that {text}."),
            _gauge(f"queue_{what}_scalar_resources", f"Other resources, in thousandths, that {text}."),
        )

    def add(self, queue: str, amounts: Amounts) -> None:
        """One queue; what is not limited is left out."""
        cpu, memory, scalars = self.metrics
        for row, (name, amount) in enumerate(zip(self._resources, amounts, strict=False)):
            if amount >= UNLIMITED:
                continue
            if row == CPU:
                cpu.add_sample(cpu.name, {"queue_name": queue}, amount)
            elif row == MEMORY:
                memory.add_sample(memory.name, {"queue_name": queue}, amount)
            else:
                scalars.add_sample(scalars.name, {"queue_name": queue, "resource": name}, amount)


def _gauge(name: str, text: str) -> Metric:
    return Metric(f"volcano_{name}", text, "gauge")
