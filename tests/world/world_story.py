"""What happens in a world, as data that a seed gives: the cluster, what people do, and what breaks, each at its time.

A story is a list of ``Deed``s, so that some of them can be left out to find the few that a finding needs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import yaml

Object = dict[str, Any]
VOLCANO = "scheduling.volcano.sh/v1beta1"
PROCESSES = ("scheduler-a", "scheduler-b", "controllers-a", "nodes", "observer")
_USERS = ("ann", "bob")
_THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that happens ``at`` virtual seconds: ``what`` with its arguments."""

    at: float
    what: str
    given: tuple[Any, ...] = ()

    def __str__(self) -> str:
        words = (json.dumps(one, sort_keys=True) if isinstance(one, dict) else str(one) for one in self.given)
        return f"{self.at:8.3f} {self.what} {' '.join(words)}".rstrip()


@dataclass(frozen=True, slots=True)
class Story:
    """A world before it begins.

    Attributes:
        seed: gives the order of tasks, times and faults of single requests.
        nodes: groups of simulated nodes.
        config: scheduler configuration.
        queues: Queue objects.
        deeds: what happens, in order.
        ends: when no more breaks and the rest begins (seconds).
        disorder: share of the turns of the loop whose order is drawn.
        replicas: schedulers, of which one leads.
        advice: verdicts try what would help, which takes ten times as long as to decide.

    """

    seed: int
    nodes: tuple[Object, ...]
    config: Object
    queues: tuple[Object, ...]
    deeds: tuple[Deed, ...]
    ends: float
    disorder: float = 0.5
    replicas: int = 2
    advice: bool = False

    @property
    def config_text(self) -> str:
        """The configuration as a file."""
        return yaml.safe_dump(self.config)

    def with_deeds(self, deeds: tuple[Deed, ...]) -> Story:
        """The same world in which only these happen."""
        return replace(self, deeds=deeds)


@dataclass(slots=True)
class _Draw:
    random: Random
    short: bool
    deeds: list[Deed] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    node_names: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)

    @property
    def length(self) -> float:
        return 25.0 if self.short else 110.0

    def when(self, part: float = 1.0) -> float:
        return round(self.random.random() * self.length * part, 3)

    def do(self, at: float, what: str, *given: Any) -> None:
        self.deeds.append(Deed(at, what, given))


def story(seed: int, *, short: bool = False) -> Story:
    """The story of a seed; ``short`` ones take a third of the time and see the same faults.

    Of each three thousand seeds, those of the first are of all kinds of work and faults; those of the second of more
    work than there is room for, while binds and evictions are slow, fail, and are heard of late; those of the third of
    work without end that grows and shrinks below limits, in a cluster with room.
    """
    family = seed // _THOUSAND % 3
    if family == 1:
        return throng(seed - _THOUSAND, short=short)
    if family:
        return growth(seed - 2 * _THOUSAND, short=short)
    draw = _Draw(Random(seed), short)
    random = draw.random
    nodes = _nodes(draw)
    queues = _queues(draw)
    config = _config(random, any("parent" in queue["spec"] for queue in queues))
    for number in range(random.randint(4, 7) if short else random.randint(6, 12)):
        _work(draw, number)
    for _ in range(random.randint(1, 3) if short else random.randint(3, 9)):
        _person(draw)
    if random.random() < 0.92:
        for _ in range(random.randint(3, 6) if short else random.randint(4, 10)):
            _fault(draw)
    deeds = tuple(sorted(draw.deeds, key=lambda deed: deed.at))
    disorder = random.choice((0.0, 0.3, 0.8))
    return Story(seed, nodes, config, queues, deeds, draw.length + 10.0, disorder, advice=seed % 100 == 7)


def throng(seed: int, *, short: bool) -> Story:
    """A story of contention."""
    draw = _Draw(Random(seed), short)
    random = draw.random
    count, size = random.randint(2, 3), random.choice((4, 4, 6))
    capacity: Object = {"cpu": size, "memory": "32Gi", "nvidia.com/gpu": random.choice((1, 2))}
    nodes = ({"name": "n", "count": count, "capacity": capacity},)
    draw.node_names += [f"n-{number}" for number in range(count)]
    queues = _contended(draw, count * size)
    config = _contending(random, any("parent" in queue["spec"] for queue in queues))
    if "resourcequota" in str(config):
        hard = {"requests.cpu": str(random.randint(size, count * size)), "pods": "30"}
        metadata = {"name": "all", "namespace": "default"}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
        draw.do(0.0, "create", "admin", quota)
    for number in range(random.randint(7, 11) if draw.short else random.randint(14, 24)):
        _contender(draw, number, size)
    for _ in range(random.randint(6, 10) if draw.short else random.randint(15, 25)):
        _burst(draw)
    for _ in range(random.randint(1, 3)):
        _person(draw)
    if random.random() < 0.7:
        draw.do(0.0, "slow", draw.length, round(random.uniform(0.2, 0.75), 3), True)
    if random.random() < 0.8:
        draw.do(0.0, "lag", draw.length, round(random.uniform(1, 8), 3), random.choice(("scheduler", "scheduler", "")))
    for _ in range(random.randint(2, 4) if draw.short else random.randint(4, 9)):
        _hindrance(draw)
    deeds = tuple(sorted(draw.deeds, key=lambda deed: deed.at))
    disorder = random.choice((0.0, 0.3, 0.8))
    return Story(seed, nodes, config, queues, deeds, draw.length + 10.0, disorder, advice=seed % 100 == 7)


def growth(seed: int, *, short: bool) -> Story:
    """A story of jobs that would grow beyond what their queue or user may hold, and of pods that go and come again."""
    draw = _Draw(Random(seed), short)
    random = draw.random
    count, size = random.randint(2, 3), random.choice((6, 8))
    nodes = ({"name": "n", "count": count, "capacity": {"cpu": size, "memory": "64Gi"}},)
    draw.node_names += [f"n-{number}" for number in range(count)]
    queues = (
        _queue("capped", {"weight": 1, "capability": {"cpu": random.randint(2, 4)}}),
        _queue("shared", {"weight": 1}, random.choice(("cpu=3", "pods=2", "cpu=4,pods=3"))),
        _queue("free", {"weight": 2}),
    )
    draw.queues += ["capped", "shared", "free"]
    second: list[Object] = [{"name": "predicates"}, {"name": random.choice(("capacity", "capacity", "proportion"))}]
    second += [{"name": "user-limits"}, {"name": "nodeorder"}]
    tiers = [{"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]}, {"plugins": second}]
    actions = random.choice(("enqueue, allocate, backfill", "enqueue, allocate, preempt, backfill"))
    for number in range(random.randint(4, 6) if short else random.randint(8, 12)):
        _growing(draw, number)
    for _ in range(random.randint(2, 4) if short else random.randint(5, 9)):
        draw.do(draw.when(), "delete-pod", random.randrange(1000))
        draw.do(draw.when(), "stale", random.randrange(1000))
        draw.do(draw.when(), "bind-again", random.randrange(1000), random.choice(draw.node_names))
    for kind in random.sample(("pause", "pause", "part", "node", "power", "nodes", "bind"), random.randint(2, 3)):
        at, lasts = draw.when(0.8), round(random.uniform(12, 30), 3)
        if kind == "pause":
            for name in ("scheduler-a", "scheduler-b"):
                draw.do(at, "pause", name, lasts)
                at = round(at + lasts + 5, 3)
        elif kind == "part":
            draw.do(at, "part", "observer", lasts)
        elif kind == "node":
            draw.do(at, "kill", "nodes", lasts)
            draw.do(at, "delete", "v1", "Node", random.choice(draw.node_names))
        elif kind == "power":
            draw.do(at, "power", random.choice(("now", "commit")), 1.0)
        elif kind == "nodes":
            draw.do(at, "kill", "nodes", lasts)
        else:
            draw.do(at, "refuse", "bind", lasts, 0.8, random.choice(("busy", "conflict", "lost")))
    deeds = tuple(sorted(draw.deeds, key=lambda deed: deed.at))
    disorder = random.choice((0.0, 0.3, 0.8))
    return Story(seed, nodes, {"actions": actions, "tiers": tiers}, queues, deeds, draw.length + 40.0, disorder)


def _queue(name: str, spec: Object, users: str = "") -> Object:
    notes = {"unisono.io/user-limits": users} if users else {}
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name, "annotations": notes}, "spec": spec}


def _growing(draw: _Draw, number: int) -> None:
    random, name = draw.random, f"j{number}"
    at, replicas = draw.when(0.5), random.randint(2, 6)
    ends = random.random() < 0.3
    template = pod_template(random, {"cpu": "1", "memory": "1Gi"}, round(random.uniform(3, 20), 1) if ends else None)
    spec: Object = {
        "schedulerName": "volcano",
        "queue": draw.queues[number % len(draw.queues)],
        "minAvailable": random.choice((1, 1, min(replicas, 2))),
        "tasks": [{"name": "t", "replicas": replicas, "template": template}],
    }
    if ends:
        spec["ttlSecondsAfterFinished"] = random.randint(5, 40)
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
    }
    draw.do(at, "create", random.choice(_USERS), {**body, "spec": spec})
    draw.jobs.append(name)
    if random.random() < 0.5:
        tasks = [{"name": "t", "replicas": random.choice((1, 1, 2, 8)), "template": template}]
        later = round(at + random.uniform(5, 25), 3)
        draw.do(later, "patch", body["apiVersion"], "Job", name, {"spec": {"minAvailable": 1, "tasks": tasks}})


def _contended(draw: _Draw, room: int) -> tuple[Object, ...]:
    random, found = draw.random, list[Object]()
    tree = random.random() < 0.3
    if tree:
        room = random.randint(room // 2, room)
        spec: Object = {"weight": 1, "capability": {"cpu": room}}
        found.append({"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "top"}, "spec": spec})
    for name in ("a", "b", "c")[: random.randint(2, 3)]:
        spec = {"weight": random.randint(1, 3), "reclaimable": random.random() < 0.9}
        if random.random() < 0.5 and not tree:
            spec["deserved"] = {"cpu": random.randint(1, room // 3)}
        if random.random() < 0.4:
            spec["capability"] = {"cpu": random.randint(room // 2, room)}
        if tree and name != "c":
            spec["parent"] = "top"
        notes = {}
        if random.random() < 0.3:
            notes["unisono.io/user-limits"] = random.choice(("cpu=4", "pods=3", "cpu=6,pods=5"))
        metadata = {"name": name, "annotations": notes}
        found.append({"apiVersion": VOLCANO, "kind": "Queue", "metadata": metadata, "spec": spec})
        draw.queues.append(name)
    return tuple(found)


def _contending(random: Random, tree: bool) -> Object:
    actions = ["enqueue", "allocate"]
    actions += random.choice((["preempt"], ["preempt", "reclaim"], ["gangpreempt", "gangreclaim"], ["reclaim"], []))
    share: Object = {"name": "capacity", "enableHierarchy": True} if tree else {"name": "capacity"}
    if not tree and random.random() < 0.2:
        share = {"name": "proportion"}
    second: list[Object] = [{"name": "predicates"}, share, {"name": "user-limits"}, {"name": "nodeorder"}]
    if random.random() < 0.4:
        second.append({"name": "overcommit"})
    if random.random() < 0.3:
        second.append({"name": "resourcequota"})
    if random.random() < 0.5:
        second.append({"name": "binpack"})
    first = [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]
    return {"actions": ", ".join([*actions, "backfill"]), "tiers": [{"plugins": first}, {"plugins": second}]}


def _contender(draw: _Draw, number: int, size: int) -> None:
    """A job of a size that is a large part of the cluster: whole, elastic, or of pods that leave room unused."""
    random, name = draw.random, f"j{number}"
    at, queue = draw.when(0.75), random.choice(draw.queues)
    replicas = random.randint(1, 6)
    least = random.choice((replicas, replicas, 1, random.randint(1, replicas)))
    cpu = random.choice(("1", "1", "2", str(size // 2 + 1)))
    asked: Object = {"cpu": cpu, "memory": "1Gi"}
    if random.random() < 0.15:
        asked["nvidia.com/gpu"] = "1"
    lasts = None if random.random() < 0.3 else round(random.uniform(4, 40), 1)
    template = pod_template(random, asked, lasts)
    policies = random.choice(([], [], [{"event": "PodEvicted", "action": "RestartJob"}]))
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "queue": queue,
            "minAvailable": least,
            "priorityClassName": random.choice(("", "high", "low")),
            "policies": policies,
            "tasks": [{"name": "t", "replicas": replicas, "template": template}],
        },
    }
    draw.do(at, "create", random.choice(_USERS), body)
    draw.jobs.append(name)
    later = round(at + random.random() * 30, 3)
    if random.random() < 0.25:
        draw.do(later, "delete", body["apiVersion"], "Job", name)
    elif random.random() < 0.3:
        tasks = [{"name": "t", "replicas": random.randint(1, 8), "template": template}]
        draw.do(later, "patch", body["apiVersion"], "Job", name, {"spec": {"minAvailable": 1, "tasks": tasks}})


def _burst(draw: _Draw) -> None:
    """Pods of a few seconds that come together, so that places are given, left and given again all the time."""
    random, at = draw.random, draw.when()
    asked: Object = {"cpu": random.choice(("1", "1", "2")), "memory": "1Gi"}
    for _ in range(random.randint(2, 5)):
        pod = pod_template(random, asked, round(random.uniform(1, 8), 1))
        notes = {**pod["metadata"]["annotations"], "scheduling.volcano.sh/queue-name": random.choice(draw.queues)}
        spec = {**pod["spec"], "priorityClassName": random.choice(("high", "low"))}
        metadata = {"name": f"p{len(draw.deeds)}", "namespace": "default", "annotations": notes}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        draw.do(at, "create", random.choice(_USERS), body)


def _hindrance(draw: _Draw) -> None:
    """What goes wrong with binds, evictions, and what is heard of them."""
    random, at = draw.random, draw.when(0.9)
    lasts = round(random.uniform(5, 30), 3)
    kind = random.choice(("refuse", "refuse", "refuse", "nodes", "kill", "abdicate", "cut", "part", "full", "again"))
    if kind == "refuse":
        verb, how = random.choice(("bind", "bind", "delete", "patch")), random.choice(("busy", "conflict", "lost"))
        draw.do(at, "refuse", verb, lasts, round(random.uniform(0.3, 0.95), 2), how)
    elif kind == "nodes":
        draw.do(at, "kill", "nodes", round(random.uniform(5, 60), 3))
    elif kind == "kill":
        draw.do(at, "kill", random.choice(("scheduler-a", "scheduler-b", "controllers-a")), lasts / 5)
    elif kind == "abdicate":
        draw.do(at, "abdicate")
    elif kind == "cut":
        draw.do(at, "cut", random.choice(PROCESSES))
    elif kind == "part":
        draw.do(at, "part", random.choice(PROCESSES), lasts)
    elif kind == "full":
        draw.do(at, "full", round(lasts / 3, 3), round(random.uniform(0.2, 1.0), 3))
    else:
        draw.do(at, "bind-again", random.randrange(1000), random.choice(draw.node_names))


def _nodes(draw: _Draw) -> tuple[Object, ...]:
    random = draw.random
    groups = []
    for name in ("n", "g")[: random.randint(1, 2)]:
        count = random.randint(1, 3)
        capacity: Object = {"cpu": random.choice((4, 6, 8)), "memory": "32Gi"}
        if name == "g":
            capacity["nvidia.com/gpu"] = random.choice((2, 4))
        if random.random() < 0.3:
            capacity["pods"] = random.randint(3, 6)
        groups.append({"name": name, "count": count, "capacity": capacity})
        draw.node_names += [f"{name}-{number}" for number in range(count)] if count > 1 else [name]
    return tuple(groups)


def _queues(draw: _Draw) -> tuple[Object, ...]:
    random = draw.random
    found = []
    for name in ("a", "b", "c")[: random.randint(1, 3)]:
        spec: Object = {"weight": random.randint(1, 3), "reclaimable": random.random() < 0.8}
        if random.random() < 0.5:
            spec["capability"] = {"cpu": random.choice((4, 6, 10))}
        if random.random() < 0.4 and "capability" not in spec:
            spec["deserved"] = {"cpu": random.choice((2, 4))}
        notes = {}
        if random.random() < 0.35:
            notes["unisono.io/user-limits"] = random.choice(("cpu=4", "pods=3", "cpu=6,pods=5"))
        metadata = {"name": name, "annotations": notes}
        found.append({"apiVersion": VOLCANO, "kind": "Queue", "metadata": metadata, "spec": spec})
        draw.queues.append(name)
    return tuple(found)


def _config(random: Random, tree: bool) -> Object:
    actions = ["enqueue", "allocate"]
    if random.random() < 0.6:
        actions.append("preempt")
    if random.random() < 0.6:
        actions.append("reclaim")
    share = random.choice(("capacity", "capacity", "proportion"))
    second: list[Object] = [{"name": "overcommit"}, {"name": "predicates"}]
    second.append({"name": share, "enableHierarchy": True} if tree and share == "capacity" else {"name": share})
    second += [{"name": "user-limits"}, {"name": "nodeorder"}]
    if random.random() < 0.4:
        second.append({"name": "binpack"})
    first = [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]
    return {"actions": ", ".join([*actions, "backfill"]), "tiers": [{"plugins": first}, {"plugins": second}]}


def _requests(random: Random) -> Object:
    asked: Object = {"cpu": random.choice(("500m", "1", "1", "2", "3")), "memory": random.choice(("1Gi", "2Gi"))}
    if random.random() < 0.15:
        asked["nvidia.com/gpu"] = "1"
    return asked


def pod_template(random: Random, requests: Object, seconds: float | None) -> Object:
    """A pod template of a simulated pod that runs for so long, or for ever."""
    notes = {} if seconds is None else {"unisono.io/run-seconds": str(seconds)}
    if random.random() < 0.07 and seconds is not None:
        notes["unisono.io/exit-code"] = "1"
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests, "limits": requests}}
    spec = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"annotations": notes}, "spec": spec}


def _work(draw: _Draw, number: int) -> None:
    random, name = draw.random, f"j{number}"
    at, kind = draw.when(0.7), random.random()
    queue = random.choice([*draw.queues, "default"])
    replicas = random.randint(1, 5)
    if kind < 0.08:
        replicas = random.randint(20, 40)  # has no place
    seconds = None if random.random() < 0.25 else round(random.uniform(5, 60), 1)
    template = pod_template(random, _requests(random), seconds)
    user = random.choice(_USERS)
    if kind < 0.75:
        least = replicas if random.random() < 0.7 else random.randint(1, replicas)
        body = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "schedulerName": "volcano",
                "queue": queue,
                "minAvailable": least,
                "priorityClassName": random.choice(("", "", "high", "low")),
                "policies": random.choice(
                    (
                        [],
                        [{"event": "PodEvicted", "action": "RestartJob"}],
                        [{"event": "PodFailed", "action": "RestartJob"}],
                    )
                ),
                "tasks": [{"name": "t", "replicas": replicas, "template": template}],
            },
        }
        if random.random() < 0.3:
            body["spec"]["ttlSecondsAfterFinished"] = random.randint(0, 20)
    elif kind < 0.9:
        template["spec"]["restartPolicy"] = "Never"
        template["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = queue
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"parallelism": replicas, "completions": replicas, "template": template},
        }
    else:
        template["spec"]["restartPolicy"] = "Always"
        template["metadata"] = {"labels": {"app": name}}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": min(replicas, 6),
                "selector": {"matchLabels": {"app": name}},
                "template": template,
            },
        }
    draw.do(at, "create", user, body)
    draw.jobs.append(name)
    if random.random() < 0.25:
        draw.do(round(at + random.random() * 40, 3), "delete", body["apiVersion"], body["kind"], name)
    if body["kind"] == "Deployment" and random.random() < 0.5:
        size = random.randint(0, 6)
        draw.do(
            round(at + random.random() * 40, 3), "patch", "apps/v1", "Deployment", name, {"spec": {"replicas": size}}
        )


def _person(draw: _Draw) -> None:
    random, at = draw.random, draw.when()
    node, queue = random.choice(draw.node_names), random.choice(draw.queues)
    kind = random.choice(("cordon", "pod", "pod", "queue", "node", "drain", "shrink", "bare", "order"))
    if kind == "cordon":
        draw.do(at, "patch", "v1", "Node", node, {"spec": {"unschedulable": True}})
        back = round(at + random.random() * 30, 3)
        draw.do(back, "patch", "v1", "Node", node, {"spec": {"unschedulable": None}})
    elif kind == "pod":
        draw.do(at, "delete-pod", random.randrange(1000))
    elif kind == "queue":
        spec = random.choice(({"weight": 5}, {"capability": {"cpu": 8}}, {"reclaimable": False}))
        draw.do(at, "patch", VOLCANO, "Queue", queue, {"spec": spec})
    elif kind == "node":
        draw.do(at, "delete", "v1", "Node", node)
    elif kind == "drain":
        draw.do(at, "drain", node)
    elif kind == "shrink":
        draw.do(at, "shrink", node, random.choice((0, 1, 2)))
    elif kind == "order":
        job = random.choice(draw.jobs)
        draw.do(at, "order", "AbortJob", job)
        draw.do(round(at + random.random() * 20, 3), "order", random.choice(("ResumeJob", "RestartJob")), job)
    else:
        spec = pod_template(random, _requests(random), round(random.uniform(5, 40), 1))
        metadata = {**spec["metadata"], "name": f"p{len(draw.deeds)}", "namespace": "default"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec["spec"]}
        draw.do(at, "create", random.choice(_USERS), body)


def _fault(draw: _Draw) -> None:
    random, at = draw.random, draw.when(0.9)
    lasts = round(random.uniform(2, 20), 3)
    weights = {"kill": 3, "storm": 3, "power": 4, "part": 2, "cut": 1, "full": 1, "clock": 1, "slow": 1, "abdicate": 1}
    kind = random.choices(list(weights), list(weights.values()))[0]
    if kind == "kill":
        draw.do(at, "kill", random.choice(PROCESSES), round(random.random() ** 2 * 10, 3))
    elif kind == "storm":
        draw.do(at, "storm", lasts, round(random.uniform(0.05, 0.4), 3), round(random.choice((0, 0.02, 0.1)), 3))
    elif kind == "cut":
        draw.do(at, "cut", random.choice(PROCESSES))
    elif kind == "part":
        draw.do(at, "part", random.choice(PROCESSES), lasts)
    elif kind == "power":
        draw.do(at, "power", random.choice(("now", "commit", "commit")), round(random.random() * 4, 3))
    elif kind == "full":
        draw.do(at, "full", round(lasts / 2, 3), round(random.uniform(0.2, 1.0), 3))
    elif kind == "clock":
        draw.do(at, "clock", random.choice(PROCESSES), random.choice((-3600, -30, 30, 3600)))
    elif kind == "slow":
        draw.do(at, "slow", lasts, round(random.uniform(0.2, 2.5), 3))
    else:
        draw.do(at, "abdicate")
