"""gpu-aware: raw scores from labels, and the nodes that pods end on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import build
from unisono.cluster.state import ClusterState
from unisono.engine.config.model import PluginConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.gpu_placement import GpuAwarePlugin
from unisono.engine.session.session import Session

EXAMPLE = Path(__file__).resolve().parents[1] / "manifests" / "11-gpu-aware.conf"
LABELS: dict[str, dict[str, str]] = {
    "t4": {"gpu.product": "Tesla-T4", "gpu.memory": "15360", "gpu.compute.major": "7", "gpu.compute.minor": "5"},
    "a100": {
        "gpu.product": "NVIDIA-A100-SXM4-40GB",
        "gpu.memory": "40960",
        "gpu.compute.major": "8",
        "gpu.compute.minor": "0",
    },
    "h100": {
        "gpu.product": "NVIDIA-H100-PCIe",
        "gpu.memory": "81559",
        "gpu.compute.major": "9",
        "gpu.compute.minor": "0",
    },
    "cpu": {},
    "odd": {"gpu.product": "X", "gpu.memory": "much", "gpu.compute.major": "²"},
}


def fleet(*more: Any) -> ClusterState:
    made = []
    for name, labels in LABELS.items():
        given = {f"nvidia.com/{key}": value for key, value in labels.items()}
        if name == "h100":
            given["feature.node.kubernetes.io/pci-15b3.present"] = "true"
        made.append(build.node(name, labels=given, gpu=0 if name == "cpu" else 8))
    return build.cluster(made, *more)


def raw(arguments: dict[str, float], **pod: Any) -> list[tuple[dict[str, float], float, str]]:
    state = fleet(build.gang("j", 1, **pod))
    session = Session(state.snapshot(), now=0.0)
    plugin = GpuAwarePlugin(PluginConfig("gpu-aware", arguments=arguments))
    plugin.open(session)
    answers = plugin.static_score(state.tasks["ns/j-w-0"].pod_class, session.nodes)
    names = session.nodes.names
    return [
        (dict(zip(names, score.raw.tolist(), strict=True)), score.weight, score.normalise.value) for score in answers
    ]


def test_three_scores_from_labels() -> None:
    memory, compute, comms = raw({"gpuMemoryWeight": 1.0, "gpuComputeWeight": 0.8, "interGPUCommsWeight": 0.5}, gpu=2)
    assert memory == ({"a100": 40960, "cpu": 0, "h100": 81559, "odd": 0, "t4": 15360}, 1.0, "max")
    assert compute == ({"a100": 8.0, "cpu": 0, "h100": 9.0, "odd": 0, "t4": 7.5}, 0.8, "max")
    assert comms == ({"a100": 3, "cpu": 0, "h100": 2, "odd": 1, "t4": 1}, 0.5, "max")


@pytest.mark.parametrize(
    ("arguments", "pod", "scores"),
    [
        ({}, {"gpu": 8}, 3),
        ({}, {"gpu": 1}, 2),
        ({}, {"cpu": 4}, 0),
        ({}, {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4000}, 2),
        ({}, {"volcano.sh/vgpu-number": 2}, 3),
        ({}, {"aliyun.com/gpu-mem": 8}, 2),
        ({"gpuMemoryWeight": 0, "gpuComputeWeight": 0}, {"gpu": 1}, 0),
        ({"interGPUCommsWeight": 0.0}, {"gpu": 8}, 2),
    ],
)
def test_only_what_matters_to_the_pod_is_scored(arguments: dict[str, float], pod: dict[str, int], scores: int) -> None:
    assert len(raw(arguments, **pod)) == scores


@pytest.mark.parametrize(
    ("arguments", "gpus", "node"),
    [
        ({}, 1, "h100"),
        ({"gpuMemoryWeight": 0, "gpuComputeWeight": 0, "interGPUCommsWeight": 1}, 4, "a100"),
        ({"gpuMemoryWeight": 0.1, "gpuComputeWeight": 0.1, "interGPUCommsWeight": 5}, 4, "a100"),
        ({"gpuMemoryWeight": 0, "gpuComputeWeight": 1, "interGPUCommsWeight": 0}, 4, "h100"),
    ],
)
def test_the_better_node_is_taken(arguments: dict[str, float], gpus: int, node: str) -> None:
    settings = build.config(("gang",), ("predicates", "gpu-aware"), arguments={"gpu-aware": arguments})
    decisions = build.schedule(fleet(build.gang("j", 1, gpu=gpus)), settings)
    assert [bind.node for bind in decisions.binds] == [node]


def test_the_example_loads_and_decides() -> None:
    settings = load_config(EXAMPLE.read_text(encoding="utf-8"))
    decisions = build.schedule(fleet(build.gang("j", 2, gpu=4)), settings)
    assert decisions.violations == []
    assert {bind.node for bind in decisions.binds} == {"h100"}
