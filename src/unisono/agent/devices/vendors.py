"""What this machine has of each vendor: modules with one function, from a folder such as /sys to an inventory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from unisono.agent.devices.inventory import Accelerator, Inventory
from unisono.api import keys

# Small files of the kernel, read with care: devices come and go, and some of their files cannot be read.

_BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_CARD = re.compile(r"card(\d+)")


def text(path: Path) -> str:
    """The content without blanks around it; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def number(path: Path, default: int = -1) -> int:
    """A decimal or, with 0x before it, hexadecimal number."""
    try:
        return int(text(path), 0)
    except ValueError:
        return default


def numa_node(device: Path) -> int | None:
    """The NUMA node of a PCI device; None where the machine has one alone (-1) or does not tell."""
    node = number(device / "numa_node")
    return None if node < 0 else node


def pci_root(device: Path) -> str:
    """The root of the PCI tree on which a device hangs, such as ``pci0000:17``; empty where the machine is silent."""
    try:
        parts = device.resolve().parts
    except (OSError, RuntimeError):
        return ""
    return next((part for part in parts if _ROOT.fullmatch(part)), "")


def pci_devices(sys: Path, vendor: int) -> Iterator[tuple[str, Path]]:
    """Address and folder of each PCI device of a vendor, by address."""
    for path in _listed(sys / "bus" / "pci" / "devices"):
        if _BUS.fullmatch(path.name) and number(path / "vendor") == vendor:
            yield path.name, path


def cards(sys: Path, vendor: int) -> Iterator[tuple[str, Path]]:
    """PCI address and folder of each graphics card of a vendor, by number of the card; connectors are left out."""
    numbered = [
        (int(match[1]), path) for path in _listed(sys / "class" / "drm") if (match := _CARD.fullmatch(path.name))
    ]
    for index, path in sorted(numbered):
        device = path / "device"
        if number(device / "vendor") == vendor:
            yield _address(device) or f"card{index}", device


def link_name(path: Path) -> str:
    """Last part of what a link points to; empty where it is none."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def _address(device: Path) -> str:
    for line in text(device / "uevent").splitlines():
        name, _, value = line.partition("=")
        if name == "PCI_SLOT_NAME":
            return value
    return ""


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


# AMD's cards: those that the kernel's compute driver (KFD) lists, with the memory that amdgpu tells.

_AMD = 0x1002
_GIB = 1 << 30


def find_amd(sys: Path) -> Inventory:
    """Cards that can compute, numbered as ROCm numbers them."""
    computing = _computing(sys)
    devices_by_address = {address: device for address, device in cards(sys, _AMD) if address in computing}
    devices = tuple(
        Accelerator(
            f"amd-{address}",
            keys.AMD_GPU,
            str(index),
            healthy=True,
            numa=numa_node(devices_by_address[address]),
            root=pci_root(devices_by_address[address]),
        )
        for index, address in enumerate(address for address in computing if address in devices_by_address)
    )
    if not devices:
        return Inventory()
    first = next(iter(computing))
    device = devices_by_address.get(first, next(iter(devices_by_address.values())))
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
    properties_by_address: dict[str, dict[str, int]] = {}
    for _, path in names:
        properties = _properties(path / "properties")
        # Processors are nodes, too.
        if number(path / "gpu_id", 0) == 0 or properties.get("simd_count", 0) == 0:
            continue
        location, domain = properties.get("location_id", 0), properties.get("domain", 0)
        address = f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
        properties_by_address.setdefault(address, properties)
    return properties_by_address


def _properties(path: Path) -> dict[str, int]:
    values = {}
    for line in text(path).splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isascii() and value.strip().isdigit():
            values[name] = int(value)
    return values


# Huawei's Ascend processors, by their PCI devices.

_HUAWEI = 0x19E5
_MODELS = {0xD100: keys.ASCEND_310, 0xD500: keys.ASCEND_310P, 0xD801: keys.ASCEND_910, 0xD802: keys.ASCEND_910}


def find_ascend(sys: Path) -> Inventory:
    """Processors that a driver serves, in the order of their addresses."""
    processors = [
        (address, device, resource)
        for address, device in pci_devices(sys, _HUAWEI)
        if (resource := _MODELS.get(number(device / "device"))) is not None and link_name(device / "driver")
    ]
    devices = tuple(
        Accelerator(f"ascend-{address}", resource, str(index), numa=numa_node(device), root=pci_root(device))
        for index, (address, device, resource) in enumerate(processors)
    )
    if not devices:
        return Inventory()
    labels = {"accelerator": f"huawei-{devices[0].resource.rpartition('/')[2]}"}
    return Inventory(devices, labels, {"ASCEND_RT_VISIBLE_DEVICES": None})


# Intel's graphics processors, by the kernel's driver: i915 or xe.

_INTEL = 0x8086
_RESOURCES = {"i915": keys.INTEL_I915, "xe": keys.INTEL_XE}


def find_intel(sys: Path) -> Inventory:
    """Cards whose driver is loaded, numbered as oneAPI numbers them."""
    supported = [
        (address, device, _RESOURCES[driver])
        for address, device in cards(sys, _INTEL)
        if (driver := link_name(device / "driver")) in _RESOURCES
    ]
    labels: dict[str, str] = {}
    for _, device, _ in supported:
        # Class of PCI without its programming interface, and number of the model: as the labels of feature discovery.
        kind, model = number(device / "class", 0) >> 8, number(device / "device", 0)
        name = f"gpu.intel.com/device-id.{kind:04x}-{model:04x}"
        labels[f"{name}.present"] = "true"
        labels[f"{name}.count"] = str(int(labels.get(f"{name}.count", "0")) + 1)
    devices = tuple(
        Accelerator(f"intel-{address}", resource, str(index), numa=numa_node(device), root=pci_root(device))
        for index, (address, device, resource) in enumerate(supported)
    )
    return Inventory(devices, labels, {"ZE_AFFINITY_MASK": None})


# Network adapters with RDMA: InfiniBand, and Ethernet with RoCE.


def find_rdma(sys: Path) -> Inventory:
    """Adapters by name; one without an active port is unhealthy."""
    devices, layers = [], set()
    for path in sorted((sys / "class" / "infiniband").glob("*"), key=lambda each: (len(each.name), each.name)):
        ports = sorted(path.glob("ports/*"))
        if not ports:
            continue
        # Such as "4: ACTIVE" and "InfiniBand".
        active = [port for port in ports if text(port / "state").startswith("4")]
        layers |= {text(port / "link_layer") for port in active}
        name = path.name
        devices.append(
            Accelerator(
                f"rdma-{name}", keys.RDMA_HCA, name, bool(active), numa_node(path / "device"), pci_root(path / "device")
            )
        )
    if not devices:
        return Inventory()
    labels = {keys.RDMA_CAPABLE: "true", keys.RDMA_AVAILABLE: "true" if layers else "false"}
    # Which adapters NCCL uses; a job that asks for none keeps NCCL's own choice.
    return Inventory(tuple(devices), labels, {"NCCL_IB_HCA": None})


Vendor = Callable[[Path], Inventory]
"""Looks at the files of the kernel below a folder; finds nothing where there is nothing, and never fails."""

SYS = Path("/sys")
VENDORS: tuple[Vendor, ...] = (find_amd, find_intel, find_ascend, find_rdma)
"""All but NVIDIA, whose driver is asked by its library."""


def find_devices(sys: Path = SYS) -> tuple[Inventory, ...]:
    """The inventories of all vendors of which something was found."""
    return tuple(found for vendor in VENDORS if (found := vendor(sys)).devices)
