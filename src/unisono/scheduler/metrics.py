"""Prometheus metrics of the scheduler: Volcano's names where they apply, ``unisono_`` for what is new."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from unisono.engine.decisions import Decisions
from unisono.scheduler.volcano_metrics import Figures, VolcanoMetrics


def _exponential(low: float, high: float, count: int) -> tuple[float, ...]:
    """``count`` bucket bounds that grow by one factor from ``low`` to ``high``."""
    factor = (high / low) ** (1 / (count - 1))
    return tuple(round(low * factor**index, 4) for index in range(count))


class Metrics:
    """All metrics of one scheduler, in the registry given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.registry = registry
        self.cycle = Histogram(
            "volcano_e2e_scheduling_latency_milliseconds",
            "Time of a whole scheduling cycle.",
            buckets=_exponential(1, 5000, 20),
            registry=registry,
        )
        self.open_session = Histogram(
            "volcano_open_session_duration_milliseconds",
            "Time to take the snapshot.",
            buckets=_exponential(1, 5000, 20),
            registry=registry,
        )
        self._actions = Histogram(
            "volcano_action_scheduling_latency_milliseconds",
            "Time of one action in a cycle.",
            ["action"],
            buckets=_exponential(1, 2000, 20),
            registry=registry,
        )
        self._plugins = Histogram(
            "volcano_plugin_scheduling_latency_milliseconds",
            "Time of one plug-in in a cycle: opening, all its other hooks together, closing.",
            ["plugin", "OnSession"],
            buckets=_exponential(0.1, 100, 15),
            registry=registry,
        )
        self._switched_off = Counter(
            "unisono_scheduler_plugins_switched_off",
            "Cycles in which a plug-in raised, took too long or could not be built.",
            ["plugin"],
            registry=registry,
        )
        self.job_latency = Histogram(
            "volcano_e2e_job_scheduling_latency_milliseconds",
            "Age of the job when its gang, or one of its later tasks, got its places.",
            buckets=_exponential(100, 120000, 30),
            registry=registry,
        )
        stages = Histogram(
            "volcano_task_scheduling_latency_milliseconds",
            "Age of the pod at a stage of its scheduling.",
            ["stage"],
            buckets=_exponential(50, 60000, 30),
            registry=registry,
        )
        self.task_watched, self.task_assumed, self.task_prebound, self.task_bound = (
            stages.labels(stage) for stage in ("Watched", "Assumed", "PreBound", "Bound")
        )
        durations = Histogram(
            "volcano_scheduling_stage_duration_milliseconds",
            "Time of one stage for one pod.",
            ["stage"],
            buckets=_exponential(0.1, 500, 20),
            registry=registry,
        )
        self.prebind, self.bind = durations.labels("PreBind"), durations.labels("Bind")
        attempts = Counter(
            "volcano_schedule_attempts", "Attempts to place a pod, by result.", ["result"], registry=registry
        )
        self.scheduled, self.unschedulable, self.failed = (
            attempts.labels(result) for result in ("scheduled", "unschedulable", "error")
        )
        self._evictions = Counter(
            "volcano_eviction_transactions", "Evictions by the action that chose them.", ["action"], registry=registry
        )
        self.unschedulable_jobs = Gauge("volcano_unschedule_job_count", "Jobs that wait.", registry=registry)
        self._unschedulable_tasks = Gauge(
            "volcano_unschedule_task_count", "Tasks of a job that wait.", ["job_id"], registry=registry
        )
        self._retries = Counter(
            "volcano_job_retry_counts", "Cycles in which a job waited.", ["job_id"], registry=registry
        )
        cycles = Counter("unisono_scheduler_cycles", "Cycles by outcome.", ["outcome"], registry=registry)
        self.cycles_run, self.cycles_idle, self.cycles_failed = (
            cycles.labels(outcome) for outcome in ("run", "idle", "failed")
        )
        self.violations = Counter(
            "unisono_scheduler_violations", "Decisions dropped for a broken invariant.", registry=registry
        )
        self.config_errors = Counter(
            "unisono_scheduler_config_errors", "Configurations that were rejected.", registry=registry
        )
        self.gangs_released = Counter(
            "unisono_scheduler_partial_gangs_released", "Gangs whose bound part was given up.", registry=registry
        )
        writes = Counter("unisono_scheduler_writes", "Status writes by outcome.", ["outcome"], registry=registry)
        self.writes_done, self.writes_conflict, self.writes_failed = (
            writes.labels(outcome) for outcome in ("done", "conflict", "failed")
        )
        collections = Counter(
            "unisono_scheduler_usage_collections",
            "Questions to the source of node load.",
            ["outcome"],
            registry=registry,
        )
        self.usage_done, self.usage_failed = (collections.labels(outcome) for outcome in ("done", "failed"))
        self.usage_nodes = Gauge(
            "unisono_scheduler_usage_nodes", "Nodes whose load the source has told lately.", registry=registry
        )
        self.binds_in_flight = Gauge("unisono_scheduler_binds_in_flight", "Binds on their way.", registry=registry)
        self._jobs: set[str] = set()
        self.figures = Figures()
        self.volcano = VolcanoMetrics(self.figures)
        registry.register(self.volcano)

    def stages(self, seconds: Mapping[str, float]) -> None:
        """Observe what actions and plug-ins took; see `unisono.engine.decisions.Decisions`."""
        for stage, taken in seconds.items():
            kind, _, rest = stage.partition("/")
            if kind == "actions":
                self._actions.labels(rest).observe(taken * 1000)
            elif kind == "plugins":
                name, _, part = rest.rpartition("/")
                self._plugins.labels(name, f"OnSession{part.capitalize()}").observe(taken * 1000)

    def plugin_switched_off(self, name: str) -> None:
        """Count one cycle without the plug-in."""
        self._switched_off.labels(name).inc()

    def evicted(self, action: str) -> None:
        """Count one eviction."""
        self._evictions.labels(action).inc()

    def waiting(self, tasks: Mapping[str, int]) -> None:
        """Jobs that wait (name to number of tasks that found no place); series of others are removed."""
        self.unschedulable_jobs.set(len(tasks))
        for name in self._jobs - tasks.keys():
            self._unschedulable_tasks.remove(name)
            self._retries.remove(name)
            self.figures.retries.pop(name, None)
        self._jobs = set(tasks)
        for name, count in tasks.items():
            self._unschedulable_tasks.labels(name).set(count)
            self._retries.labels(name).inc()
            self.figures.retries[name] = self.figures.retries.get(name, 0) + 1

    def decided(self, decisions: Decisions) -> None:
        """Take over what a cycle tells of queues, and whom it evicts."""
        self.figures.queues, self.figures.resources = decisions.figures, decisions.resources
        self.figures.total = decisions.sharable
        preempted = [eviction.beneficiary for eviction in decisions.evictions if eviction.reason == "preempt"]
        if preempted:
            self.figures.preemptions += len(set(preempted))
            self.figures.victims = len(preempted)
