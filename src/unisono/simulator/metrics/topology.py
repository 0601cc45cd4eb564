"""How far apart the pods of gangs lie in the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from unisono.simulator.metrics.numbers import mean, weighted_mean
from unisono.simulator.world.outcome import Run


def lca_cost(hosts: Sequence[Sequence[str]]) -> float:
    """Mean over all pairs of hosts of twice the tier of their lowest common domain.

    Args:
        hosts: path of each host, from its leaf upwards. Two hosts without a common domain meet one tier above the top.

    """
    count = len(hosts)
    pairs = count * (count - 1) // 2
    if not pairs:
        return 0.0
    height = max(len(path) for path in hosts)
    apart = pairs
    total = 0
    for tier in range(1, height + 1):
        domains = Counter(tuple(path[tier - 1 :]) for path in hosts if len(path) >= tier)
        joined = sum(size * (size - 1) // 2 for size in domains.values())
        total += 2 * tier * (apart - (pairs - joined))
        apart = pairs - joined
    total += 2 * (height + 1) * apart
    return total / pairs


def least_cost(hosts: int, paths: Mapping[str, Sequence[str]]) -> float:
    """The cost of a gang of so many hosts in the empty cluster: the largest leaves of one domain, filled one by one.

    Exact for trees in which domains of one tier hold leaves of similar size, a close upper bound for others.
    """
    best: float | None = None
    height = max((len(path) for path in paths.values()), default=0)
    for tier in range(1, height + 2):
        domains: dict[tuple[str, ...], list[Sequence[str]]] = {}
        for path in paths.values():
            domains.setdefault(tuple(path[tier - 1 :]) if tier <= height else (), []).append(path)
        for members in domains.values():
            if len(members) < hosts:
                continue
            found = lca_cost(_fullest(members, hosts))
            best = found if best is None else min(best, found)
        if best is not None:
            return best
    return 0.0


def _fullest(members: Sequence[Sequence[str]], hosts: int) -> list[Sequence[str]]:
    """So many hosts, those of the largest domains first, from the top down."""
    sizes: Counter[tuple[str, ...]] = Counter(tuple(path[tier:]) for path in members for tier in range(len(path)))
    ranked = sorted(
        members, key=lambda path: [(-sizes[tuple(path[tier:])], path[tier]) for tier in reversed(range(len(path)))]
    )
    return ranked[:hosts]


def topology(run: Run) -> dict[str, Any] | None:
    """Costs of the gangs that were started on more than one host; None without a topology or such gangs.

    Attributes:
        cost: mean of `lca_cost` over gangs; ``weightedCost`` weighted by GPUs times time.
        least: mean of `least_cost`, and ``ratio`` of the two.
        atLeast: share of gangs at their least cost.
        acrossTop: share of gangs that only the top of the tree joins.

    """
    paths = run.cluster.paths
    if not paths:
        return None
    height = max(len(path) for path in paths.values())
    below_top = height - 1 if len({path[-1] for path in paths.values() if path}) == 1 else height
    known: dict[int, float] = {}
    costs, least, weights, across = [], [], [], 0
    for outcome in run.outcomes:
        for stretch in outcome.stretches:
            names = {run.node_names[number] for number in stretch.nodes}
            if len(names) < 2:
                continue
            hosts = [paths.get(name, ()) for name in sorted(names)]
            if len(hosts) not in known:
                known[len(hosts)] = least_cost(len(hosts), paths)
            costs.append(lca_cost(hosts))
            least.append(known[len(hosts)])
            weights.append(stretch.gpu_milli * (stretch.end - stretch.start))
            across += len({path[below_top - 1 : below_top] for path in hosts}) > 1 if below_top else True
    if not costs:
        return None
    mean_cost, mean_least = mean(costs) or 0.0, mean(least) or 0.0
    return {
        "gangs": len(costs),
        "cost": mean_cost,
        "weightedCost": weighted_mean(costs, weights),
        "least": mean_least,
        "ratio": mean_cost / mean_least if mean_least else None,
        "atLeast": mean([float(cost <= low + 1e-9) for cost, low in zip(costs, least, strict=True)]),
        "acrossTop": across / len(costs),
    }
