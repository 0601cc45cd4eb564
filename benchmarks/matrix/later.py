"""Features that are drawn beside the pairs and triples of the others, so that all else of a seed stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from benchmarks.matrix.draw import CARD, CPUS, NAMESPACES, NODES, NOW, Draw, Object, container, note


def _budget(draw: Draw) -> None:
    """Soon nothing is left of it."""
    spec = {
        "amounts": {"cpu": draw.luck.choice([0.02, 0.1, 0.3])},
        "mode": draw.luck.choice(["Hard", "Hard", "Soft"]),
        **draw.luck.choice([{"queues": ["a"]}, {"namespaces": ["team"]}]),
    }
    if spec["mode"] == "Hard":
        spec |= draw.luck.choice(
            [{}, {"running": "Evict"}, {"running": "Evict", "notice": "20s"}, {"starts": "IfItFits"}]
        )
    draw.add("budgets", 0)
    draw.before.append(_object("quota.unisono.io/v1alpha1", "Budget", "spent", spec))


def _spares(draw: Draw) -> None:
    draw.add("hot-spares")
    draw.queue_notes.setdefault(draw.luck.choice(draw.leaves()), {})["unisono.io/hot-spares"] = "1"


def _calendar(draw: Draw) -> None:
    """A window in the middle of the life, for one queue or for maintenance; some jobs name it."""
    draw.add("calendar")
    start = NOW + timedelta(seconds=draw.luck.choice([30, 90, 200]))
    spec: Object = {"start": _time(start), "duration": draw.luck.choice(["2m", "20m"]), "nodes": ["n-0", "n-1"]}
    running = draw.luck.choice(["Stay", "Evict"])
    spec |= draw.luck.choice([{"queues": ["a"]}, {"namespaces": ["team"]}, {"purpose": "Maintenance"}])
    draw.before.append(_object("calendar.unisono.io/v1alpha1", "Reservation", "window", spec))
    if "purpose" not in spec:
        spec["running"] = running
        draw.jobs.append(lambda body, number: note(body, "unisono.io/reservation", "window") if number == 5 else None)


def _run_times(draw: Draw) -> None:
    """Pods are evicted after a time; their jobs end then."""
    draw.add("calendar")
    limits = {"unisono.io/max-run-time": draw.luck.choice(["1m", "3m"])}
    for name in draw.leaves():
        draw.queue_notes.setdefault(name, {}).update(
            draw.luck.choice([limits, {"unisono.io/default-run-time": "2m"}, {}])
        )
    draw.jobs.append(_ends_when_evicted)
    for body in draw.extra:
        if body["kind"] == "JobTemplate":
            _ends_when_evicted(body, 0)


def _ends_when_evicted(body: Object, number: int) -> None:
    body["spec"]["policies"] = [{"event": "PodEvicted", "action": "TerminateJob"}]


def _notice(draw: Draw) -> None:
    def change(body: Object, number: int) -> None:
        notes = body["spec"]["tasks"][0]["template"]["metadata"]["annotations"]
        notes["unisono.io/evict-notice"] = draw.luck.choice(["10s", "45s"])

    draw.jobs.append(change)


def _checks(draw: Draw) -> None:
    """Nodes are looked at before their first job and when idle; in half of the draws one hangs and stays out."""
    draw.add("node-checks")
    for kept in draw.luck.choice([[], ["n-2"]]):
        spec: Object = {
            "nodes": [kept],
            "when": ["BeforeFirstJob"],
            "timeout": "10s",
            "retries": 0,
            "command": ["true"],
        }
        draw.before.append(_object("health.unisono.io/v1alpha1", "NodeCheck", "hangs", spec | {"quarantineFor": "1h"}))
    container = {"name": "check", "image": "check:1"}
    template = {"metadata": {"annotations": {"unisono.io/run-seconds": "4"}}, "spec": {"containers": [container]}}
    spec = {"nodes": ["n-0", "n-1"], "template": template, "idleEvery": draw.chance.choice(["1h", "1m"])}
    draw.before.append(_object("health.unisono.io/v1alpha1", "NodeCheck", "passes", spec))


def _native(draw: Draw) -> None:
    """Gangs of Kubernetes' own PodGroups."""
    for number in range(2):
        resources = {"requests": {"cpu": str(draw.luck.choice([1, 2, 4]))}}
        spec = {
            "schedulerName": "volcano",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "work:1", "resources": resources}],
        }
        notes = {"scheduling.volcano.sh/queue-name": draw.luck.choice(draw.leaves())}
        if draw.queue_notes:  # what a limit of run times evicts would be made again without end
            notes["unisono.io/run-seconds"] = "20"
        size = draw.luck.randint(2, 5)
        job = {
            "completions": size,
            "parallelism": size,
            "scheduling": {"schedulingPolicy": {"gang": {}}},
            "template": {"metadata": {"annotations": notes}, "spec": spec},
        }
        body = _object("batch/v1", "Job", f"native-{number}", job)
        body["metadata"]["namespace"] = draw.luck.choice(NAMESPACES)
        draw.extra.append(body)


def _one_of(draw: Draw) -> None:
    """Two nodes of each of two kinds; two of three jobs name kinds, some with twice the cards on one of them."""
    draw.add("one-of")
    for at in range(NODES):
        draw.labels[f"n-{at}"] = {"kind": "fast" if at < NODES // 2 else "slow"}
    draw.node.setdefault("capacity", {})[CARD] = "4"
    lists = ["kind=fast, kind=slow", "kind=slow@0.5, kind=fast", "kind=fast", "kind=none, kind=slow"]
    amounts = ["kind=fast, kind=slow*2@0.7", "kind=fast*2, kind=slow@0.4"]

    def change(body: Object, number: int) -> None:
        cards = draw.chance.random() < 0.6
        if cards:
            container(body)["resources"].setdefault("limits", {})[CARD] = "1"
        if number % 3 == 2:
            return
        other = cards and "networkTopology" not in body["spec"]
        note(body, "unisono.io/one-of", draw.chance.choice(lists + amounts if other else lists))
        note(body, "unisono.io/one-of-by", draw.chance.choice(["order", "order", "speed"]))

    draw.jobs.append(change)


def _machines(draw: Draw) -> None:
    """Machines that come for gangs that wait for nodes; of two sizes, as they are given back after minutes only."""
    capacity = {"cpu": draw.chance.choice([CPUS, 2 * CPUS]), "memory": "32Gi"}
    draw.groups.append({"name": "burst", "min": 0, "max": draw.chance.choice([1, 3]), "bootSeconds": 20, "price": 1})
    draw.groups[-1]["capacity"] = capacity


def _growing(draw: Draw) -> None:
    """Jobs that grow into what is idle, and give it back."""

    def change(body: Object, number: int) -> None:
        if draw.chance.random() < 0.5:
            note(body, "unisono.io/elastic", "true")
            note(body, "unisono.io/max-replicas", str(body["spec"]["tasks"][0]["replicas"] + draw.chance.randint(1, 4)))
            note(body, "unisono.io/elastic-cool-down", "20s")

    draw.jobs.append(change)


def _object(version: str, kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


LATER: dict[str, Callable[[Draw], None]] = {
    "budget": _budget,
    "hot spares": _spares,
    "calendar": _calendar,
    "run times": _run_times,
    "notice": _notice,
    "node checks": _checks,
    "native gangs": _native,
}
"""Features that are drawn beside the pairs and triples of the others: none in half of the draws, else one or two."""
LATEST: dict[str, Callable[[Draw], None]] = {"one of": _one_of, "machines": _machines, "growing jobs": _growing}
"""The same: none in a third of the draws, else one."""
