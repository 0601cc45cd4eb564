"""What happened to the jobs of a run; all metrics are computed from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, Any

import msgspec

from unisono.simulator.clusters import Cluster
from unisono.simulator.workload.job import Job

COMPLETED, FAILED, RUNNING, WAITING, DROPPED = "completed", "failed", "running", "waiting", "dropped"
"""States of a job at the end of a run: given up after failures is ``failed``; ``dropped`` never started and may not
wait."""


@dataclass(slots=True)
class Stretch:
    """A time in which pods of a job held their places without a change.

    Attributes:
        start, end: seconds.
        unit: which part of the job, 0 where its pods run together.
        nodes: number of the node (in `Run.node_names`) of each pod.
        pods: number of each pod in the job.
        gpu_milli, cpu_milli: what the pods hold.
        cause: why it ended: ``completed``, ``evicted``, ``failed``, ``node lost``, ``resized`` (it went on with more or
            fewer pods), or ``end`` (of the simulation).
        lost: seconds of progress lost with it.
        overhead: seconds at its beginning without progress.
    """

    start: float
    end: float
    unit: int
    nodes: tuple[int, ...]
    pods: tuple[int, ...]
    gpu_milli: int
    cpu_milli: int
    cause: str = ""
    lost: float = 0.0
    overhead: float = 0.0


@dataclass(slots=True)
class JobOutcome:
    """One job's life; times in seconds of the simulation.

    Attributes:
        job: as in the workload.
        started: when its gang first had its places; None when never.
        ended: when it was completed or given up; None when not.
        state: see above.
        evictions: pods of it that the scheduler evicted.
        failures: failures of its pods and nodes.
    """

    job: Job
    started: float | None = None
    ended: float | None = None
    state: str = WAITING
    evictions: int = 0
    failures: int = 0
    stretches: list[Stretch] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EvictionRecord:
    """One eviction: ``victim`` and ``beneficiary`` are names of jobs (the latter may be empty)."""

    at: float
    victim: str
    beneficiary: str
    reason: str
    gpu_milli: int


@dataclass(slots=True)
class Run:
    """A finished simulation.

    Attributes:
        cluster: the cluster as it was simulated.
        node_names: by number.
        outcomes: in the order of the workload.
        evictions: in order of time.
        end: when the simulation ended.
        cycles: cycles of the engine.
        binds: pods bound.
        violations: what the engine left out of its decisions; always empty unless there is a bug or a broken plug-in.
        capacity: (time, GPUs, thousandths of cores) after each change of the nodes, the first at 0.
    """

    cluster: Cluster
    node_names: tuple[str, ...]
    outcomes: list[JobOutcome]
    evictions: list[EvictionRecord] = field(default_factory=list)
    end: float = 0.0
    cycles: int = 0
    binds: int = 0
    violations: list[str] = field(default_factory=list)
    capacity: list[tuple[float, int, int]] = field(default_factory=list)


# What became of each job, as JSON lines.


def write_jobs(run: Run, file: IO[bytes]) -> None:
    """A line per job, in the order of the workload; the same run gives the same bytes."""
    for outcome in run.outcomes:
        file.write(msgspec.json.encode(job_record(run, outcome)) + b"\n")


def job_record(run: Run, outcome: JobOutcome) -> dict[str, Any]:
    """One job's life: times are seconds from the beginning of the workload."""
    record: dict[str, Any] = {
        "name": outcome.job.name,
        "user": outcome.job.user,
        "queue": outcome.job.queue,
        "gpus": outcome.job.gpu_demand / 1000,
        "submit": outcome.job.submit,
        "started": outcome.started,
        "ended": outcome.ended,
        "state": outcome.state,
        "evictions": outcome.evictions,
        "failures": outcome.failures,
        "places": [
            {
                "start": stretch.start,
                "end": stretch.end,
                "nodes": [run.node_names[node] for node in stretch.nodes],
                "cause": stretch.cause,
            }
            for stretch in outcome.stretches
        ],
    }
    return {key: value for key, value in record.items() if value is not None}
