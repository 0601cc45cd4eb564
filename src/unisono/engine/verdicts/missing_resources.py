"""Requests that no node can meet even if it were empty: of resources that none has, or of more than any has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from unisono.api.keys import NVIDIA_GPU, NVIDIA_MIG
from unisono.api.licenses import is_floating
from unisono.api.names import did_you_mean, nearest
from unisono.api.resources import amounts_text, by_importance, effective_requests, is_bytes, readable, to_units
from unisono.cluster.resources import Matrix
from unisono.engine.answers import BoolArray
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.verdicts.demand import Kind

_MOST_ALTERNATIVES = 3
_STEM = re.compile(r"[^/]*/?[^-.]*")
"""What comes before the first variant of a resource: ``nvidia.com/gpu`` of ``nvidia.com/gpu.shared``."""
_HUGE_PAGES = "hugepages-"


def unoffered(cycle: Cycle, names: Iterable[str]) -> tuple[str, ...]:
    """Those of some resources that no node has at all, not even as unhealthy devices; none where there are no nodes."""
    nodes, registry = cycle.session.nodes, cycle.session.registry
    if not nodes.size:
        return ()
    rows = [(name, registry.find(name)) for name in names]
    absent = (name for name, row in rows if row is None or not nodes.allocatable[row].any())
    return tuple(name for name in absent if not any(name in facts.unhealthy for facts in nodes.table.facts))


def unoffered_text(cycle: Cycle, names: Iterable[str]) -> str:
    """``no node offers nvidia.com/gpus (did you mean nvidia.com/gpu?)``."""
    offered = _offered(cycle)
    texts = []
    for name in names:
        others = [] if meant(cycle, name) else alternatives(cycle, name) or _other_pages(name, offered)
        hint = f" (nodes have {listed(tuple(others))})" if others else did_you_mean(name, offered)
        texts.append(f"{name}{hint}")
    return f"no node offers {' or '.join(texts)}"


def asked_text(cycle: Cycle, need: Mapping[str, int], names: Iterable[str], kinds: Sequence[Kind]) -> str:
    """`unoffered_text`, how much of it is asked for, and by which roles and containers where not by all."""
    names = tuple(names)
    amounts = amounts_text({name: need[name] for name in names})
    return f"{unoffered_text(cycle, names)}; {amounts} is asked for{asking(kinds, names)}"


def asking(kinds: Sequence[Kind], names: Iterable[str]) -> str:
    """`` by role worker``, `` by init containers``: where not all roles, or no other containers, ask for it."""
    asked = frozenset(names)
    those = [kind for kind in kinds if asked & kind.requests.keys()]
    some = len(those) < len(kinds)
    roles = " and ".join(dict.fromkeys(kind.role for kind in those if kind.role)) if some else ""
    whose = f"{'role' if ' and ' not in roles else 'roles'} {roles}" if roles else ""
    inits = bool(those) and all(_by_init_containers(kind, asked) for kind in those)
    askers = " of ".join(filter(None, ("init containers" if inits else "", whose)))
    return f" by {askers}" if askers else ""


def _by_init_containers(kind: Kind, names: Collection[str]) -> bool:
    """Whether only its init containers ask for these."""
    one = kind.pod_class
    if one is None:
        return False
    mains, inits = (
        any(effective_requests(each).get(name) for each in part for name in names)
        for part in (one.containers, one.init_containers)
    )
    return inits and not mains


def _other_pages(name: str, offered: Iterable[str]) -> list[str]:
    """Huge pages of other sizes: amounts are multiples of a page, so one does not stand for the other."""
    return [one for one in offered if one.startswith(_HUGE_PAGES)] if name.startswith(_HUGE_PAGES) else []


def meant(cycle: Cycle, name: str) -> str:
    """The resource that some node has and that ``name`` is a near miss of; ``""`` where there is none."""
    return nearest(name, _offered(cycle))


def alternatives(cycle: Cycle, name: str) -> list[str]:
    """Resources of nodes in place of ``name``: the near miss, else those of the same family (slices of GPUs)."""
    near = meant(cycle, name)
    family = [one for one in _offered(cycle) if "/" in name and _family(one) == _family(name)]
    return [near] if near else family[:_MOST_ALTERNATIVES]


def _family(name: str) -> str:
    """What resources have in common of which one can stand for the other: ``nvidia.com/gpu`` for slices of it too."""
    return NVIDIA_GPU if name.startswith(NVIDIA_MIG) else "".join(_STEM.findall(name)[:1])


def remedy(cycle: Cycle, names: Iterable[str]) -> str:
    """What to do, in words, about those that are no near miss: nodes that have them."""
    without = [name for name in names if not alternatives(cycle, name)]
    return f"add a node that has {' and '.join(without)}" if without else ""


def _offered(cycle: Cycle) -> list[str]:
    """Resources that some node has."""
    registry, nodes = cycle.session.registry, cycle.session.nodes
    return [
        name
        for name in registry.names
        if (row := registry.find(name)) is not None and nodes.allocatable[row].any() and not is_floating(name)
    ]


_COMMON = ("cpu", "memory", "pods")
_MANY_CPUS = 100_000
"""Milli-CPUs from which a whole number of CPUs looks like milli-CPUs without their ``m``."""
_TIMES, _TIMES_CPUS = 16, 4
"""How far above the largest node a request looks like a wrong unit."""


def too_large(cycle: Cycle, kinds: list[Kind], mask: BoolArray) -> tuple[str, dict[str, int]] | None:
    """The sentence on the first kind of pods that fits on no node of ``mask``, and what such a pod may ask for."""
    return next(filter(None, (_too_large(cycle, kind, mask) for kind in kinds)), None)


def _too_large(cycle: Cycle, kind: Kind, mask: BoolArray) -> tuple[str, dict[str, int]] | None:
    nodes, registry = cycle.session.nodes, cycle.session.registry
    sizes = nodes.allocatable[kind.rows][:, mask]
    fits = sizes >= kind.amounts[:, None]
    if not sizes.shape[1] or fits.all(axis=0).any():
        return None
    one = kind.pod_class
    names = [registry.names[row] for row in kind.rows.tolist()] if one is None else one.resource_names(registry)
    largest = dict(zip(names, sizes.max(axis=1).tolist(), strict=True))
    over = [name for name in sorted(names, key=by_importance) if kind.requests.get(name, 1) > largest[name]]
    if any(not largest[name] for name in over):  # it exists nowhere, which is another cause
        return None
    if not over:
        return _never_together(kind, names, fits, sizes)
    asked = {name: kind.requests.get(name, 1) for name in over}
    at = int(np.flatnonzero(mask)[int(sizes[names.index(over[0])].argmax())])
    most = amounts_text({name: largest[name] for name in over}, "down")
    whose = _beside_containers(kind, over)
    there = f"the largest node ({nodes.table.names[at]}) has {most}"
    text = f"{kind.who} asks for {amounts_text(asked)}{whose}, and {there}"
    meant = {name: found for name in over if (found := _meant(name, asked[name], largest[name]))}
    hints = [f"did you mean {right} instead of {wrong}?" for right, wrong in meant.values()]
    least = {name: to_units(name, meant[name][0]) if name in meant else largest[name] for name in over}
    return "; ".join([text, *hints]), least


def _beside_containers(kind: Kind, names: list[str]) -> str:
    """`` (an init container asks for cpu 16)``: where it is not its containers that ask for all of it."""
    one = kind.pod_class
    for name in names if one is not None else ():
        assert one is not None
        asked = kind.requests.get(name, 0)
        mains, inits = (
            [effective_requests(each).get(name, 0) for each in part] for part in (one.containers, one.init_containers)
        )
        if not 0 <= sum(mains) < asked:
            continue
        rest = asked - sum(mains)
        if inits and max(inits) > sum(mains):
            return f" (an init container asks for {amounts_text({name: max(inits)})})"
        who = "its sidecars" if rest <= sum(inits) else "its overhead" if not any(inits) else "sidecars and overhead"
        amounts = readable({name: sum(mains)})[name], readable({name: rest})[name]
        return f" ({amounts[0]} for its containers and {amounts[1]} for {who})" if mains else ""
    return ""


def _never_together(kind: Kind, names: list[str], fits: BoolArray, sizes: Matrix) -> tuple[str, dict[str, int]]:
    """Each amount is on some node, and no node has all: what the nodes with the rarest of them have of the others."""
    rarest = min(range(len(names)), key=lambda at: (int(fits[at].sum()), names[at] in _COMMON, names[at]))
    having = sizes[:, fits[rarest]].max(axis=1)
    short = {name: int(having[at]) for at, name in enumerate(names) if kind.requests.get(name, 1) > having[at]}
    if not short:
        return f"{kind.who} asks for {amounts_text(kind.requests)}, and no single node has all of it", {}
    rare = {names[rarest]: kind.requests.get(names[rarest], 1)}
    asked = amounts_text({name: kind.requests.get(name, 1) for name in short} | rare)
    have = amounts_text(short, "down")
    return f"{kind.who} asks for {asked} together, and nodes with {amounts_text(rare)} have at most {have}", (
        short if all(short.values()) else {}
    )


def _meant(name: str, amount: int, largest: int) -> tuple[str, str] | None:
    """What was probably meant, and what stands there: a unit was forgotten or taken for another one."""
    if (
        name == "cpu"
        and amount >= max(_MANY_CPUS, _TIMES_CPUS * largest)
        and not amount % 1000
        and amount // 1000 <= largest
    ):
        return f"{amount // 1000}m", f"{amount // 1000}"
    if is_bytes(name) and amount >= _TIMES * largest and amount // 1024 <= largest:
        for unit, smaller, size in (("Gi", "Mi", 1024**3), ("Mi", "Ki", 1024**2)):
            if not amount % size:
                return f"{amount // size}{smaller}", f"{amount // size}{unit}"
    return None
