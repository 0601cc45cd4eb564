"""What the pages say about GPUs, NCCL and the network is what the code does."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import unisono
from support.plane import REPOSITORY
from unisono.agent.devices.nvidia import FIELDS
from unisono.install.monitoring import GPU_ALERTS

MONITORING = (REPOSITORY / "docs" / "monitoring.md").read_text()
TROUBLES = (REPOSITORY / "docs" / "troubleshooting.md").read_text().partition("## Training hangs")[2]
SOURCES = Path(unisono.__file__).parent


def test_the_page_lists_the_alerts_with_their_thresholds() -> None:
    for alert in GPU_ALERTS:
        [row] = re.findall(rf"^\| `{alert.name}` \| (.*) \|$", MONITORING, re.MULTILINE)
        number = float(alert.expression.rpartition(" ")[2])
        shown = number * 100 if 0 < number < 1 else number
        assert not number or f"{shown:.0f}" in row, row
        if alert.holds_for != "0m":
            assert f"for {alert.holds_for.removesuffix('m')} minutes" in row


def test_the_exporters_file_has_all_that_alerts_and_the_agent_name() -> None:
    [csv] = [
        each["data"]["counters.csv"]
        for text in re.findall(r"```yaml\n(.*?)```", MONITORING, re.DOTALL)
        for each in yaml.safe_load_all(text)
        if "counters.csv" in (each.get("data") or {})
    ]
    rows = [[part.strip() for part in line.split(",", 2)] for line in csv.splitlines()]
    named = {name for alert in GPU_ALERTS for name in re.findall(r"DCGM_[A-Z_]+", alert.expression)}
    assert named <= {name for name, _, _ in rows}
    assert {(name, kind) for name, kind, _ in rows} <= {(f"DCGM_FI_DEV_{name}", kind) for name, kind, *_ in FIELDS}


def test_one_variable_of_nccl_is_set() -> None:
    found = set()
    for source in (path.read_text() for path in SOURCES.rglob("*.py")):
        if "NCCL_" not in source and "GLOO_" not in source:
            continue
        texts = [each.value for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Constant)]
        found |= {text for text in texts if isinstance(text, str) and re.fullmatch(r"(NCCL|GLOO)_[A-Z_]+", text)}
    assert found == {"NCCL_IB_HCA"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_commands_on_nodes_are_well_formed() -> None:
    [text] = re.findall(r"```bash\n(.*?)```", TROUBLES, re.DOTALL)
    assert {"ibstat", "perf_query"} <= set(re.findall(r"^(\w+)", text, re.MULTILINE))
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
