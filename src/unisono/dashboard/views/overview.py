"""The cluster at a glance, the clusters of a fleet, and the scheduler: what is used, waits and lives (pure)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from unisono.api import messages
from unisono.api.annotations import SCHEDULER_CYCLES
from unisono.api.conditions import find_condition
from unisono.api.groups.fleet import READY, AttachedCluster
from unisono.api.keys import TOPOLOGY_REGION
from unisono.api.node_checks import quarantined_by
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list, to_units
from unisono.api.times import parse_time, time_or
from unisono.dashboard.views import wire
from unisono.dashboard.views.nodes import NOTHING
from unisono.dashboard.views.table import choices, ordered, quantity
from unisono.dashboard.views.why import Choice, Fact
from unisono.fleet.members.member import accelerator_type, is_accelerator
from unisono.sdk.overview.components import Component, components, trusted
from unisono.sdk.overview.queues import BudgetLine, Resource, is_ready, resources

if TYPE_CHECKING:
    from unisono.api.core import Lease, Node
    from unisono.sdk.overview.overview import CalendarLine

# Jobs by their people: the viewer's own ones first, and who holds most.

# Rows of each list; the table of jobs has the others.
_MOST_MINE, _MOST_USERS, _MOST_HOLDERS = 8, 10, 6
# A job that failed is shown among one's own for so long after its end.
_NEWS_SECONDS = 24 * 3600.0
# What has done nothing for so long is said to be idle: programs read their data first.
IDLE_SECONDS = 300.0
_ORDER = {"waiting": 0, "failed": 1, "running": 2, "suspended": 3, "succeeded": 4}


def own_jobs(rows: Iterable[wire.JobRow], user: str) -> list[wire.JobRow]:
    """All jobs of one user."""
    return [row for row in rows if user and row.user == user]


def news(rows: Iterable[wire.JobRow], now: float) -> list[wire.JobRow]:
    """Those of one's own jobs that matter most: which wait, have failed lately, run, and have just been done.

    What waits longest, and what began or ended last, comes first. Each state has a place before one has two.
    """
    rows_by_state: dict[str, list[wire.JobRow]] = defaultdict(list)
    for row in rows:
        if not row.ended or now - row.ended <= _NEWS_SECONDS:
            rows_by_state[row.state].append(row)
    for state, members in rows_by_state.items():
        members.sort(key=lambda row: (row.created if state == "waiting" else -max(row.ended, row.started), row.key))
    chosen: list[wire.JobRow] = []
    while len(chosen) < _MOST_MINE and any(rows_by_state.values()):
        for state in sorted(rows_by_state, key=lambda each: _ORDER.get(each, 9)):
            if rows_by_state[state] and len(chosen) < _MOST_MINE:
                chosen.append(rows_by_state[state].pop(0))
    place = {row.key: number for number, row in enumerate(chosen)}
    return sorted(chosen, key=lambda row: (_ORDER.get(row.state, 9), place[row.key]))


def user_lines(rows: Iterable[wire.JobRow]) -> list[wire.UserLine]:
    """Who holds most, and what they wait for; jobs of no known user are one line."""
    lines: dict[str, wire.UserLine] = {}
    for row in rows:
        line = lines.setdefault(row.user, wire.UserLine(user=row.user))
        line.held += row.held
        line.held_cpus += row.held_cpus
        if row.state == "waiting":
            line.waiting += 1
            line.wanted += max(0.0, row.cards - row.held)
        elif row.state == "running":
            line.running += 1
    active = [line for line in lines.values() if line.running or line.waiting or line.held or line.held_cpus]
    cards, cpus = sum(line.held for line in active), sum(line.held_cpus for line in active)
    for line in active:
        held, of = (line.held, cards) if cards else (line.held_cpus, cpus)
        line.share = round(held / of, 4) if of else 0.0
    return sorted(active, key=lambda line: (-line.held, -line.held_cpus, -line.wanted, line.user))[:_MOST_USERS]


def holders(rows: Iterable[wire.JobRow]) -> Sequence[wire.JobRow]:
    """The jobs that hold most, cards before CPUs."""
    holding = [row for row in rows if row.held or row.held_cpus]
    return sorted(holding, key=lambda row: (-row.held, -row.held_cpus, row.key))[:_MOST_HOLDERS]


def idle_lines(rows: Iterable[wire.JobRow], quiet: Mapping[str, float], now: float) -> list[wire.IdleLine]:
    """Jobs that hold cards and let them lie idle, the one that wastes most first.

    Args:
        rows: of the jobs.
        quiet: since when jobs have done nothing, by ``namespace/name``.
        now: seconds since 1970.
    """
    lines = []
    for row in rows:
        since = quiet.get(f"{row.namespace}/{row.name}")
        if since is not None and row.held and now - since >= IDLE_SECONDS:
            lines.append(wire.IdleLine(row=row, since=since))
    return sorted(lines, key=lambda line: (-line.row.held * (now - line.since), line.row.key))[:_MOST_USERS]


# The cluster at a glance: the SDK's overview, with what waits in groups and how much was used over time (pure).

_MOST_GROUPS = 50
_MOST_NODES = 100
_MOST_BUDGETS, _NEAR = 20, 0.9
_BUDGET_STATES = ("over", "invalid", "near", "fine")
Used = Mapping[str, Mapping[str, int]]
"""What is held of each node, by resource, in engine units."""


def overview_view(
    nodes: Sequence[Node],
    used: Used,
    leases: Iterable[Lease],
    rows: Iterable[wire.JobRow],
    hidden: Sequence[str],
    now: float,
    *,
    user: str = "",
    quiet: Mapping[str, float] = NOTHING,
    calendar: Iterable[CalendarLine] = (),
    budgets: Iterable[BudgetLine] = (),
    ready: bool = True,
) -> wire.OverviewView:
    """Everything at one moment.

    Args:
        nodes: that the viewer may see.
        used: what pods hold of each, in engine units.
        leases: which tell which parts of the control plane are alive.
        rows: of the jobs.
        hidden: kinds that the viewer may not see.
        now: seconds since 1970.
        user: the viewer, whose jobs come first.
        quiet: since when jobs have done nothing, by ``namespace/name``.
        calendar: what holds now or soon.
        budgets: as of now.
        ready: everything was listed once.
    """
    rows = list(rows)
    mine = own_jobs(rows, user)
    ready_nodes = [node for node in nodes if is_ready(node)]
    quarantined = [node.metadata.name for node in ready_nodes if quarantined_by(node.spec.taints)]
    serving = [node for node in ready_nodes if not quarantined_by(node.spec.taints)]
    open_nodes = [node for node in serving if not node.spec.unschedulable]
    return wire.OverviewView(
        ready=ready,
        mine=news(mine, now),
        mine_states=choices(row.state for row in mine),
        users=user_lines(rows),
        holders=list(holders(rows)),
        idle=idle_lines(rows, quiet, now),
        calendar=[
            wire.BookingLine(
                title=each.title,
                holds=each.holds,
                start=parse_time(each.start),
                end=parse_time(each.end),
                text=each.text,
            )
            for each in calendar
        ],
        budgets=budget_view(budgets),
        components=[] if "leases" in hidden else [component_view(each) for each in components(leases, now)[1:]],
        resources=resource_views(open_nodes, used),
        groups=waiting_groups(rows),
        nodes_ready=len(open_nodes),
        nodes_down=sorted(node.metadata.name for node in nodes if not is_ready(node))[:_MOST_NODES],
        nodes_cordoned=sorted(node.metadata.name for node in serving if node.spec.unschedulable)[:_MOST_NODES],
        nodes_quarantined=sorted(quarantined)[:_MOST_NODES],
        states=choices(row.state for row in rows),
        hidden=list(hidden),
    )


def budget_view(lines: Iterable[BudgetLine]) -> list[wire.BudgetRow]:
    """Budgets for the page, those that are used up or nearest to it first; as many as fit."""
    rows = [
        wire.BudgetRow(
            key=f"{line.name}/{line.unit}",
            name=line.name,
            mode=line.mode,
            state=_state_of(line),
            whose=", ".join(line.whose),
            unit=line.unit,
            amount=line.amount,
            used=line.used,
            left=line.left,
            rate=line.rate,
            part=round(line.part, 4),
            exhausted=time_or(line.exhausted),
            end=time_or(line.end),
        )
        for line in lines
    ]
    return sorted(rows, key=lambda row: (_BUDGET_STATES.index(row.state), -row.part, row.key))[:_MOST_BUDGETS]


def _state_of(line: BudgetLine) -> str:
    if line.mode == "invalid":
        return "invalid"
    if line.part >= 1 or line.exhausted == "used up":
        return "over"
    return "near" if line.exhausted or line.part >= _NEAR else "fine"


def component_view(component: Component) -> wire.ComponentView:
    """A part of the control plane."""
    return wire.ComponentView(name=component.name, problem=component.problem, note=component.note)


def waiting_groups(rows: Iterable[wire.JobRow]) -> list[wire.WaitingGroup]:
    """Jobs that wait, by cause and queue; the group with the most pods first."""
    groups: dict[tuple[str, str], list[wire.JobRow]] = defaultdict(list)
    for row in rows:
        if row.state == "waiting":
            groups[row.cause, row.queue].append(row)
    summaries = []
    for (cause, queue), members in groups.items():
        oldest = min(members, key=lambda row: (row.created, row.key))
        summaries.append(
            wire.WaitingGroup(
                key=f"{queue}/{cause}",
                cause=cause,
                queue=queue,
                jobs=len(members),
                pods=sum(row.gang for row in members),
                example=msgspec.structs.replace(oldest, waiting="", message=""),
                line=oldest.waiting,
                since=oldest.created,
            )
        )
    return sorted(summaries, key=lambda group: (-group.pods, group.key))[:_MOST_GROUPS]


def resource_views(nodes: Sequence[Node], used: Used) -> list[wire.ResourceView]:
    """Each resource of the nodes that take pods, and below it each model of its devices where there are several."""
    by_name = {each.name: each for each in resources(nodes, used)}
    models: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        models[accelerator_type(node.metadata.labels or {})].append(node)
    of_model = {}
    if len(models) > 1:
        for model, members in sorted(models.items()):
            of_model[model] = {each.name: each for each in resources(members, used) if is_accelerator(each.name)}
    rows = []
    for name in ordered(by_name):
        rows.append(_resource(by_name[name]))
        with_it = {model: there[name] for model, there in of_model.items() if name in there}
        if len(with_it) > 1:
            rows += [_resource(each, model or "other") for model, each in with_it.items()]
    return rows


def _resource(told: Resource, model: str = "") -> wire.ResourceView:
    used, total, largest = (to_units(told.name, text) for text in (told.used, told.total, told.largest))
    return wire.ResourceView(
        name=told.name,
        model=model,
        used=quantity(told.name, used),
        total=quantity(told.name, total),
        largest=quantity(told.name, largest),
        share=part(used, total),
        holes=[Choice(value=str(free), count=nodes) for free, nodes in told.holes.items()],
    )


def part(amount: int, total: int) -> float:
    """A part of a total, from 0 to 1 and a little beyond where more is used than there is."""
    return round(amount / total, 4) if total > 0 else 0.0


# The clusters of a fleet: what each has, what is used of it, and how many jobs are there (pure).

_LEFT_OUT = ("pods", "ephemeral-storage")


def fleet_view(
    clusters: Iterable[AttachedCluster], jobs: Mapping[str, int], waiting: int, *, ready: bool = True
) -> wire.FleetView:
    """All members that the viewer may see, by name.

    Args:
        clusters: of the hub.
        jobs: that have not ended, by the member that they are in.
        waiting: jobs that are in none.
        ready: everything was listed once.
    """
    rows = {}
    for cluster in sorted(clusters, key=lambda each: (each.metadata.name, each.metadata.namespace or "")):
        row = member_row(cluster, jobs.get(cluster.metadata.name, 0))
        rows[f"{row.namespace}/{row.name}"] = row
    return wire.FleetView(ready=ready, order=list(rows), rows=rows, waiting=waiting)


def member_row(cluster: AttachedCluster, jobs: int) -> wire.MemberRow:
    """The row of one member."""
    status = cluster.status
    condition = find_condition(status.conditions, READY)
    return wire.MemberRow(
        name=cluster.metadata.name,
        namespace=cluster.metadata.namespace or "",
        ready=bool(status.ready),
        message=(condition.message or "") if condition is not None else messages.MEMBER_NOT_LOOKED_AT,
        version=status.kubernetes_version or "",
        region=(cluster.metadata.labels or {}).get(TOPOLOGY_REGION, ""),
        nodes=(status.node_summary.ready_num or 0) if status.node_summary is not None else 0,
        jobs=jobs,
        resources=_resources(cluster),
        lost=time_or(status.lost_since),
    )


def _resources(cluster: AttachedCluster) -> list[wire.ResourceView]:
    summary = cluster.status.resource_summary
    if summary is None:
        return []
    try:
        whole, used = resource_list(summary.allocatable), resource_list(summary.allocated)
        largest: dict[str, int] = {}
        models: dict[str, set[str]] = {}
        for each in cluster.status.accelerators or ():
            name = each.resource or ""
            largest[name] = max(largest.get(name, 0), to_units(name, each.largest_free_block or 0))
            models.setdefault(name, set()).update({each.type} if each.type else ())
    except QuantityError:
        # What a hub of another version has written is no reason to show no other member.
        return []
    return [
        wire.ResourceView(
            name=name,
            model=", ".join(sorted(models.get(name, ()))),
            used=quantity(name, used.get(name, 0)),
            total=quantity(name, whole[name]),
            largest=quantity(name, largest[name]) if name in largest else "",
            share=part(used.get(name, 0), whole[name]),
        )
        for name in ordered(whole)
        if whole[name] and name not in _LEFT_OUT and not name.startswith("hugepages-")
    ]


# The scheduler: whether its parts are alive, what its configuration enforces, and how long its cycles take (pure).

# Histograms of Volcano's names, in milliseconds, with the labels that tell their rows apart.
_TIMES = {
    "volcano_e2e_scheduling_latency_milliseconds": ("cycle", ()),
    "volcano_action_scheduling_latency_milliseconds": ("action", ("action",)),
    "volcano_plugin_scheduling_latency_milliseconds": ("plug-in", ("plugin", "OnSession")),
}


def scheduler_view(
    leases: Sequence[Lease],
    metrics: str,
    now: float,
    *,
    configuration: str = "",
    hidden: Sequence[str] = (),
    ready: bool = True,
) -> wire.SchedulerView:
    """What is known of the scheduler.

    Args:
        leases: by which components tell that they are alive.
        metrics: in Prometheus' text format; empty where the viewer may not read them, or none are served.
        now: seconds since 1970.
        configuration: text of it, where the viewer may read it.
        hidden: kinds that the viewer may not see; without leases it is not known which components are alive.
        ready: everything was listed once.
    """
    families = _families(metrics)
    return wire.SchedulerView(
        ready=ready,
        components=[component_view(each) for each in components(leases, now, seen="leases" not in hidden)[1:]],
        facts=list(_facts(leases)),
        times=timings(families),
        metrics=bool(families),
        violations=_violations(families),
        configuration=configuration,
        hidden=[kind for kind in hidden if kind == "leases"],
    )


def _families(metrics: str) -> list[Metric]:
    """What a text of metrics says; nothing of a text that is none."""
    try:
        return list(text_string_to_metric_families(metrics))
    except ValueError:
        return []


def timings(families: Iterable[Metric]) -> list[wire.Timing]:
    """How often and how long each part of a cycle has run, what takes longest together first."""
    sums: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], float] = {}
    buckets: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for family in families:
        if family.name not in _TIMES:
            continue
        kind, labels = _TIMES[family.name]
        for sample in family.samples:
            row = kind, " ".join(sample.labels.get(label, "") for label in labels)
            if sample.name.endswith("_sum"):
                sums[row] = sample.value
            elif sample.name.endswith("_count"):
                counts[row] = sample.value
            elif sample.name.endswith("_bucket"):
                buckets[row].append((float(sample.labels["le"]), sample.value))
    order = [kind for kind, _ in _TIMES.values()]
    rows = sorted(
        (row for row, count in counts.items() if count),
        key=lambda row: (order.index(row[0]), -sums.get(row, 0.0), row[1]),
    )
    return [
        wire.Timing(
            kind=row[0],
            name=row[1],
            count=int(counts[row]),
            mean=sums.get(row, 0.0) / counts[row],
            most=_most(buckets[row], counts[row]),
        )
        for row in rows
    ]


def _most(buckets: list[tuple[float, float]], count: float) -> float:
    """The bound that 99 of 100 are within; 0 where the last bucket, which has none, is needed."""
    return next((bound for bound, below in sorted(buckets) if below >= 0.99 * count and bound != float("inf")), 0.0)


def _violations(families: Iterable[Metric]) -> int:
    return sum(
        int(sample.value)
        for family in families
        for sample in family.samples
        if sample.name == "unisono_scheduler_violations_total"
    )


def _facts(leases: Iterable[Lease]) -> Iterable[Fact]:
    """What schedulers say of themselves on their Leases."""
    for lease in trusted(lease for lease in leases if SCHEDULER_CYCLES in (lease.metadata.labels or {})):
        for name, value in sorted((lease.metadata.annotations or {}).items()):
            yield Fact(name=name.rpartition("/")[2].replace("-", " "), text=value)
