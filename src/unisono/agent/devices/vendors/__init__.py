"""What this machine has of each vendor: modules with one function, from a folder such as /sys to an inventory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unisono.agent.devices.inventory import Inventory
from unisono.agent.devices.vendors import amd, ascend, intel, rdma

Vendor = Callable[[Path], Inventory]
"""Looks at the files of the kernel below a folder; finds nothing where there is nothing, and never fails."""

SYS = Path("/sys")
VENDORS: tuple[Vendor, ...] = (amd.find, intel.find, ascend.find, rdma.find)
"""All but NVIDIA, whose driver is asked by its library."""


def find_devices(sys: Path = SYS) -> tuple[Inventory, ...]:
    """The inventories of all vendors of which something was found."""
    return tuple(found for vendor in VENDORS if (found := vendor(sys)).devices)
