"""Small files of the kernel, read with care: devices come and go, and some of their files cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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
    found = number(device / "numa_node")
    return None if found < 0 else found


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
    found = [(int(match[1]), path) for path in _listed(sys / "class" / "drm") if (match := _CARD.fullmatch(path.name))]
    for index, path in sorted(found):
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
