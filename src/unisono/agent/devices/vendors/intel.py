"""Intel's graphics processors, by the kernel's driver: i915 or xe."""

from __future__ import annotations

from pathlib import Path

from unisono.agent.devices.inventory import Accelerator, Inventory
from unisono.agent.devices.vendors.files import cards, link_name, numa_node, number, pci_root
from unisono.api.keys import INTEL_I915, INTEL_XE

_VENDOR = 0x8086
_RESOURCES = {"i915": INTEL_I915, "xe": INTEL_XE}


def find(sys: Path) -> Inventory:
    """Cards whose driver is loaded, numbered as oneAPI numbers them."""
    found = [
        (address, device, _RESOURCES[driver])
        for address, device in cards(sys, _VENDOR)
        if (driver := link_name(device / "driver")) in _RESOURCES
    ]
    labels: dict[str, str] = {}
    for _, device, _ in found:
        # Class of PCI without its programming interface, and number of the model: as the labels of feature discovery.
        kind, model = number(device / "class", 0) >> 8, number(device / "device", 0)
        name = f"gpu.intel.com/device-id.{kind:04x}-{model:04x}"
        labels[f"{name}.present"] = "true"
        labels[f"{name}.count"] = str(int(labels.get(f"{name}.count", "0")) + 1)
    devices = tuple(
        Accelerator(f"intel-{address}", resource, str(index), numa=numa_node(device), root=pci_root(device))
        for index, (address, device, resource) in enumerate(found)
    )
    return Inventory(devices, labels, {"ZE_AFFINITY_MASK": None})
