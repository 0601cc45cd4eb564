"""Cards that containers share: NVIDIA's configuration, replicas, labels, who gets which, and the MPS daemon."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from unisono.agent.devices.inventory import choose, counts, parse_sharing, read_sharing, shared, variables_of
from unisono.agent.devices.nvidia import Gpu, MigInstance, MpsDaemon, inventory, mps_variables
from unisono.agent.devices.slices import card_devices
from unisono.agent.host import Devices
from unisono.agent.machine.facts import Machine
from unisono.api.core import Pod
from unisono.errors import AgentError, ConfigError

CARDS = (
    *(Gpu(f"GPU-{index}", "NVIDIA A100-SXM4-80GB", 80 << 30, "550.54.14", (8, 0)) for index in range(2)),
    Gpu("GPU-2", "NVIDIA A100-SXM4-80GB", 80 << 30, "550.54.14", (8, 0), True, (MigInstance("MIG-a", "1g.10gb"),)),
)
# The examples of https://github.com/NVIDIA/k8s-device-plugin (README, v0.17), with the flags that they carry.
SLICED = """
version: v1
flags:
  migStrategy: "mixed"
sharing:
  timeSlicing:
    renameByDefault: false
    failRequestsGreaterThanOne: false
    resources:
    - name: nvidia.com/gpu
      replicas: 10
"""
MPS = """
version: v1
sharing:
  mps:
    renameByDefault: true
    resources:
    - name: nvidia.com/gpu
      replicas: 4
      devices: [0]
"""


def sharing(text: str) -> Any:
    return parse_sharing(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "offered", "labels"),
    [
        (
            SLICED,
            {"nvidia.com/gpu": 20, "nvidia.com/mig-1g.10gb": 1},
            {
                "nvidia.com/gpu.replicas": "10",
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
                "nvidia.com/mps.capable": "false",
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED",
                "nvidia.com/gpu.count": "2",
            },
        ),
        (
            MPS,
            {"nvidia.com/gpu.shared": 4, "nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1},
            {
                "nvidia.com/gpu.replicas": "4",
                "nvidia.com/gpu.sharing-strategy": "mps",
                "nvidia.com/mps.capable": "true",
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
            },
        ),
        (
            SLICED.replace("nvidia.com/gpu\n", "nvidia.com/mig-1g.10gb\n").replace("10\n", "2\n"),
            {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 2},
            {"nvidia.com/mig-1g.10gb.replicas": "2", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        ),
        (
            SLICED.replace("replicas: 10", "replicas: 3, devices: [GPU-1], rename: example.com/part")
            .replace("- name: nvidia.com/gpu\n      ", "- {name: nvidia.com/gpu, ")
            .replace("part\n", "part}\n"),
            {"nvidia.com/gpu": 1, "example.com/part": 3, "nvidia.com/mig-1g.10gb": 1},
            {},
        ),
    ],
    ids=["time slicing", "mps of one card", "a MIG instance", "one card by id, renamed"],
)
def test_what_a_node_offers(text: str, offered: dict[str, int], labels: dict[str, str]) -> None:
    found = shared(inventory(CARDS), sharing(text))
    assert counts([found]) == {name: 1000 * amount for name, amount in offered.items()}
    assert found.labels.items() >= labels.items()


def test_claims_are_offered_whole_cards_alone() -> None:
    machine = Machine("here", 4000, 8 << 30, 64 << 30, (), gpus=CARDS, shares=sharing(MPS))
    assert [device.name for device in card_devices(machine.whole_cards)] == ["gpu-1"]
    machine = Machine("here", 4000, 8 << 30, 64 << 30, (), gpus=CARDS)
    assert [device.name for device in card_devices(machine.whole_cards)] == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("version: v1", "version: v2"), 'version: write "v1"'),
        (("replicas: 10", "replicas: 1"), "sharing.timeSlicing.resources[0].replicas: write a number from 2 to 128"),
        (("replicas: 10", "replicas: many"), "replicas: write a number"),
        (("nvidia.com/gpu", "amd.com/gpu"), "sharing.timeSlicing.resources[0].name: write nvidia.com/gpu or a MIG"),
        (("timeSlicing", "guessing"), "sharing.guessing: unknown; known are timeSlicing and mps"),
        (("renameByDefault: false", "renameByDefault: no way"), "renameByDefault: write true or false"),
        (("- name: nvidia.com/gpu", "- name: nvidia.com/gpu\n      devices: none"), "devices: write all, or a list"),
        (("sharing:", "sharing:\n  mps: {resources: [{name: nvidia.com/gpu}]}"), "either timeSlicing or mps"),
        (("resources:", "other:"), "sharing.timeSlicing.resources: name at least one resource"),
    ],
)
def test_wrong_configurations_name_their_field(change: tuple[str, str], text: str, tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text(SLICED.replace(*change, 1))
    with pytest.raises(ConfigError) as raised:
        read_sharing(file)
    assert text in str(raised.value)
    assert str(file) in str(raised.value)


def pod(name: str, **limits: int) -> Pod:
    resources = {"limits": {key.replace("_", "/", 1).replace("_", "."): limits[key] for key in limits}}
    value = {"metadata": {"name": name, "uid": name}, "spec": {"containers": [{"name": "c", "resources": resources}]}}
    return msgspec.convert(value, Pod)


def test_replicas_come_from_the_cards_that_are_used_least() -> None:
    machine = Machine("here", 4000, 8 << 30, 64 << 30, (), gpus=CARDS[:2], shares=sharing(SLICED))
    devices = Devices(machine)
    given_cards = [devices.allocate(pod(f"p{number}", **{"nvidia.com_gpu": 1}))["c"] for number in range(4)]
    assert [variables_of(machine.inventories, each)["CUDA_VISIBLE_DEVICES"] for each in given_cards] == [
        "GPU-0",
        "GPU-1",
        "GPU-0",
        "GPU-1",
    ]
    both = devices.allocate(pod("two", **{"nvidia.com_gpu": 2}))["c"]
    assert sorted(variables_of(machine.inventories, both)["CUDA_VISIBLE_DEVICES"].split(",")) == ["GPU-0", "GPU-1"]
    many = devices.allocate(pod("many", **{"nvidia.com_gpu": 14}))["c"]
    assert variables_of(machine.inventories, many)["CUDA_VISIBLE_DEVICES"].count("GPU-") == 2
    with pytest.raises(AgentError, match=r"needs 1 nvidia.com/gpu, and 0 are free"):
        devices.allocate(pod("late", **{"nvidia.com_gpu": 1}))
    devices.release("p0")
    assert devices.allocate(pod("late", **{"nvidia.com_gpu": 1}))["c"]


def test_a_container_that_asks_for_several_replicas_is_told_that_they_give_no_more() -> None:
    machine = Machine("here", 4000, 8 << 30, 64 << 30, (), gpus=CARDS, shares=sharing(MPS))
    with pytest.raises(AgentError, match=r"asks for 2 nvidia.com/gpu.shared, which is shared by mps: ask for 1"):
        Devices(machine).allocate(pod("p", **{"nvidia.com_gpu_shared": 2}))


def test_mps_bounds_threads_and_memory(tmp_path: Path) -> None:
    shares = sharing(MPS)
    given_cards = Devices(Machine("here", 4000, 8 << 30, 64 << 30, (), gpus=CARDS, shares=shares)).allocate(
        pod("p", **{"nvidia.com_gpu_shared": 1})
    )["c"]
    assert mps_variables(given_cards, CARDS, shares, tmp_path) == {
        "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=20480M",
    }
    assert mps_variables(["GPU-1"], CARDS, shares, tmp_path) == {}
    assert mps_variables(given_cards, CARDS, sharing(SLICED), tmp_path) == {}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=20), st.integers(1, 3), st.integers(2, 6))
@settings(max_examples=examples(80), deadline=None)
def test_no_replica_is_given_twice_and_cards_are_used_evenly(
    steps: list[tuple[int, int]], cards: int, replicas: int
) -> None:
    found = shared(
        inventory(Gpu(f"GPU-{number}", "x", 1 << 30) for number in range(cards)),
        sharing(SLICED.replace("replicas: 10", f"replicas: {replicas}")),
    )
    held: dict[int, list[str]] = {}
    for who, count in steps:
        held.pop(who, None)
        taken = [device for each in held.values() for device in each]
        if count > cards * replicas - len(taken):
            with pytest.raises(AgentError):
                choose(found.devices, {"c": {"nvidia.com/gpu": count}}, taken)
            continue
        before = Counter(device.partition("::")[0] for device in taken)
        held[who] = choose(found.devices, {"c": {"nvidia.com/gpu": count}}, taken).get("c", [])
        everything = [device for each in held.values() for device in each]
        assert len(set(everything)) == len(everything)
        after = Counter(device.partition("::")[0] for device in everything)
        if count:
            assert max(after.values()) <= max(max(before.values(), default=0), -(-len(everything) // cards))


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ('#!/bin/sh\nenv | grep ^CUDA_MPS > $OUT\necho "$@" >> $OUT\n', ""),
        ("#!/bin/sh\necho An instance of this daemon is already running; exit 1\n", ""),
        ("#!/bin/sh\necho Cannot find MPS control daemon process; exit 1\n", "Cannot find MPS control daemon process"),
    ],
)
async def test_the_daemon(script: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    daemon = MpsDaemon(tmp_path / "agent", str(program))
    if error:
        with pytest.raises(AgentError, match=error):
            await daemon.start()
        return
    await daemon.start()
    assert daemon.pipes.is_dir()
    if "OUT" in script:
        told = await asyncio.to_thread((tmp_path / "out").read_text)
        assert f"CUDA_MPS_PIPE_DIRECTORY={daemon.pipes}" in told
        assert told.endswith("-d\n")
    await daemon.stop()


async def test_a_machine_without_the_daemon_says_so(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="is not on the PATH: install NVIDIA's driver tools, or share by timeSlicing"):
        await MpsDaemon(tmp_path, "no-such-program").start()
