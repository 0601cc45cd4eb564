"""What this machine has: processors, memory, disk, addresses, kernel and cards."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from dataclasses import dataclass, field, replace
from pathlib import Path

from unisono.agent.devices.inventory import Inventory
from unisono.agent.devices.nvidia import Gpu, find_gpus, inventory
from unisono.agent.devices.sharing import CardSharing, shared
from unisono.agent.devices.vendors import find_devices
from unisono.agent.machine.procfs import PROC, boot_id
from unisono.errors import AgentError

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about a machine; sizes in bytes, CPU in milli-cores.

    Attributes:
        gpus: NVIDIA's cards.
        others: devices of other vendors.
        shares: how cards of NVIDIA are shared by several containers.
    """

    hostname: str
    cpu: int
    memory: int
    disk: int
    addresses: tuple[str, ...]
    architecture: str = "amd64"
    kernel: str = ""
    os_image: str = "Linux"
    machine_id: str = ""
    boot_id: str = ""
    gpus: tuple[Gpu, ...] = field(default=())
    others: tuple[Inventory, ...] = field(default=())
    shares: tuple[CardSharing, ...] = field(default=())

    @property
    def inventories(self) -> tuple[Inventory, ...]:
        """Devices of all vendors."""
        return (*((shared(inventory(self.gpus), self.shares),) if self.gpus else ()), *self.others)

    @property
    def whole_cards(self) -> tuple[Gpu, ...]:
        """NVIDIA's cards without those that are shared: resource claims give whole cards."""
        kept = {device.id for found in self.inventories for device in found.devices}
        return tuple(
            replace(gpu, divided=gpu.divided or gpu.uuid not in kept) if not gpu.divided else gpu for gpu in self.gpus
        )

    @property
    def address(self) -> str:
        """The address that other programs of this machine's network know, loopback when it has none."""
        return self.addresses[0] if self.addresses else "127.0.0.1"


def hostname() -> str:
    """Name of this machine, as its node has it."""
    return socket.gethostname().lower()


def this_machine(data_dir: Path) -> Machine:
    """Look at the machine that runs this process.

    Args:
        data_dir: the file system under it gives the ephemeral storage.

    Raises:
        AgentError: this is not Linux.
    """
    if platform.system() != "Linux":
        raise AgentError(
            f"Pods run as processes on Linux only, and this is {platform.system()}: "
            "start without the node agent (unisono up --no-agent) and add simulated nodes (--nodes FILE)."
        )
    data_dir.mkdir(parents=True, exist_ok=True)
    return Machine(
        hostname=hostname(),
        cpu=_cpus() * 1000,
        memory=_memory(),
        disk=shutil.disk_usage(data_dir).total,
        addresses=tuple(machine_addresses()),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_os_image(),
        machine_id=_first_line(Path("/etc/machine-id")),
        boot_id=boot_id(),
        gpus=find_gpus(),
        others=find_devices(),
    )


def machine_addresses() -> list[str]:
    """IPv4 addresses of this machine but loopback, the one that leads outside first."""
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # No packet is sent: connecting a datagram socket only chooses the route. The address is TEST-NET-1.
            probe.connect(("192.0.2.1", 9))
            found.append(probe.getsockname()[0])
        except OSError:
            found.clear()
    try:
        infos = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except socket.gaierror:
        infos = []
    found.extend(str(info[4][0]) for info in infos)
    return list(dict.fromkeys(ip for ip in found if not ip.startswith("127.")))


def _cpus() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) or os.cpu_count() or 1


def _memory(proc: Path = PROC) -> int:
    """Memory in bytes, no more than the cgroup (v2) of this process may use."""
    total = 0
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * 1024
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        limit = "max"
    return min(total, int(limit)) if limit.isdigit() else total


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _first_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
