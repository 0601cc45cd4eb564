"""Monitoring: what Prometheus scrapes, when it sends an alert, and Grafana's dashboards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unisono.install.workloads import InstallOptions, components, labels, selector

# Prometheus: what to scrape, and when to send an alert (kinds of the Prometheus operator).


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert rule.

    Attributes:
        name: of the alert.
        expression: PromQL; the alert fires for each series that it answers.
        holds_for: how long the expression must hold.
        severity: ``critical`` (no pod is scheduled, or soon), ``warning`` or ``info``.
        summary: what is wrong, with the series' labels.
        action: what to do.
    """

    name: str
    expression: str
    holds_for: str
    severity: str
    summary: str
    action: str


_API = "monitoring.coreos.com/v1"

ALERTS: tuple[Alert, ...] = (
    Alert(
        "UnisonoNoLeader",
        'sum by (name) (leader_election_master_status{name=~"unisono-.*"}) < 1',
        "2m",
        "critical",
        "No replica of {{ $labels.name }} leads.",
        "Look at its pods and at its Lease: kubectl -n unisono-system get pods,leases.",
    ),
    Alert(
        "UnisonoCyclesFail",
        'rate(unisono_scheduler_cycles_total{outcome="failed"}[5m]) > 0',
        "5m",
        "critical",
        "Scheduling cycles end with an error.",
        "The scheduler's log has the error; running pods are not affected.",
    ),
    Alert(
        "UnisonoSchedulerSilent",
        "unisono_scheduler_silent_seconds > 60",
        "1m",
        "critical",
        "No scheduling cycle has ended for {{ $value | humanizeDuration }}.",
        "Look at the scheduler's log and its CPU use; restart its pod if it hangs.",
    ),
    Alert(
        "UnisonoWatchSilent",
        "unisono_watch_silent_seconds > 600",
        "5m",
        "critical",
        "The watch on {{ $labels.resource }} has been silent for 10 minutes.",
        "Look at the API server and the network between; decisions may rest on old objects.",
    ),
    Alert(
        "UnisonoRightsMissing",
        'sum by (job, method, resource) (increase(rest_client_requests_total{code="403"}[10m])) > 0',
        "10m",
        "warning",
        "{{ $labels.job }} may not {{ $labels.method }} {{ $labels.resource }}.",
        "Apply the roles of the version that runs: unisono install.",
    ),
    Alert(
        "UnisonoApiErrors",
        'sum by (job) (rate(rest_client_requests_total{code=~"5..|<error>"}[5m]))'
        " / sum by (job) (rate(rest_client_requests_total[5m])) > 0.05",
        "10m",
        "warning",
        "More than 5 % of the requests of {{ $labels.job }} fail.",
        "Look at the load and the log of the API server.",
    ),
    Alert(
        "UnisonoCyclesSlow",
        "histogram_quantile(0.99, sum by (le) (rate(volcano_e2e_scheduling_latency_milliseconds_bucket[10m]))) > 5000",
        "15m",
        "warning",
        "One scheduling cycle in a hundred takes more than 5 seconds.",
        "The dashboard shows which action or plug-in takes the time.",
    ),
    Alert(
        "UnisonoDecisionsDropped",
        "increase(unisono_scheduler_violations_total[1h]) > 0",
        "0m",
        "warning",
        "Decisions broke an invariant and were dropped.",
        "Report it with the scheduler's log; the jobs concerned are tried again.",
    ),
    Alert(
        "UnisonoConfigRejected",
        "unisono_scheduler_config_refused > 0",
        "0m",
        "warning",
        "The scheduler's configuration has an error; the former one is in force.",
        "The scheduler's log names the line and the key.",
    ),
    Alert(
        "UnisonoPluginOff",
        "sum by (plugin) (increase(unisono_scheduler_plugins_switched_off_total[10m])) > 0",
        "10m",
        "warning",
        "Plug-in {{ $labels.plugin }} fails or takes too long and was left out of cycles.",
        "The scheduler's log has the error.",
    ),
    Alert(
        "UnisonoPartialGangs",
        "increase(unisono_scheduler_partial_gangs_released_total[1h]) > 3",
        "0m",
        "warning",
        "Gangs were bound only in part and given up.",
        "Binds are refused by the API server, or another scheduler uses the same nodes.",
    ),
    Alert(
        "UnisonoJobsWait",
        "min_over_time(volcano_unschedule_job_count[1h]) > 0",
        "1h",
        "info",
        "Jobs have been waiting for an hour.",
        "unisono explain JOB says why each of them waits and what would start it.",
    ),
)


def alert_groups() -> list[dict[str, Any]]:
    """The alerts as Prometheus' rule files have them (``groups``)."""
    return [
        {"name": name, "rules": [_rule(alert) for alert in alerts]}
        for name, alerts in (("unisono", ALERTS), ("unisono-gpu", GPU_ALERTS))
    ]


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.holds_for,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.action},
    }


def monitors(options: InstallOptions) -> list[dict[str, Any]]:
    """One ServiceMonitor per component, and the alerts."""
    return [
        *(_monitor(component.name, options) for component in components(options)),
        {
            "apiVersion": _API,
            "kind": "PrometheusRule",
            "metadata": {"name": "unisono", "namespace": options.namespace, "labels": labels("monitoring")},
            "spec": {"groups": alert_groups()},
        },
    ]


def _monitor(component: str, options: InstallOptions) -> dict[str, Any]:
    name = f"unisono-{component}"
    return {
        "apiVersion": _API,
        "kind": "ServiceMonitor",
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels(component)},
        "spec": {
            "selector": {"matchLabels": selector(component)},
            "namespaceSelector": {"matchNames": [options.namespace]},
            "endpoints": [{"port": "metrics", "interval": "15s"}],
        },
    }


_WHICH = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"

GPU_ALERTS: tuple[Alert, ...] = (
    Alert(
        "GpuUtilizationLow",
        "DCGM_FI_DEV_GPU_UTIL < 30",
        "10m",
        "info",
        f"{_WHICH} has been used to {{{{ $value }}}} % for 10 minutes.",
        "Of a pod: look at its input pipeline and batch size. Of no pod: let node scaling give the machine back.",
    ),
    Alert(
        "GpuTemperatureHigh",
        "DCGM_FI_DEV_GPU_TEMP > 85",
        "2m",
        "critical",
        f"{_WHICH} is {{{{ $value }}}} °C hot.",
        "Look at fans, airflow and the power limit; the card slows down before it stops.",
    ),
    Alert(
        "GpuMemoryHigh",
        "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.9",
        "5m",
        "warning",
        f"The memory of {_WHICH} is used to {{{{ $value | humanizePercentage }}}}.",
        "The job may run out of memory: a smaller batch, activation checkpointing, or a larger card.",
    ),
    Alert(
        "GpuPowerHigh",
        "DCGM_FI_DEV_POWER_USAGE / DCGM_FI_DEV_POWER_MGMT_LIMIT > 0.95",
        "5m",
        "warning",
        f"{_WHICH} draws {{{{ $value | humanizePercentage }}}} of its power limit.",
        "It runs slower than it could; look at the limit and at the clocks.",
    ),
    Alert(
        "GpuEccErrorsGrow",
        "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[10m]) > 0 or increase(DCGM_FI_DEV_ECC_SBE_VOL_TOTAL[10m]) > 0",
        "0m",
        "critical",
        f"{_WHICH} counts new ECC errors.",
        "Cordon the node, let its jobs end, and look at nvidia-smi -q -d ECC,ROW_REMAPPER before it takes pods again.",
    ),
)

# Grafana dashboards: what to look at, as data.

_SLOW = "histogram_quantile({q}, sum by (le{by}) (rate({name}_bucket[$__rate_interval])))"


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph.

    Attributes:
        title: of the panel.
        queries: PromQL and the legend of its series.
        unit: Grafana's name of the unit.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"


def _quantiles(name: str, by: str = "") -> tuple[tuple[str, str], ...]:
    label = f", {by}" if by else ""
    if by:
        return ((_SLOW.format(q="0.99", by=label, name=name), f"{{{{{by}}}}}"),)
    return tuple((_SLOW.format(q=f"0.{q}", by="", name=name), f"p{q}") for q in (50, 90, 99))


SCHEDULER: tuple[Panel, ...] = (
    Panel("Scheduling cycle", _quantiles("volcano_e2e_scheduling_latency_milliseconds"), "ms"),
    Panel("Actions, p99", _quantiles("volcano_action_scheduling_latency_milliseconds", "action"), "ms"),
    Panel("Plug-ins, p99", _quantiles("volcano_plugin_scheduling_latency_milliseconds", "plugin"), "ms"),
    Panel("Snapshot", _quantiles("volcano_open_session_duration_milliseconds"), "ms"),
    Panel("Age of pods when bound", _quantiles("volcano_task_scheduling_latency_milliseconds", "stage"), "ms"),
    Panel("Age of jobs when a task is bound", _quantiles("volcano_e2e_job_scheduling_latency_milliseconds"), "ms"),
    Panel("Bind requests", _quantiles("volcano_scheduling_stage_duration_milliseconds", "stage"), "ms"),
    Panel(
        "Attempts",
        (("sum by (result) (rate(volcano_schedule_attempts_total[$__rate_interval]))", "{{result}}"),),
        "ops",
    ),
    Panel("Jobs that wait", (("max(volcano_unschedule_job_count)", "jobs"),)),
    Panel("Tasks that wait, most", (("topk(10, max by (job_id) (volcano_unschedule_task_count))", "{{job_id}}"),)),
    Panel(
        "Evictions",
        (("sum by (action) (rate(volcano_eviction_transactions_total[$__rate_interval]))", "{{action}}"),),
        "ops",
    ),
    Panel(
        "Cycles", (("sum by (outcome) (rate(unisono_scheduler_cycles_total[$__rate_interval]))", "{{outcome}}"),), "ops"
    ),
)

QUEUES: tuple[Panel, ...] = (
    Panel("CPU", (("max by (queue_name) (volcano_queue_allocated_milli_cpu) / 1000", "{{queue_name}}"),), "cores"),
    Panel("Memory", (("max by (queue_name) (volcano_queue_allocated_memory_bytes)", "{{queue_name}}"),), "bytes"),
    Panel(
        "Other resources",
        (
            (
                "max by (queue_name, resource) (volcano_queue_allocated_scalar_resources) / 1000",
                "{{queue_name}} {{resource}}",
            ),
        ),
    ),
)

_BACKLOG = "max by (queue_name) (volcano_queue_pod_group_{phase}_count)"

BACKLOG: tuple[Panel, ...] = (
    Panel("Jobs that wait for admission", ((_BACKLOG.format(phase="pending"), "{{queue_name}}"),)),
    Panel("Jobs that wait for places", ((_BACKLOG.format(phase="inqueue"), "{{queue_name}}"),)),
    Panel("Share that is held", (("max by (queue_name) (volcano_queue_share)", "{{queue_name}}"),), "percentunit"),
    Panel(
        "Devices asked for and not held",
        (
            (
                "(max by (queue_name, resource) (volcano_queue_request_scalar_resources)"
                " - max by (queue_name, resource) (volcano_queue_allocated_scalar_resources)) / 1000",
                "{{queue_name}} {{resource}}",
            ),
        ),
    ),
)

GPUS: tuple[Panel, ...] = (
    Panel("Utilization", (("DCGM_FI_DEV_GPU_UTIL", "{{Hostname}} {{gpu}}"),), "percent"),
    Panel("Utilization of all cards", (("avg(DCGM_FI_DEV_GPU_UTIL)", "average"),), "percent"),
    Panel(
        "Memory in use",
        (("DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)", "{{Hostname}} {{gpu}}"),),
        "percentunit",
    ),
    Panel("Temperature", (("DCGM_FI_DEV_GPU_TEMP", "{{Hostname}} {{gpu}}"),), "celsius"),
    Panel("Power", (("DCGM_FI_DEV_POWER_USAGE", "{{Hostname}} {{gpu}}"),), "watt"),
    Panel("SM clock, MHz", (("DCGM_FI_DEV_SM_CLOCK", "{{Hostname}} {{gpu}}"),)),
    Panel(
        "New ECC errors",
        (
            ("increase(DCGM_FI_DEV_ECC_SBE_VOL_TOTAL[$__rate_interval])", "{{Hostname}} {{gpu}} corrected"),
            ("increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[$__rate_interval])", "{{Hostname}} {{gpu}} uncorrected"),
        ),
    ),
    Panel(
        "Cards that queues hold",
        (
            (
                'max by (queue_name, resource) (volcano_queue_allocated_scalar_resources{resource=~".*gpu.*"}) / 1000',
                "{{queue_name}} {{resource}}",
            ),
        ),
    ),
)

PROCESSES: tuple[Panel, ...] = (
    Panel("Leaders", (("sum by (name) (leader_election_master_status)", "{{name}}"),)),
    Panel("CPU", (("rate(process_cpu_seconds_total[$__rate_interval])", "{{job}} {{instance}}"),), "cores"),
    Panel("Memory", (("process_resident_memory_bytes", "{{job}} {{instance}}"),), "bytes"),
    Panel(
        "Requests",
        (("sum by (job, code) (rate(rest_client_requests_total[$__rate_interval]))", "{{job}} {{code}}"),),
        "reqps",
    ),
    Panel("Time to the answer, p99", _quantiles("rest_client_request_duration_seconds", "verb"), "s"),
    Panel(
        "Silence of watches", (("max by (job, resource) (unisono_watch_silent_seconds)", "{{job}} {{resource}}"),), "s"
    ),
    Panel(
        "Webhook's answers",
        (("sum by (path, outcome) (rate(unisono_webhook_answers_total[$__rate_interval]))", "{{path}} {{outcome}}"),),
        "ops",
    ),
)

DASHBOARDS: dict[str, tuple[str, tuple[Panel, ...]]] = {
    "unisono-scheduler": ("Unisono: scheduler", SCHEDULER),
    "unisono-queues": ("Unisono: queues", (*BACKLOG, *QUEUES)),
    "unisono-gpus": ("Unisono: GPUs", GPUS),
    "unisono-processes": ("Unisono: processes", PROCESSES),
}


def dashboard(name: str) -> dict[str, Any]:
    """The dashboard of that name in Grafana's JSON: two panels in a row, a data source to be chosen."""
    title, panels = DASHBOARDS[name]
    return {
        "uid": name,
        "title": title,
        "tags": ["unisono"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend, "datasource": source}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }
