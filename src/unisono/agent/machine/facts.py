"""What this machine has: processors, memory, disk, addresses, kernel and cards."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from unisono.agent import shim
from unisono.agent.devices.inventory import CardSharing, Inventory, shared
from unisono.agent.devices.nvidia import Gpu, find_gpus, inventory
from unisono.agent.devices.vendors import find_devices
from unisono.agent.machine.cgroups import Cgroups, LimitGroups
from unisono.agent.machine.procfs import PROC, boot_id
from unisono.agent.network import pod_network
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
    addresses: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # No packet is sent: connecting a datagram socket only chooses the route. The address is TEST-NET-1.
            probe.connect(("192.0.2.1", 9))
            addresses.append(probe.getsockname()[0])
        except OSError:
            addresses.clear()
    try:
        infos = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except socket.gaierror:
        infos = []
    addresses.extend(str(info[4][0]) for info in infos)
    return list(dict.fromkeys(ip for ip in addresses if not ip.startswith("127.")))


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


# How far this machine lets us give pods a view of their own, tried out once when the agent starts.

Level = Literal["root", "user", "none"]
SHIM = Path(shim.__file__).with_name("__main__.py")
_PROBE_SECONDS = 20
_PROBE_ADDRESS = "127.64.0.1"


@dataclass(frozen=True, slots=True)
class Isolation:
    """What pods get on this machine.

    Attributes:
        level: namespaces as root, through a user namespace, or none at all.
        problem: why not more, for the log.
        cgroups: where pods' cgroups are made, if anywhere.
        limits: where limits of containers are set.
        own_ports: each pod has the ports of its own address (``pod_network``).
    """

    level: Level
    problem: str = ""
    cgroups: Cgroups | None = None
    limits: LimitGroups = field(default_factory=LimitGroups)
    own_ports: bool = False


def shim_command(*arguments: str) -> list[str]:
    """The command line of the shim, run by this very interpreter without its site packages."""
    return [sys.executable, "-I", "-S", str(SHIM), *arguments]


def find_isolation(data_dir: Path, machine_ips: tuple[str, ...], allowed: Level = "root") -> Isolation:
    """Try out what this machine allows; ``allowed`` may ask for less."""
    level, problem = _try_namespaces(data_dir) if allowed != "none" else ("none", "switched off")
    cgroups = Cgroups.find(data_dir)
    may_try = cgroups is not None and allowed != "none" and os.geteuid() == 0
    own_ports = cgroups is not None and may_try and _try_network(cgroups, machine_ips)
    return Isolation(level, problem, cgroups, LimitGroups.find(data_dir, cgroups), own_ports)


def no_namespaces(problem: str) -> str:
    """What users should know where pods get no namespaces, and why they get none."""
    return (
        f"This machine gives pods no namespaces of their own ({problem or 'for an unknown reason'}): names of pods and "
        "Services and mount paths are replaced in commands and variables, and other files do not know them. "
        "Allow unprivileged user namespaces, or run the agent as root, for all of it."
    )


def _try_namespaces(data_dir: Path) -> tuple[Level, str]:
    place = data_dir / "probe"
    place.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            shim_command("--probe", str(place)), capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "none", str(error)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    level, _, problem = done.stdout.strip().partition(" ")
    if level == "root":
        return "root", ""
    if level == "user":
        return "user", ""
    return "none", problem or done.stderr.strip()[-200:]


def _try_network(cgroups: Cgroups, machine_ips: tuple[str, ...]) -> bool:
    path = cgroups.create(f"probe-{os.getpid()}")
    if path is None:
        return False
    try:
        pod_network.isolate(path, _PROBE_ADDRESS, machine_ips)
    except OSError:
        return False
    finally:
        path.rmdir()
    return True
