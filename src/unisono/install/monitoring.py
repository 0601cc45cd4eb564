"""Prometheus: what to scrape, and when to send an alert (kinds of the Prometheus operator)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unisono.install.options import InstallOptions, labels, selector
from unisono.install.workloads import components


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
