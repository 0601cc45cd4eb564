"""What defrag shows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unisono.cli.commands import defrag
from unisono.cli.commands.defrag import command
from unisono.cli.options import Where
from unisono.cli.overview_lines import objects_of
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.simulator.experiment import config_text

NOW = "2026-11-20T12:00:00Z"


def _node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "64", "pods": "110", "nvidia.com/gpu": "8"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _group(name: str, members: int, phase: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minMember": members},
        "status": {"phase": phase},
    }


def _pod(name: str, group: str, gpus: int, on: str = "") -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": group, "uid": group, "controller": True}
    requests = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "annotations": {
                "scheduling.k8s.io/group-name": group,
                "unisono.io/checkpoint-time": "2026-11-20T11:55:00Z",
            },
            "creationTimestamp": "2026-11-20T10:00:00Z",
            "ownerReferences": [owner],
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            **({"nodeName": on} if on else {}),
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    items = [_node(f"n{at}") for at in range(4)]
    for at in range(4):
        items += [_group(f"small{at}", 1, "Running"), _pod(f"small{at}", f"small{at}", 2, f"n{at}")]
    items += [_group("large", 2, "Inqueue"), _pod("large-0", "large", 8), _pod("large-1", "large", 8)]
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def test_the_plan_as_text(dump: Path) -> None:
    result = _run("--dry-run", "-f", str(dump), "--now", NOW)
    assert result.exit_code == 0, result.output
    assert "24 of 24 idle nvidia.com/gpu are on nodes in use in part." in result.output
    assert "ns/large (queue default) starts with 2 pods when 2 pods move, which lose 10 min of work:" in result.output


def test_the_plan_as_json(dump: Path) -> None:
    answer = json.loads(_run("--dry-run", "-f", str(dump), "--now", NOW, "-o", "json").output)
    assert answer["fragmentation"] == {
        "resource": "nvidia.com/gpu",
        "idle": 24.0,
        "onPartlyUsedNodes": 24.0,
        "share": 1.0,
    }
    (plan,) = answer["plans"]
    assert plan["podGroup"] == "ns/large" and plan["cost"] == {"moves": 2, "lostSeconds": 600.0}
    assert plan["gain"]["pods"] == 2 and plan["gain"]["resources"]["nvidia.com/gpu"] == "16"
    assert len(plan["moves"]) == 2 and answer["notHelped"] == []


HELD = [
    ({"maxMoves": 1}, ["maxMoves"], "2 pods would have to move, and maxMoves is 1"),
    (
        {"minRunTime": "3h"},
        ["minRunTime"],
        "a pod that would have to move has run for 2 h, and minRunTime is 3h",
    ),
    (
        {"maxLostTime": "1m"},
        ["maxLostTime"],
        "a pod that would have to move would lose 5 min of work, and maxLostTime is 1m",
    ),
    (
        {"maxMoves": 1, "minRunTime": "3h"},
        ["maxMoves", "minRunTime"],
        "2 pods would have to move, and maxMoves is 1; "
        "a pod that would have to move has run for 2 h, and minRunTime is 3h",
    ),
]


@pytest.mark.parametrize(("arguments", "limits", "message"), HELD)
def test_the_limit_that_holds_a_gang_is_named(
    dump: Path, tmp_path: Path, arguments: dict[str, Any], limits: list[str], message: str
) -> None:
    config = tmp_path / "scheduler.conf"
    defragment = {"name": "defragment", "arguments": {"maxMoves": 10, **arguments}}
    plugins = [{"name": name} for name in ("priority", "gang", "conformance", "predicates", "binpack")]
    given = {"actions": "enqueue, allocate", "tiers": [{"plugins": plugins}], "configurations": [defragment]}
    config.write_text(json.dumps(given))
    result = _run("--dry-run", "-f", str(dump), "--now", NOW, "--config", str(config))
    assert f"No moves within the limits help:\n  ns/large: {message}" in result.output
    answer = json.loads(_run("--dry-run", "-f", str(dump), "--now", NOW, "--config", str(config), "-o", "json").output)
    assert answer["notHelped"] == ["ns/large"]
    assert answer["notHelpedBecause"] == {"ns/large": {"limits": limits, "message": message}}


def test_a_gang_that_no_limit_holds_is_told_why_it_waits(dump: Path) -> None:
    items = json.loads(dump.read_text())["items"]
    for item in items:
        item["metadata"].pop("ownerReferences", None)  # nobody would make them again
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    answer = json.loads(_run("--dry-run", "-f", str(dump), "--now", NOW, "-o", "json").output)
    because = answer["notHelpedBecause"]["ns/large"]
    assert because["limits"] == [] and because["message"].startswith("no limit holds it: ")


def test_the_limits_of_a_cluster_are_those_of_its_own_configuration(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = objects_of(Where(), (str(dump),))
    asked = []

    def of_cluster(where: Where, files: tuple[str, ...], config: Path | None) -> SchedulerConfig:
        asked.append((files, config))
        found = load_config(config_text(None), "of the cluster")
        return replace(found, action_arguments={**found.action_arguments, "defragment": {"maxMoves": 1}})

    monkeypatch.setattr(defrag, "objects_of", lambda *_: listed)
    monkeypatch.setattr(defrag, "config_of", of_cluster)
    assert "2 pods would have to move, and maxMoves is 1" in _run("--dry-run", "--now", NOW).output
    assert asked == [((), None)]


def test_fewer_moves_can_be_asked_for(dump: Path) -> None:
    result = _run("--dry-run", "-f", str(dump), "--now", NOW, "--max-moves", "1")
    assert "ns/large: 2 pods would have to move, and maxMoves is 1" in result.output


def test_it_never_moves_anything_itself(dump: Path) -> None:
    result = _run("-f", str(dump))
    assert result.exit_code == 2 and "give --dry-run" in result.output
