"""The alerts and panels about GPUs: thresholds, names that exporters have, and the same rules in every form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from unisono.agent.devices.nvidia import FIELDS
from unisono.install.monitoring import DASHBOARDS, GPU_ALERTS, alert_groups, monitors
from unisono.install.workloads import InstallOptions

REPOSITORY = Path(__file__).resolve().parents[2]
EXPORTED = {f"DCGM_FI_DEV_{name}" for name, *_ in FIELDS}
DCGM = re.compile(r"DCGM_[A-Z0-9_]+")
ALERTS = {each.name: each for each in GPU_ALERTS}


@pytest.mark.parametrize(
    ("name", "metric", "threshold", "holds_for"),
    [
        ("GpuUtilizationLow", "DCGM_FI_DEV_GPU_UTIL", "< 30", "10m"),
        ("GpuTemperatureHigh", "DCGM_FI_DEV_GPU_TEMP", "> 85", "2m"),
        ("GpuMemoryHigh", "DCGM_FI_DEV_FB_USED", "> 0.9", "5m"),
        ("GpuPowerHigh", "DCGM_FI_DEV_POWER_USAGE", "> 0.95", "5m"),
        ("GpuEccErrorsGrow", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "> 0", "0m"),
    ],
)
def test_thresholds(name: str, metric: str, threshold: str, holds_for: str) -> None:
    alert = ALERTS[name]
    assert metric in alert.expression
    assert alert.expression.endswith(threshold)
    assert alert.holds_for == holds_for


def test_all_that_alerts_and_panels_name_is_exported_by_the_agent_too() -> None:
    queries = [each.expression for each in GPU_ALERTS]
    queries += [query for _, panels in DASHBOARDS.values() for panel in panels for query, _ in panel.queries]
    named = {name for query in queries for name in DCGM.findall(query)}
    assert len(named) >= 9
    assert named <= EXPORTED


def test_the_plain_rules_are_those_of_the_operator() -> None:
    plain = yaml.safe_load((REPOSITORY / "deploy" / "monitoring" / "rules.yaml").read_text())
    assert plain == {"groups": alert_groups()}
    [rule] = [each for each in monitors(InstallOptions()) if each["kind"] == "PrometheusRule"]
    assert rule["spec"]["groups"] == plain["groups"]
    assert {each["alert"] for each in plain["groups"][1]["rules"]} == set(ALERTS)


def test_each_query_is_promql() -> None:
    parser = pytest.importorskip("promql_parser", reason="the PromQL parser is not installed")
    for group in alert_groups():
        for rule in group["rules"]:
            parser.parse(rule["expr"])
    for _, panels in DASHBOARDS.values():
        for panel in panels:
            for query, _ in panel.queries:
                parser.parse(query.replace("$__rate_interval", "5m"))
