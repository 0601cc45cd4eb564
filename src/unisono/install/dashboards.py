"""Grafana dashboards: what to look at, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
        "Cycles",
        (("sum by (outcome) (rate(unisono_scheduler_cycles_total[$__rate_interval]))", "{{outcome}}"),),
        "ops",
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
    Panel(
        "Share that is held",
        (("max by (queue_name) (volcano_queue_share)", "{{queue_name}}"),),
        "percentunit",
    ),
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
