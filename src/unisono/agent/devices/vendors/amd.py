"""AMD's cards: those that the kernel's compute driver (KFD) lists, with the memory that amdgpu tells."""

from __future__ import annotations

from pathlib import Path

from unisono.agent.devices.inventory import Accelerator, Inventory
from unisono.agent.devices.vendors.files import cards, numa_node, number, pci_root, text
from unisono.api.keys import AMD_GPU

_VENDOR = 0x1002
_GIB = 1 << 30


def find(sys: Path) -> Inventory:
    """Cards that can compute, numbered as ROCm numbers them."""
    computing = _computing(sys)
    found = {address: device for address, device in cards(sys, _VENDOR) if address in computing}
    devices = tuple(
        Accelerator(
            f"amd-{address}",
            AMD_GPU,
            str(index),
            healthy=True,
            numa=numa_node(found[address]),
            root=pci_root(found[address]),
        )
        for index, address in enumerate(address for address in computing if address in found)
    )
    if not devices:
        return Inventory()
    first = next(iter(computing))
    device = found.get(first, next(iter(found.values())))
    labels = {"amd.com/gpu.device-id": f"{number(device / 'device', 0):04x}"}
    if (memory := number(device / "mem_info_vram_total")) > 0:
        labels["amd.com/gpu.vram"] = f"{memory // _GIB}G"
    if (units := computing[first].get("simd_count", 0)) > 0:
        labels["amd.com/gpu.simd-count"] = str(units)
    return Inventory(devices, labels, {"ROCR_VISIBLE_DEVICES": ""})


def _computing(sys: Path) -> dict[str, dict[str, int]]:
    """Properties by PCI address of the nodes of the compute driver that are cards, in its order."""
    nodes = sys / "class" / "kfd" / "kfd" / "topology" / "nodes"
    names = sorted((int(p.name), p) for p in nodes.glob("*") if p.name.isascii() and p.name.isdigit())
    found: dict[str, dict[str, int]] = {}
    for _, path in names:
        properties = _properties(path / "properties")
        # Processors are nodes, too.
        if number(path / "gpu_id", 0) == 0 or properties.get("simd_count", 0) == 0:
            continue
        location, domain = properties.get("location_id", 0), properties.get("domain", 0)
        address = f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
        found.setdefault(address, properties)
    return found


def _properties(path: Path) -> dict[str, int]:
    found = {}
    for line in text(path).splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isascii() and value.strip().isdigit():
            found[name] = int(value)
    return found
