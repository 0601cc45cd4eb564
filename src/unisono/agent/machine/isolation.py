"""How far this machine lets us give pods a view of their own, tried out once when the agent starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from unisono.agent import shim
from unisono.agent.machine.cgroups import Cgroups, LimitGroups
from unisono.agent.network import pod_network

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
