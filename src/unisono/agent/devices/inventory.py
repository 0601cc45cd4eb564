"""Devices of a node: which there are, who holds which, and devices that several pods share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from unisono.api.keys import GPU_PRODUCT, NVIDIA_GPU, NVIDIA_MIG
from unisono.api.yaml import load_all
from unisono.errors import AgentError, ConfigError

# Devices of a machine as its node offers them, of all vendors, and which containers get which.


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device that one container has at a time.

    Attributes:
        id: unlike that of any other device of the machine, and the same after a restart.
        resource: extended resource that it counts for.
        shown: what its variables call it.
        healthy: an unhealthy one counts to the node's capacity, and no pod gets it.
        numa: its NUMA node; None where the machine does not tell.
        root: the root of the PCI tree that it hangs on, such as ``pci0000:17``; empty where the machine does not tell.
    """

    id: str
    resource: str
    shown: str
    healthy: bool = True
    numa: int | None = None
    root: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What one vendor's module found.

    Attributes:
        devices: in the machine's order.
        labels: of the node.
        variables: name of the variable that lists a container's devices for the vendor's programs, and what it says
            to one that has none; None does not set it then.
    """

    devices: tuple[Accelerator, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str | None] = field(default_factory=dict)


def counts(inventories: Iterable[Inventory], *, healthy: bool = False) -> dict[str, int]:
    """Devices by resource, in engine units; with ``healthy`` only those that pods may get."""
    amounts: dict[str, int] = {}
    for inventory in inventories:
        for device in inventory.devices:
            amounts[device.resource] = amounts.get(device.resource, 0) + (1000 if device.healthy or not healthy else 0)
    return amounts


def choose(
    devices: Iterable[Accelerator], wanted: Mapping[str, Mapping[str, int]], taken: Iterable[str]
) -> dict[str, list[str]]:
    """Devices for the containers of a pod: those of one container close together, else in the machine's order.

    Args:
        devices: the machine's.
        wanted: how many of each resource, by container.
        taken: ids that other pods hold.

    Raises:
        AgentError: not enough are free.
    """
    held, free = set(taken), dict[str, list[Accelerator]]()
    for device in _spread(devices, held):
        free.setdefault(device.resource, []).append(device)
    need: dict[str, int] = {}
    for amounts in wanted.values():
        for resource, count in amounts.items():
            need[resource] = need.get(resource, 0) + count
    for resource, count in need.items():
        if count > len(free.get(resource, ())):
            there = len(free.get(resource, ()))
            raise AgentError(f"The pod needs {count} {resource}, and {there} are free on this node.")
    chosen: dict[str, list[str]] = {}
    for name, amounts in wanted.items():
        near = _by_closeness(free, {resource: count for resource, count in amounts.items() if count})
        for resource, given in near.items():
            chosen.setdefault(name, []).extend(device.id for device in given)
            free[resource] = [device for device in free[resource] if device not in given]
    return chosen


def _spread(devices: Iterable[Accelerator], held: Collection[str]) -> list[Accelerator]:
    """Those that are free, in the machine's order; of replicas first those of the cards that are used least."""
    users: dict[str, int] = {}
    for each in held:
        users[each.partition("::")[0]] = users.get(each.partition("::")[0], 0) + 1
    ranked = []
    for device in devices:
        if device.healthy and device.id not in held:
            card = device.id.partition("::")[0]
            ranked.append((users.get(card, 0), device))
            users[card] = users.get(card, 0) + 1
    return [device for _, device in sorted(ranked, key=lambda each: each[0])]


_Place = tuple[int | None, str]


def _by_closeness(
    free: Mapping[str, Sequence[Accelerator]], amounts: Mapping[str, int]
) -> dict[str, list[Accelerator]]:
    """All from one PCI root, else from one NUMA node, else from as few as possible, the same for all resources.

    Of several that have enough the one with the fewest free devices is taken, so that larger sets stay whole.
    """
    for place in (_root, _node):
        groups: dict[_Place, dict[str, list[Accelerator]]] = {}
        for resource in amounts:
            for device in free[resource]:
                if (key := place(device)) is not None:
                    groups.setdefault(key, {}).setdefault(resource, []).append(device)
        fitting = [
            group
            for group in groups.values()
            if all(len(group.get(resource, ())) >= count for resource, count in amounts.items())
        ]
        if fitting:
            closest = min(fitting, key=lambda group: sum(map(len, group.values())))
            return {resource: closest[resource][:count] for resource, count in amounts.items()}
    serves: dict[int | None, int] = {}
    for resource, count in amounts.items():
        there: dict[int | None, int] = {}
        for device in free[resource]:
            there[device.numa] = there.get(device.numa, 0) + 1
        for numa, number in there.items():
            serves[numa] = serves.get(numa, 0) + min(number, count)
    order = {numa: at for at, numa in enumerate(sorted(serves, key=lambda numa: -serves[numa]))}
    return {
        resource: sorted(free[resource], key=lambda device: order[device.numa])[:count]
        for resource, count in amounts.items()
    }


def _root(device: Accelerator) -> _Place | None:
    return (device.numa, device.root) if device.root else None


def _node(device: Accelerator) -> _Place | None:
    return (device.numa, "") if device.numa is not None else None


def variables_of(inventories: Iterable[Inventory], given: Sequence[str]) -> dict[str, str]:
    """Variables that show a container its devices only, for the vendors of which the machine has some."""
    environment: dict[str, str] = {}
    for inventory in inventories:
        own = {device.id: device.shown for device in inventory.devices}
        shown = ",".join(dict.fromkeys(own[each] for each in given if each in own))
        for name, without in inventory.variables.items():
            if shown:
                environment[name] = shown
            elif without is not None:
                environment[name] = without
    return environment


# Cards of this machine that several containers use at a time: time slicing and MPS, configured as NVIDIA's plugin is.
#
# ::
#
#     version: v1
#     sharing:
#       timeSlicing:                 # or mps
#         renameByDefault: false
#         failRequestsGreaterThanOne: true
#         resources:
#           - name: nvidia.com/gpu
#             replicas: 4
#             devices: [0, GPU-3a2b...]      # all without it; numbers or ids

Strategy = Literal["time-slicing", "mps"]

_SECTIONS: Mapping[str, Strategy] = {"timeSlicing": "time-slicing", "mps": "mps"}
_MOST_REPLICAS = 128
_MOST_CLIENTS = 48
"""Processes that one MPS server serves (since Volta)."""
_BETWEEN = "::"


@dataclass(frozen=True, slots=True)
class CardSharing:
    """How the cards of one resource are shared.

    Attributes:
        resource: its name, and ``offered`` that of the replicas.
        replicas: of each card.
        devices: numbers or ids of the cards; empty for all.
        only_one: a container may ask for one replica, since more of them do not give it more of a card.
    """

    strategy: Strategy
    resource: str
    offered: str
    replicas: int
    devices: tuple[str, ...] = ()
    only_one: bool = False


def read_sharing(file: Path) -> tuple[CardSharing, ...]:
    """Read a configuration of NVIDIA's device plugin; sections that are not about sharing have no effect.

    Raises:
        ConfigError: names the field that is wrong.
    """
    try:
        documents = [document.value for document in load_all(file.read_text(), file=str(file))]
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", file=str(file)) from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError("Write one document with version and sharing.", file=str(file))
    return parse_sharing(documents[0], str(file))


def parse_sharing(value: Mapping[str, Any], file: str = "") -> tuple[CardSharing, ...]:
    """The same from a decoded document."""
    if value.get("version") != "v1":
        raise ConfigError('version: write "v1".', file=file, key="version")
    sharing = _mapping(value.get("sharing") or {}, "sharing", file)
    given = [name for name in sharing if sharing[name]]
    for name in given:
        if name not in _SECTIONS:
            raise ConfigError(f"sharing.{name}: unknown; known are timeSlicing and mps.", file=file, key=name)
    if len(given) > 1:
        raise ConfigError("sharing: write either timeSlicing or mps, not both.", file=file, key="sharing")
    return tuple(
        share
        for name in given
        for share in _shares(_SECTIONS[name], _mapping(sharing[name], f"sharing.{name}", file), f"sharing.{name}", file)
    )


def _shares(strategy: Strategy, section: Mapping[str, Any], where: str, file: str) -> Iterable[CardSharing]:
    resources = section.get("resources")
    if not isinstance(resources, list) or not resources:
        raise ConfigError(f"{where}.resources: name at least one resource.", file=file, key="resources")
    renamed = _flag(section, "renameByDefault", where, file)
    only_one = strategy == "mps" or _flag(section, "failRequestsGreaterThanOne", where, file)
    most = _MOST_CLIENTS if strategy == "mps" else _MOST_REPLICAS
    seen: set[str] = set()
    for index, item in enumerate(resources):
        at = f"{where}.resources[{index}]"
        one = _mapping(item, at, file)
        name, replicas = one.get("name"), one.get("replicas")
        if not isinstance(name, str) or not (name == NVIDIA_GPU or name.startswith(NVIDIA_MIG)):
            text = f"{at}.name: write {NVIDIA_GPU} or a MIG profile such as {NVIDIA_MIG}1g.10gb."
            raise ConfigError(text, file=file, key="name")
        if strategy == "mps" and name != NVIDIA_GPU:
            raise ConfigError(f"{at}.name: MIG instances are not shared by mps.", file=file, key="name")
        if name in seen:
            raise ConfigError(f"{at}.name: {name} is there twice.", file=file, key="name")
        seen.add(name)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or not 2 <= replicas <= most:
            raise ConfigError(f"{at}.replicas: write a number from 2 to {most}.", file=file, key="replicas")
        rename = one.get("rename") or (f"{name}.shared" if renamed else name)
        if not isinstance(rename, str) or "/" not in rename:
            raise ConfigError(f"{at}.rename: write a resource name such as {name}.shared.", file=file, key="rename")
        yield CardSharing(strategy, name, rename, replicas, _devices(one.get("devices", "all"), at, file), only_one)


def _devices(value: Any, where: str, file: str) -> tuple[str, ...]:
    if value == "all":
        return ()
    if isinstance(value, list) and value and all(isinstance(each, str | int) for each in value):
        return tuple(map(str, value))
    raise ConfigError(f"{where}.devices: write all, or a list of numbers and ids.", file=file, key="devices")


def _mapping(value: Any, where: str, file: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: write a mapping.", file=file, key=where.rpartition(".")[2])
    return value


def _flag(section: Mapping[str, Any], name: str, where: str, file: str) -> bool:
    value = section.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{where}.{name}: write true or false.", file=file, key=name)
    return value


def shared(inventory: Inventory, shares: Sequence[CardSharing]) -> Inventory:
    """NVIDIA's devices with replicas of those that are shared, and the labels of its feature discovery."""
    if not shares:
        return inventory
    devices: list[Accelerator] = []
    numbers: dict[str, int] = {}
    labels = dict(inventory.labels)
    for device in inventory.devices:
        number = numbers[device.resource] = numbers.get(device.resource, -1) + 1
        share = share_of(device, number, shares)
        if share is None:
            devices.append(device)
            continue
        devices += [
            replace(device, id=f"{device.id}{_BETWEEN}{index}", resource=share.offered)
            for index in range(share.replicas)
        ]
        labels[f"{share.resource}.replicas"] = str(share.replicas)
        labels[f"{share.resource}.sharing-strategy"] = share.strategy
        labels["nvidia.com/mps.capable"] = "true" if share.strategy == "mps" else "false"
        if share.resource == NVIDIA_GPU and share.offered == NVIDIA_GPU and GPU_PRODUCT in labels:
            labels[GPU_PRODUCT] = f"{labels[GPU_PRODUCT].removesuffix('-SHARED')}-SHARED"
    return replace(inventory, devices=tuple(devices), labels=labels)


def share_of(device: Accelerator, number: int, shares: Sequence[CardSharing]) -> CardSharing | None:
    """How a device is shared; ``number`` counts those of its resource."""
    for share in shares:
        if share.resource == device.resource and (
            not share.devices or str(number) in share.devices or device.id in share.devices
        ):
            return share
    return None


def card_of(device: str) -> str:
    """Id of the card, or of the MIG instance, of which a device is a replica."""
    return device.partition(_BETWEEN)[0]


def is_replica(device: str) -> bool:
    """Whether a device is one of several of its card."""
    return _BETWEEN in device
