"""Devices of each vendor, found in trees of files, and what nodes and containers make of them.

The trees are made here from tables, in the shapes that Linux documents: the KFD topology (drivers/gpu/drm/amd/amdkfd),
``mem_info_vram_total`` (Documentation/gpu/amdgpu), PCI devices (ABI/testing/sysfs-bus-pci), graphics cards (class drm)
and adapters (ABI/stable/sysfs-class-infiniband). None was copied from a machine. NVML's answers are played by an object
with the functions and fields of NVIDIA's nvml.h.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from agent_node import Node, manifest
from hypothesis import given
from hypothesis import strategies as st

from support.memory import MemoryClient
from unisono.agent.devices import vendors
from unisono.agent.devices.inventory import Accelerator, Inventory, choose, counts, variables_of
from unisono.agent.devices.nvidia import Gpu, MigInstance, find_gpus, gpu_labels, inventory
from unisono.agent.devices.slices import card_devices
from unisono.agent.devices.vendors import find_devices
from unisono.agent.machine.facts import Machine
from unisono.agent.node import build_node
from unisono.errors import AgentError


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Files by path; a content that begins with ``->`` makes a link."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("->"):
            path.symlink_to(content[2:])
        else:
            path.write_text(f"{content}\n")
    return root


def card(number: int, address: str, vendor: str, model: str, driver: str = "", **files: str) -> dict[str, str]:
    """A card of class drm with a connector, which is no card."""
    folder = f"class/drm/card{number}/device"
    found = {
        f"{folder}/vendor": vendor,
        f"{folder}/device": model,
        f"{folder}/uevent": f"DRIVER={driver}\nPCI_SLOT_NAME={address}",
        f"class/drm/card{number}-HDMI-A-1/status": "disconnected",
        **{f"{folder}/{name}": value for name, value in files.items()},
    }
    return found | ({f"{folder}/driver": f"->../../../bus/pci/drivers/{driver}"} if driver else {})


def kfd(number: int, location: int = 0, domain: int = 0, simd: int = 0, gpu: int = 0) -> dict[str, str]:
    folder = f"class/kfd/kfd/topology/nodes/{number}"
    text = f"cpu_cores_count {0 if simd else 64}\nsimd_count {simd}\nlocation_id {location}\ndomain {domain}"
    return {f"{folder}/properties": text, f"{folder}/gpu_id": str(gpu)}


# Two processors, two cards of the model MI300X, and a card on the board that cannot compute.
AMD_TREE = {
    **kfd(0), **kfd(1), **kfd(10, 0x8500, simd=1216, gpu=4242), **kfd(2, 0x0500, simd=1216, gpu=1111),
    **card(0, "0000:02:00.0", "0x1002", "0x1638"),
    **card(2, "0000:85:00.0", "0x1002", "0x74a1", "amdgpu", numa_node="1", mem_info_vram_total=str(192 << 30)),
    **card(1, "0000:05:00.0", "0x1002", "0x74a1", "amdgpu", numa_node="0", mem_info_vram_total=str(192 << 30)),
}  # fmt: skip
INTEL_TREE = {
    **card(0, "0000:02:00.0", "0x1a03", "0x2000", "ast"),
    **card(1, "0000:3a:00.0", "0x8086", "0x0bd5", "i915", **{"class": "0x038000", "numa_node": "-1"}),
    **card(2, "0000:4a:00.0", "0x8086", "0x0bd5", "i915", **{"class": "0x038000", "numa_node": "1"}),
    **card(10, "0000:5a:00.0", "0x8086", "0xe20b", "xe", **{"class": "0x030000"}),
    **card(3, "0000:6a:00.0", "0x8086", "0x0bd5"),
}


def pci(address: str, vendor: str, model: str, driver: str = "", numa: str = "-1") -> dict[str, str]:
    folder = f"bus/pci/devices/{address}"
    found = {f"{folder}/vendor": vendor, f"{folder}/device": model, f"{folder}/numa_node": numa}
    return found | ({f"{folder}/driver": f"->../../../../bus/pci/drivers/{driver}"} if driver else {})


ASCEND_TREE = {
    **pci("0000:c1:00.0", "0x19e5", "0xd802", "devdrv_device_driver", "3"),
    **pci("0000:81:00.0", "0x19e5", "0xd802", "devdrv_device_driver", "2"),
    # Without a driver, another device of the vendor, another vendor.
    **pci("0000:82:00.0", "0x19e5", "0xd802"),
    **pci("0000:83:00.0", "0x19e5", "0xa222", "hns3"),
    **pci("0000:84:00.0", "0x8086", "0xd802", "ice"),
}


def adapter(name: str, *states: str, layer: str = "InfiniBand", numa: str = "0") -> dict[str, str]:
    found = {f"class/infiniband/{name}/device/numa_node": numa}
    for number, state in enumerate(states, 1):
        port = f"class/infiniband/{name}/ports/{number}"
        found |= {f"{port}/state": state, f"{port}/link_layer": layer, f"{port}/rate": "400 Gb/sec (4X NDR)"}
    return found


RDMA_TREE = {
    **adapter("mlx5_10", "4: ACTIVE", numa="1"),
    **adapter("mlx5_2", "1: DOWN", "4: ACTIVE", layer="Ethernet"),
    **adapter("mlx5_1", "1: DOWN"),
}


def test_amd(tmp_path: Path) -> None:
    found = vendors.find_amd(write(tmp_path, AMD_TREE))
    assert found.devices == (
        Accelerator("amd-0000:05:00.0", "amd.com/gpu", "0", numa=0),
        Accelerator("amd-0000:85:00.0", "amd.com/gpu", "1", numa=1),
    )
    assert found.labels == {
        "amd.com/gpu.device-id": "74a1",
        "amd.com/gpu.vram": "192G",
        "amd.com/gpu.simd-count": "1216",
    }


def test_intel(tmp_path: Path) -> None:
    found = vendors.find_intel(write(tmp_path, INTEL_TREE))
    assert [(each.id, each.resource, each.shown, each.numa) for each in found.devices] == [
        ("intel-0000:3a:00.0", "gpu.intel.com/i915", "0", None),
        ("intel-0000:4a:00.0", "gpu.intel.com/i915", "1", 1),
        ("intel-0000:5a:00.0", "gpu.intel.com/xe", "2", None),
    ]
    assert found.labels["gpu.intel.com/device-id.0380-0bd5.count"] == "2"
    assert found.labels["gpu.intel.com/device-id.0300-e20b.present"] == "true"


def test_ascend(tmp_path: Path) -> None:
    found = vendors.find_ascend(write(tmp_path, ASCEND_TREE))
    assert [(each.id, each.resource, each.numa) for each in found.devices] == [
        ("ascend-0000:81:00.0", "huawei.com/Ascend910", 2),
        ("ascend-0000:c1:00.0", "huawei.com/Ascend910", 3),
    ]
    assert found.labels == {"accelerator": "huawei-Ascend910"}


def test_rdma(tmp_path: Path) -> None:
    found = vendors.find_rdma(write(tmp_path, RDMA_TREE))
    assert [(each.shown, each.healthy, each.numa) for each in found.devices] == [
        ("mlx5_1", False, 0),
        ("mlx5_2", True, 0),
        ("mlx5_10", True, 1),
    ]
    assert (counts([found]), counts([found], healthy=True)) == ({"rdma/hca": 3000}, {"rdma/hca": 2000})
    assert found.labels["feature.node.kubernetes.io/rdma.available"] == "true"


def test_a_machine_with_all_of_them_and_one_with_none(tmp_path: Path) -> None:
    write(tmp_path / "all", {**AMD_TREE, **RDMA_TREE, **ASCEND_TREE})
    assert [each.devices[0].resource for each in find_devices(tmp_path / "all")] == [
        "amd.com/gpu", "huawei.com/Ascend910", "rdma/hca",
    ]  # fmt: skip
    assert find_devices(tmp_path / "none") == ()


@pytest.mark.parametrize("content", ["", "nonsense", "-1", "\ufffd" * 4000])
def test_files_that_say_nonsense(tmp_path: Path, content: str) -> None:
    """Nothing raises, whatever a driver writes."""
    tree = {**AMD_TREE, **INTEL_TREE, **ASCEND_TREE, **RDMA_TREE}
    write(tmp_path, {name: value if value.startswith("->") else content for name, value in tree.items()})
    assert all(not each.healthy for found in find_devices(tmp_path) for each in found.devices)


# --- NVIDIA ---------------------------------------------------------------------------------------------------------


class NVMLError(Exception):
    pass


class FakeNvml(ModuleType):
    """A driver with one whole card, one divided one, and one whose memory failed."""

    NVMLError = NVMLError

    def __init__(self) -> None:
        super().__init__("pynvml")

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlShutdown(self) -> None: ...  # noqa: N802

    def __getattr__(self, name: str) -> Any:
        return {
            "nvmlDeviceGetCount": lambda: 3,
            "nvmlDeviceGetHandleByIndex": lambda index: f"card-{index}",
            "nvmlDeviceGetUUID": lambda handle: f"UUID-{handle}".encode(),
            "nvmlDeviceGetName": lambda _: "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=80 << 30),
            "nvmlSystemGetDriverVersion": lambda: "550.54.15",
            "nvmlDeviceGetCudaComputeCapability": lambda _: (9, 0),
            "nvmlDeviceGetMigMode": _mig_mode,
            "nvmlDeviceGetMaxMigDeviceCount": lambda _: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": _part,
            "nvmlDeviceGetAttributes": _attributes,
            "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(
                busId=f"00000000:{17 + int(handle[-1])}:00.0".encode()
            ),
            "nvmlDeviceGetRemappedRows": lambda handle: [0, 1, 0, 1] if handle == "card-2" else [0, 0, 0, 0],
        }[name]


def _mig_mode(handle: str) -> list[int]:
    if handle == "card-0":
        raise NVMLError("not supported")
    return [int(handle == "card-1"), 0]


def _part(handle: str, number: int) -> str:
    if number not in (0, 2, 5):
        raise NVMLError("not found")
    return f"{handle}-part-{number}"


def _attributes(part: str) -> Any:
    slices, computing, memory = {"0": (3, 3, 40448), "2": (1, 1, 9728), "5": (3, 1, 40448)}[part[-1]]
    return SimpleNamespace(gpuInstanceSliceCount=slices, computeInstanceSliceCount=computing, memorySizeMB=memory)


def test_nvidia(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    real = "devices/pci0000:16/0000:16:01.0/0000:17:00.0"
    write(tmp_path, {f"{real}/numa_node": "1", "bus/pci/devices/0000:17:00.0": f"->../../../{real}"})
    whole, divided, failed = find_gpus(tmp_path)
    assert [(each.numa, each.root) for each in (whole, divided)] == [(1, "pci0000:16"), (None, "")]
    (device,) = inventory((whole,)).devices
    assert (device.numa, device.root) == (1, "pci0000:16")
    pci_root = (card_devices((whole,))[0].attributes or {})["resource.kubernetes.io/pcieRoot"]
    assert pci_root.string_value == "pci0000:16"
    assert (whole.divided, whole.healthy, failed.healthy) == (False, True, False)
    assert [each.profile for each in divided.instances] == ["3g.40gb", "1g.10gb", "1c.3g.40gb"]
    found = inventory((whole, divided, failed))
    assert counts([found]) == {
        "nvidia.com/gpu": 2000,
        "nvidia.com/mig-3g.40gb": 1000,
        "nvidia.com/mig-1g.10gb": 1000,
        "nvidia.com/mig-1c.3g.40gb": 1000,
    }
    assert counts([found], healthy=True)["nvidia.com/gpu"] == 1000
    labels = gpu_labels((whole, divided, failed))
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/mig.strategy"]) == ("2", "mixed")
    assert labels["nvidia.com/mig-1g.10gb.count"] == "1"
    # Claims are for whole cards that work, under the numbers that they have.
    assert [each.name for each in card_devices((divided, whole, failed))] == ["gpu-1"]


def test_a_machine_whose_cards_are_divided_hides_them_from_containers_without_any() -> None:
    cards = (Gpu("GPU-0", "NVIDIA A100", 40 << 30, divided=True),)
    assert variables_of([inventory(cards)], []) == {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


# --- nodes and containers ------------------------------------------------------------------------------------------

PARTED = Gpu(
    "GPU-0", "NVIDIA A100", 40 << 30, divided=True, instances=tuple(MigInstance(f"MIG-{i}", "1g.5gb") for i in range(2))
)
MIXED = (
    Inventory(
        tuple(Accelerator(f"amd-{i}", "amd.com/gpu", str(i), healthy=i != 1) for i in range(3)),
        {"amd.com/gpu.vram": "64G"},
        {"ROCR_VISIBLE_DEVICES": ""},
    ),
    Inventory((Accelerator("rdma-mlx5_0", "rdma/hca", "mlx5_0"),), {}, {"NCCL_IB_HCA": None}),
)
MACHINE = Machine("here", 4000, 8 << 30, 64 << 30, ("127.0.0.1",), gpus=(PARTED,), others=MIXED)


def test_the_node_says_what_it_has_and_what_works() -> None:
    node = build_node("here", MACHINE, now=0)
    capacity, allocatable = node.status.capacity or {}, node.status.allocatable or {}
    assert (capacity["amd.com/gpu"], allocatable["amd.com/gpu"]) == ("3", "2")
    assert allocatable["nvidia.com/mig-1g.5gb"] == "2"
    assert "nvidia.com/gpu" not in allocatable
    assert (node.metadata.labels or {})["amd.com/gpu.vram"] == "64G"


def test_too_few() -> None:
    with pytest.raises(AgentError, match=r"needs 3 amd\.com/gpu, and 2 are free"):
        choose(MIXED[0].devices, {"a": {"amd.com/gpu": 2}, "b": {"amd.com/gpu": 1}}, [])


async def test_containers_see_their_devices_alone(tmp_path: Path) -> None:
    node = Node(MemoryClient(), tmp_path / "agent", machine=MACHINE)
    await node.start()
    try:
        show = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES:$ROCR_VISIBLE_DEVICES:$NCCL_IB_HCA; sleep 1000"]
        limits = {"amd.com/gpu": "1", "rdma/hca": "1", "nvidia.com/mig-1g.5gb": "1"}
        node.run(manifest("one", show, container={"resources": {"limits": limits}}))
        await node.phase("one", "Running")
        last = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES:$ROCR_VISIBLE_DEVICES:$NCCL_IB_HCA"]
        limits = {"amd.com/gpu": "1", "nvidia.com/mig-1g.5gb": "1"}
        # Killed and started again, the agent knows who has what.
        node.abandon()
        await node.start()
        node.run(manifest("two", last, container={"resources": {"limits": limits}}))
        node.run(manifest("none", last))
        for name, shown in (("two", "MIG-1:2:\n"), ("none", "::\n")):
            await node.phase(name, "Succeeded")
            assert await node.log(name) == shown
        assert (await node.log("one")).startswith("MIG-0:0:mlx5_0")
        node.run(manifest("three", last, container={"resources": {"limits": {"amd.com/gpu": "2"}}}))
        assert (await node.phase("three", "Failed")).status.reason == "OutOfamd.com/gpu"
    finally:
        await node.stop()


# --- close together ------------------------------------------------------------------------------------------------


def board(*places: tuple[int | None, str], resource: str = "gpu") -> list[Accelerator]:
    """Devices ``gpu0``, ``gpu1``, ... at these NUMA nodes and PCI roots."""
    return [
        Accelerator(f"{resource}{at}", resource, str(at), numa=numa, root=root)
        for at, (numa, root) in enumerate(places)
    ]


A, B, C = (0, "pci0000:10"), (0, "pci0000:20"), (1, "pci0000:80")
SERVER = [*board(A, A, B, B, C, C), *board(C, B, A, resource="nic")]
CLOSE: dict[str, tuple[dict[str, int], list[str], list[str]]] = {
    "on one root": ({"gpu": 1, "nic": 1}, [], ["gpu0", "nic2"]),
    "on the root where both are left": ({"gpu": 1, "nic": 1}, ["nic2", "gpu2", "gpu3"], ["gpu4", "nic0"]),
    "two cards with their adapter": ({"gpu": 2, "nic": 1}, ["gpu0"], ["gpu2", "gpu3", "nic1"]),
    "on one node, where no root has enough": ({"gpu": 3, "nic": 1}, [], ["gpu0", "gpu1", "gpu2", "nic1"]),
    "on both nodes, where none has enough": (
        {"gpu": 5, "nic": 1},
        [],
        ["gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "nic1"],
    ),
    "where fewest are left, so that pairs stay": ({"gpu": 1}, ["gpu2"], ["gpu3"]),
}


@pytest.mark.parametrize(("amounts", "taken", "expected"), CLOSE.values(), ids=CLOSE)
def test_devices_of_one_container_are_close_together(
    amounts: dict[str, int], taken: list[str], expected: list[str]
) -> None:
    assert choose(SERVER, {"main": amounts}, taken) == {"main": expected}


def test_devices_of_which_nothing_is_known_are_taken_in_order() -> None:
    unknown = [*board((None, ""), (None, "")), *board((None, ""), resource="nic")]
    assert choose(unknown, {"a": {"gpu": 1}, "b": {"gpu": 1, "nic": 1}}, []) == {"a": ["gpu0"], "b": ["gpu1", "nic0"]}


@given(
    st.lists(st.tuples(st.sampled_from([None, 0, 1]), st.sampled_from(["", "x", "y"])), max_size=8),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
)
def test_every_device_is_given_once_or_the_pod_is_refused(
    places: list[tuple[int | None, str]], wanted: list[int]
) -> None:
    amounts = {f"c{at}": {"gpu": count} for at, count in enumerate(wanted)}
    if sum(wanted) > len(places):
        with pytest.raises(AgentError):
            choose(board(*places), amounts, [])
        return
    chosen = choose(board(*places), amounts, [])
    given_ids = [each for ids in chosen.values() for each in ids]
    assert len(given_ids) == len(set(given_ids)) == sum(wanted)
    assert all(len(chosen.get(name, ())) == each["gpu"] for name, each in amounts.items())
