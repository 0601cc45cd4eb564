"""What becomes of Jobs, and how long their pods take to be made, under the names that Volcano's dashboards know."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram

from unisono.api.base import Object
from unisono.api.groups.batch import Job
from unisono.api.membership import DEFAULT_QUEUE
from unisono.api.times import parse_time
from unisono.controllers.phase_metrics import PhaseCounts

# Volcano's bounds in milliseconds: 30 from 50 ms to a minute, each larger by the same factor.
_LOWEST, _HIGHEST, _COUNT = 50.0, 60_000.0, 30
_BOUNDS = [_LOWEST * (_HIGHEST / _LOWEST) ** (step / (_COUNT - 1)) for step in range(_COUNT)]


class JobMetrics:
    """Metrics of the job controller, in the registry given or in none."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._pod_creation = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "Age of the job when one of its pods was created.",
            buckets=_BOUNDS,
            registry=registry,
        )
        names = {
            "Completed": ("job_completed_phase_count", "How often a Job has completed."),
            "Failed": ("job_failed_phase_count", "How often a Job has failed."),
        }
        self._phases = PhaseCounts(names, ("job_name", "queue_name"), registry)

    def moved(self, old: Job | None, new: Job) -> None:
        """A job's status changed; when one that is new to this process ended is not known."""
        if old is not None:
            self._phases.moved(old.status.state.phase, new.status.state.phase, *_labels(new))

    def gone(self, job: Job) -> None:
        """A job was deleted."""
        self._phases.forget(*_labels(job))

    def created(self, job: Object, pod: Object) -> None:
        """A pod of the job was created; by the server's clock, which counts whole seconds."""
        asked, made = job.metadata.creation_timestamp, pod.metadata.creation_timestamp
        if asked and made:
            self._pod_creation.observe(max(0.0, parse_time(made) - parse_time(asked)) * 1000)


def _labels(job: Job) -> tuple[str, str]:
    return job.key, job.spec.queue or DEFAULT_QUEUE
