"""How much of the cluster is held and useful, what interruptions cost, and how far apart the pods of gangs lie."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from unisono.simulator.metrics.durations import mean, weighted_mean
from unisono.simulator.world.outcome import COMPLETED, Run

# How much of the cluster is held over time, and how much of that is useful.

Steps = list[tuple[float, float]]
"""A function of time that changes in steps: (from when, value)."""


def steps(changes: Iterable[tuple[float, float]]) -> Steps:
    """The sum of changes over time."""
    totals: Steps = []
    value = 0.0
    for at, change in sorted(changes):
        value += change
        if totals and totals[-1][0] == at:
            totals[-1] = (at, value)
        else:
            totals.append((at, value))
    return totals


def integral(line: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Area below the steps between two times; before the first step there is nothing."""
    total = 0.0
    for number, (at, value) in enumerate(line):
        until = line[number + 1][0] if number + 1 < len(line) else end
        total += max(0.0, min(until, end) - max(at, start)) * value
    return total


def held(run: Run, *, resource: str = "gpu", queue: str | None = None) -> Steps:
    """Thousandths of GPUs (or of cores) that jobs hold, of all queues or of one."""
    return steps(_held_changes(run, resource, queue))


def _held_changes(run: Run, resource: str, queue: str | None) -> Iterator[tuple[float, float]]:
    for outcome in run.outcomes:
        if queue is not None and outcome.job.queue != queue:
            continue
        for stretch in outcome.stretches:
            amount = stretch.gpu_milli if resource == "gpu" else stretch.cpu_milli
            if amount and stretch.end > stretch.start:
                yield stretch.start, amount
                yield stretch.end, -amount


def queue_length(run: Run) -> Steps:
    """Jobs that have arrived and not started for the first time."""

    def changes() -> Iterator[tuple[float, float]]:
        for outcome in run.outcomes:
            if outcome.job.submit > run.end or outcome.state == "dropped":
                continue
            yield outcome.job.submit, 1
            if outcome.started is not None:
                yield outcome.started, -1

    return steps(changes())


def window(run: Run, warm_up: float = 0.0) -> tuple[float, float]:
    """From the first to the last submission, without a share ``warm_up`` of it at the beginning.

    After the last submission a cluster drains, and the scheduler cannot help what it leaves idle. Where all
    jobs come at once, until the end.
    """
    submits = [outcome.job.submit for outcome in run.outcomes]
    first, last = min(submits, default=0.0), max(submits, default=0.0)
    end = min(last, run.end) if last > first else run.end
    return first + warm_up * (end - first), end


def usage(run: Run) -> dict[str, Any]:
    """Shares of the cluster over the `window` and over the whole run.

    Attributes:
        allocation: GPUs held by jobs, as a share of all GPUs (of cores where there are no GPUs), in the window.
        allocationToEnd: the same until the end of the run.
        useful: share of the GPU time held that led to the end of jobs: without what was lost by interruptions,
            overheads, and jobs that were given up.
    """
    gpus = run.cluster.gpu_total > 0
    capacity = [(at, 1000.0 * count if gpus else float(cpu)) for at, count, cpu in run.capacity]
    line = held(run, resource="gpu" if gpus else "cpu")
    start, end = window(run)
    first = min((outcome.job.submit for outcome in run.outcomes), default=0.0)
    return {
        "allocation": _share(line, capacity, start, end),
        "allocationToEnd": _share(line, capacity, first, run.end),
        "useful": _useful(run, gpus),
    }


def _share(line: Steps, capacity: Steps, start: float, end: float) -> float | None:
    whole = integral(capacity, start, end)
    return integral(line, start, end) / whole if whole > 0 else None


def _useful(run: Run, gpus: bool) -> float | None:
    used = wasted = 0.0
    for outcome in run.outcomes:
        for stretch in outcome.stretches:
            amount = stretch.gpu_milli if gpus else stretch.cpu_milli
            length = stretch.end - stretch.start
            used += amount * length
            given_up = outcome.state not in (COMPLETED, "running")
            wasted += amount * (length if given_up else min(length, stretch.lost + stretch.overhead))
    return 1 - wasted / used if used else None


def gpu_hours(run: Run) -> float:
    """GPU hours held by jobs."""
    return (
        sum(
            stretch.gpu_milli / 1000 * (stretch.end - stretch.start)
            for outcome in run.outcomes
            for stretch in outcome.stretches
        )
        / 3600
    )


def cost(run: Run) -> dict[str, float | None] | None:
    """Money: of the cluster for the length of the run, and per completed job; None where nodes have no price."""
    hourly = sum(run.cluster.prices.values())
    if not hourly:
        return None
    done = sum(outcome.state == COMPLETED for outcome in run.outcomes)
    first = min((outcome.job.submit for outcome in run.outcomes), default=0.0)
    total = hourly * (run.end - first) / 3600
    return {"total": total, "perJob": total / done if done else None}


def waste(run: Run) -> dict[str, Any]:
    """Evictions, and the GPU time lost by them and by failures.

    Attributes:
        evictions: pods that the scheduler evicted.
        per1000Jobs: evictions per 1,000 jobs.
        jobsEvicted: share of jobs evicted at least once.
        lostGpuHours: sum over interruptions of GPUs times (progress since the last checkpoint, or since the start),
            plus GPUs times the overhead of starting again.
        lostShare: those as a share of the useful GPU hours.
        byCause: GPU hours lost by evictions and by failures.
        futile: evictions for a job that did not start within a second afterwards.
        overEvictedGpus: GPUs freed by evictions beyond what their beneficiary, starting within a second, asked for.
    """
    lost: defaultdict[str, float] = defaultdict(float)
    useful = 0.0
    for outcome in run.outcomes:
        before = ""
        for stretch in outcome.stretches:
            gpus = stretch.gpu_milli / 1000
            if before:
                lost[before] += gpus * stretch.overhead / 3600
            lost[stretch.cause] += gpus * stretch.lost / 3600
            useful += gpus * max(0.0, stretch.end - stretch.start - stretch.lost - stretch.overhead) / 3600
            before = stretch.cause if stretch.cause not in ("resized", "completed") else ""
    total = sum(lost.values())
    jobs = max(len(run.outcomes), 1)
    futile, over = _aims(run)
    return {
        "evictions": len(run.evictions),
        "per1000Jobs": 1000 * len(run.evictions) / jobs,
        "jobsEvicted": sum(outcome.evictions > 0 for outcome in run.outcomes) / jobs,
        "lostGpuHours": total,
        "lostShare": total / useful if useful else None,
        "byCause": {cause: hours for cause, hours in sorted(lost.items()) if hours},
        "futile": futile,
        "overEvictedGpus": over,
    }


def _aims(run: Run) -> tuple[int, float]:
    """Futile evictions, and GPUs evicted beyond what was asked for; one moment's for one job belong together."""
    begins: dict[str, list[float]] = {}
    demand: dict[str, int] = {}
    for outcome in run.outcomes:
        begins[outcome.job.name] = [stretch.start for stretch in outcome.stretches]
        demand[outcome.job.name] = outcome.job.gpu_demand
    grouped: dict[tuple[float, str], list[int]] = {}
    for eviction in run.evictions:
        if eviction.beneficiary:
            grouped.setdefault((eviction.at, eviction.beneficiary), []).append(eviction.gpu_milli)
    futile, over = 0, 0.0
    for (at, name), freed in grouped.items():
        if any(at <= begin <= at + 1.0 for begin in begins.get(name, ())):
            over += max(0, sum(freed) - demand[name]) / 1000
        else:
            futile += len(freed)
    return futile, over


# How far apart the pods of gangs lie in the network.


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
            candidate = lca_cost(_fullest(members, hosts))
            best = candidate if best is None else min(best, candidate)
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
    least_costs: dict[int, float] = {}
    costs, least, weights, across = [], [], [], 0
    for outcome in run.outcomes:
        for stretch in outcome.stretches:
            names = {run.node_names[number] for number in stretch.nodes}
            if len(names) < 2:
                continue
            hosts = [paths.get(name, ()) for name in sorted(names)]
            if len(hosts) not in least_costs:
                least_costs[len(hosts)] = least_cost(len(hosts), paths)
            costs.append(lca_cost(hosts))
            least.append(least_costs[len(hosts)])
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
