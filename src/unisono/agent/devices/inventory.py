"""Devices of a machine as its node offers them, of all vendors, and which containers get which."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unisono.errors import AgentError


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
    found: dict[str, int] = {}
    for inventory in inventories:
        for device in inventory.devices:
            found[device.resource] = found.get(device.resource, 0) + (1000 if device.healthy or not healthy else 0)
    return found


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
    found: dict[str, str] = {}
    for inventory in inventories:
        own = {device.id: device.shown for device in inventory.devices}
        shown = ",".join(dict.fromkeys(own[each] for each in given if each in own))
        for name, without in inventory.variables.items():
            if shown:
                found[name] = shown
            elif without is not None:
                found[name] = without
    return found
