"""Huawei's Ascend processors, by their PCI devices."""

from __future__ import annotations

from pathlib import Path

from unisono.agent.devices.inventory import Accelerator, Inventory
from unisono.agent.devices.vendors.files import link_name, numa_node, number, pci_devices, pci_root
from unisono.api.keys import ASCEND_310, ASCEND_310P, ASCEND_910

_VENDOR = 0x19E5
_MODELS = {0xD100: ASCEND_310, 0xD500: ASCEND_310P, 0xD801: ASCEND_910, 0xD802: ASCEND_910}


def find(sys: Path) -> Inventory:
    """Processors that a driver serves, in the order of their addresses."""
    found = [
        (address, device, resource)
        for address, device in pci_devices(sys, _VENDOR)
        if (resource := _MODELS.get(number(device / "device"))) is not None and link_name(device / "driver")
    ]
    devices = tuple(
        Accelerator(f"ascend-{address}", resource, str(index), numa=numa_node(device), root=pci_root(device))
        for index, (address, device, resource) in enumerate(found)
    )
    if not devices:
        return Inventory()
    labels = {"accelerator": f"huawei-{devices[0].resource.rpartition('/')[2]}"}
    return Inventory(devices, labels, {"ASCEND_RT_VISIBLE_DEVICES": None})
