"""What became of each job, as JSON lines."""

from __future__ import annotations

from typing import IO, Any

import msgspec

from unisono.simulator.world.outcome import JobOutcome, Run


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
