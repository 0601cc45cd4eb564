"""Prometheus metrics of the scheduler: Volcano's names where they apply, ``unisono_`` for what is new."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from unisono.api.queues import NEEDS
from unisono.engine.decisions import Decisions
from unisono.scheduler.volcano_metrics import Figures, VolcanoMetrics


def _exponential(low: float, high: float, count: int) -> tuple[float, ...]:
    """``count`` bucket bounds that grow by one factor from ``low`` to ``high``."""
    factor = (high / low) ** (1 / (count - 1))
    return tuple(round(low * factor**index, 4) for index in range(count))


class _Maker:
    """Makes metrics in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def times(self, name: str, text: str, bounds: tuple[float, float, int], *labels: str) -> Histogram:
        """``bounds`` are the lowest and the highest bound of the buckets in milliseconds, and how many there are."""
        return Histogram(name, text, labels, buckets=_exponential(*bounds), registry=self._registry)

    def count(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def outcomes(self, name: str, text: str, label: str, *values: str) -> tuple[Counter, ...]:
        """One counter for each value of the label, all of which are there from the first."""
        counter = self.count(name, text, label)
        return tuple(counter.labels(value) for value in values)


class Metrics:
    """All metrics of one scheduler, in the registry given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.registry = registry
        self._jobs: set[str] = set()
        make = _Maker(registry)
        self._add_durations(make)
        self._add_counts(make)
        self._add_writers(make)
        self.figures = Figures()
        self.volcano = VolcanoMetrics(self.figures)
        registry.register(self.volcano)

    def _add_durations(self, make: _Maker) -> None:
        """How long cycles take and their parts, and how old jobs and pods get."""
        self.cycle = make.times(
            "volcano_e2e_scheduling_latency_milliseconds", "Time of a whole scheduling cycle.", (1, 5000, 20)
        )
        self.open_session = make.times(
            "volcano_open_session_duration_milliseconds", "Time to take the snapshot.", (1, 5000, 20)
        )
        self._actions = make.times(
            "volcano_action_scheduling_latency_milliseconds", "Time of one action in a cycle.", (1, 2000, 20), "action"
        )
        self._parts = make.times(
            "unisono_scheduler_cycle_part_milliseconds",
            "Time of one part of a cycle: open, actions, check, explain, close.",
            (1, 5000, 20),
            "part",
        )
        self.explanation = make.times(
            "unisono_scheduler_explanation_milliseconds",
            "Time of an explanation that was worked out beside the cycles, in a copy of the process.",
            (1, 60000, 20),
        )
        self._plugins = make.times(
            "volcano_plugin_scheduling_latency_milliseconds",
            "Time of one plug-in in a cycle: opening, all its other hooks together, closing.",
            (0.1, 100, 15),
            "plugin",
            "OnSession",
        )
        self.job_latency = make.times(
            "volcano_e2e_job_scheduling_latency_milliseconds",
            "Age of the job when its gang, or one of its later tasks, got its places.",
            (100, 120000, 30),
        )
        ages = make.times(
            "volcano_task_scheduling_latency_milliseconds",
            "Age of the pod at a stage of its scheduling.",
            (50, 60000, 30),
            "stage",
        )
        self.task_watched, self.task_assumed, self.task_prebound, self.task_bound = (
            ages.labels(stage) for stage in ("Watched", "Assumed", "PreBound", "Bound")
        )
        stages = make.times(
            "volcano_scheduling_stage_duration_milliseconds", "Time of one stage for one pod.", (0.1, 500, 20), "stage"
        )
        self.prebind, self.bind = stages.labels("PreBind"), stages.labels("Bind")

    def _add_counts(self, make: _Maker) -> None:
        """Results of cycles, and how many jobs wait."""
        self.cycles_run, self.cycles_idle, self.cycles_failed = make.outcomes(
            "unisono_scheduler_cycles", "Cycles by outcome.", "outcome", "run", "idle", "failed"
        )
        unenforced = make.gauge(
            "unisono_scheduler_unenforced_queues",
            "Queues with a field that the configuration does not enforce.",
            "field",
        )
        self.unenforced = {field: unenforced.labels(field) for field in NEEDS}
        self.silent = make.gauge("unisono_scheduler_silent_seconds", "Time since the latest cycle ended.")
        self.scheduled, self.unschedulable, self.failed = make.outcomes(
            "volcano_schedule_attempts",
            "Attempts to place a pod, by result.",
            "result",
            "scheduled",
            "unschedulable",
            "error",
        )
        self._evictions = make.count(
            "volcano_eviction_transactions", "Evictions by the action that chose them.", "action"
        )
        self.unschedulable_jobs = make.gauge("volcano_unschedule_job_count", "Jobs that wait.")
        self._unschedulable_tasks = make.gauge("volcano_unschedule_task_count", "Tasks of a job that wait.", "job_id")
        self._retries = make.count("volcano_job_retry_counts", "Cycles in which a job waited.", "job_id")
        self._switched_off = make.count(
            "unisono_scheduler_plugins_switched_off",
            "Cycles in which a plug-in could not be asked: it does not exist, or failed to open.",
            "plugin",
        )
        self._plugin_failures = make.count(
            "unisono_scheduler_plugin_failures", "Questions that a plug-in failed to answer.", "plugin", "hook"
        )
        self.plugin_backoffs = make.count(
            "unisono_scheduler_plugin_backoffs",
            "Times that a job began to wait because a plug-in keeps failing for it.",
        )
        self.violations = make.count("unisono_scheduler_violations", "Decisions dropped for a broken invariant.")
        self._rejected = make.gauge(
            "unisono_objects_rejected", "Objects that cannot be read and count as absent, by kind.", "kind"
        )
        self._rejected_kinds: set[str] = set()
        self.config_errors = make.count("unisono_scheduler_config_errors", "Configurations that were rejected.")
        self.config_refused = make.gauge(
            "unisono_scheduler_config_refused", "1 as long as the newest configuration cannot be used, else 0."
        )

    def _add_writers(self, make: _Maker) -> None:
        """What goes to the API server, and what the source of node load answers."""
        self.binds_in_flight = make.gauge("unisono_scheduler_binds_in_flight", "Binds on their way.")
        self.gangs_released = make.count(
            "unisono_scheduler_partial_gangs_released", "Gangs whose bound part was given up."
        )
        self.writes_done, self.writes_conflict, self.writes_failed = make.outcomes(
            "unisono_scheduler_writes", "Status writes by outcome.", "outcome", "done", "conflict", "failed"
        )
        self.usage_done, self.usage_failed = make.outcomes(
            "unisono_scheduler_usage_collections", "Questions to the source of node load.", "outcome", "done", "failed"
        )
        self.usage_nodes = make.gauge("unisono_scheduler_usage_nodes", "Nodes whose load the source has told lately.")

    def stages(self, seconds: Mapping[str, float]) -> None:
        """Observe what actions and plug-ins took; see `unisono.engine.decisions.Decisions`."""
        actions = 0.0
        for stage, taken in seconds.items():
            kind, _, rest = stage.partition("/")
            if not rest:
                self._parts.labels(kind).observe(taken * 1000)
            elif kind == "actions":
                actions += taken
                self._actions.labels(rest).observe(taken * 1000)
            elif kind == "plugins":
                name, _, part = rest.rpartition("/")
                self._plugins.labels(name, f"OnSession{part.capitalize()}").observe(taken * 1000)
        if seconds:
            self._parts.labels("actions").observe(actions * 1000)

    def plugin_switched_off(self, name: str) -> None:
        """Count one cycle without the plug-in."""
        self._switched_off.labels(name).inc()

    def plugin_failed(self, plugin: str, hook: str) -> None:
        """Count one question that a plug-in failed to answer."""
        self._plugin_failures.labels(plugin, hook).inc()

    def rejected(self, numbers: Mapping[str, int]) -> None:
        """Objects that are set aside now, by kind."""
        for kind in self._rejected_kinds - numbers.keys():
            self._rejected.labels(kind).set(0)
        self._rejected_kinds |= numbers.keys()
        for kind, number in numbers.items():
            self._rejected.labels(kind).set(number)

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
        if decisions.explained:
            self.figures.queues, self.figures.resources = decisions.figures, decisions.resources
            self.figures.total = decisions.sharable
        preempted = [eviction.beneficiary for eviction in decisions.evictions if eviction.reason == "preempt"]
        if preempted:
            self.figures.preemptions += len(set(preempted))
            self.figures.victims = len(preempted)
