"""What a kubelet does with CPUs, read from its own files: its configuration and the state of its CPU manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from unisono.agent.cpus.described import NodeCpus
from unisono.agent.cpus.sysfs import Place
from unisono.api.nodeinfo import ContainerAllocation, PodAllocation
from unisono.api.numa.cpus import parse_cpus, write_cpus
from unisono.api.numa.manager import NONE, POLICIES, STATIC
from unisono.api.quantity import QuantityError, format_milli, to_milli
from unisono.api.yaml import load_all
from unisono.errors import AgentError, ConfigError

STATE_FILE = "cpu_manager_state"
CONFIG_FILE = "config.yaml"
_MOST_BYTES = 4 << 20
_MOST_PODS = 10_000


class _State(msgspec.Struct, rename="camel"):
    """The checkpoint of the CPU manager; ``entries`` are CPUs by pod uid and container."""

    policy_name: str = NONE
    default_cpu_set: str = ""
    entries: dict[str, dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The part of a KubeletConfiguration that is about CPUs.

    Attributes:
        topology_policy: of the topology manager.
        reserved: milli-cores for the system, of which the kubelet chooses the CPUs.
        reserved_cpus: mask of the CPUs that ``reservedSystemCPUs`` names; 0 without it.

    """

    topology_policy: str = NONE
    reserved: int = 0
    reserved_cpus: int = 0


def read_config(path: Path) -> KubeletConfig:
    """A KubeletConfiguration, in YAML or JSON.

    Raises:
        AgentError: it cannot be read, or a value is none that a kubelet takes.

    """
    try:
        documents = load_all(_text(path), str(path))
    except ConfigError as error:
        raise AgentError(str(error)) from error
    value = documents[0].value if documents else {}
    if not isinstance(value, dict):
        raise AgentError(f"{path}: it is not a KubeletConfiguration")
    policy = value.get("topologyManagerPolicy") or NONE
    if policy not in POLICIES:
        raise AgentError(f"{path}: topologyManagerPolicy: {policy!r} is not one of {', '.join(POLICIES)}")
    named = value.get("reservedSystemCPUs")
    reserved = sum(_milli(path, value, field) for field in ("kubeReserved", "systemReserved"))
    return KubeletConfig(str(policy), reserved, _mask(path, "reservedSystemCPUs", str(named)) if named else 0)


def read_state(path: Path, config: KubeletConfig, detail: Mapping[int, Place]) -> NodeCpus:
    """What the CPU manager has done so far.

    CPUs that ``reservedSystemCPUs`` names are not free; of an amount that is reserved, schedulers choose the CPUs as
    the kubelet does.

    Args:
        path: its checkpoint.
        config: of the same kubelet.
        detail: the machine's CPUs.

    Raises:
        AgentError: the checkpoint cannot be read.

    """
    try:
        state = msgspec.json.decode(_text(path), type=_State)
    except msgspec.DecodeError as error:
        raise AgentError(f"{path}: it is not the state of a CPU manager: {error}") from error
    every = sum(1 << cpu for cpu in detail)
    if state.policy_name != STATIC:
        return NodeCpus(state.policy_name, config.topology_policy, None, every, detail)
    if len(state.entries) > _MOST_PODS:
        raise AgentError(f"{path}: it names more than {_MOST_PODS} pods")
    allocations, taken = [], 0
    for uid, containers in sorted(state.entries.items()):
        given = {name: _mask(path, f"entries.{uid}.{name}", cpus) for name, cpus in sorted(containers.items())}
        for mask in given.values():
            taken |= mask
        allocations.append(
            PodAllocation(
                uid=uid,
                container_allocations=[
                    ContainerAllocation(name, {"cpu": write_cpus(mask)}) for name, mask in given.items() if mask
                ],
            )
        )
    free = _mask(path, "defaultCpuSet", state.default_cpu_set) & every & ~taken & ~config.reserved_cpus
    by_amount = config.reserved and not config.reserved_cpus
    amount = format_milli(config.reserved) if by_amount else None
    return NodeCpus(STATIC, config.topology_policy, amount, free, detail, allocations)


def _milli(path: Path, value: Mapping[str, Any], field: str) -> int:
    amounts = value.get(field) or {}
    try:
        return to_milli(amounts.get("cpu", 0))
    except (QuantityError, AttributeError) as error:
        raise AgentError(f"{path}: {field}.cpu is not an amount of CPU") from error


def _mask(path: Path, field: str, text: str) -> int:
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise AgentError(f"{path}: {field}: {error}") from error


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise AgentError(f"{path}: it is larger than {_MOST_BYTES >> 20} MiB")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise AgentError(f"{path}: {error}") from error
