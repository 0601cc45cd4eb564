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
USERS = ("ann", "bob")


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
        asks: of how many jobs that still wait in the end it is tried whether what they are told would start them does.
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
    asks: int = 0
    advice: bool = False

    @property
    def config_text(self) -> str:
        """The configuration as a file."""
        return yaml.safe_dump(self.config)

    def with_deeds(self, deeds: tuple[Deed, ...]) -> Story:
        """The same world in which only these happen."""
        return replace(self, deeds=deeds)


@dataclass(slots=True)
class Draw:
    """A story that is being drawn.

    Attributes:
        random: where everything is drawn from.
        short: of a third of the time.
        length: seconds in which something happens.

    """

    seed: int
    random: Random
    short: bool
    length: float = 110.0
    deeds: list[Deed] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    node_names: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)

    def when(self, part: float = 1.0) -> float:
        """A time within the first ``part``."""
        return round(self.random.random() * self.length * part, 3)

    def do(self, at: float, what: str, *given: Any) -> None:
        """Something happens at ``at`` virtual seconds."""
        self.deeds.append(Deed(at, what, given))

    def story(
        self,
        nodes: tuple[Object, ...],
        config: Object,
        queues: tuple[Object, ...],
        after: float = 10.0,
        disorder: float | None = None,
    ) -> Story:
        """What was drawn; nothing breaks any more ``after`` seconds after its length."""
        deeds = tuple(sorted(self.deeds, key=lambda deed: deed.at))
        drawn = self.random.choice((0.0, 0.3, 0.8))
        ends, advice = self.length + after, self.seed % 100 == 7
        disorder = drawn if disorder is None else disorder
        return Story(self.seed, nodes, config, queues, deeds, ends, disorder, asks=int(advice), advice=advice)


def mixed(draw: Draw) -> Story:
    """A story of all kinds of work and faults."""
    random, short = draw.random, draw.short
    nodes, queues = _nodes(draw), _queues(draw)
    configured = _config(random, any("parent" in queue["spec"] for queue in queues))
    for number in range(random.randint(4, 7) if short else random.randint(6, 12)):
        _work(draw, number)
    for _ in range(random.randint(1, 3) if short else random.randint(3, 9)):
        person(draw)
    if random.random() < 0.92:
        for _ in range(random.randint(3, 6) if short else random.randint(4, 10)):
            _fault(draw)
    return draw.story(nodes, configured, queues)


def _nodes(draw: Draw) -> tuple[Object, ...]:
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


def _queues(draw: Draw) -> tuple[Object, ...]:
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
    notes: Object = {} if seconds is None else {"unisono.io/run-seconds": str(seconds)}
    if random.random() < 0.07 and seconds is not None:
        notes["unisono.io/exit-code"] = "1"
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests, "limits": requests}}
    spec: Object = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"annotations": notes}, "spec": spec}


def _work(draw: Draw, number: int) -> None:
    random, name = draw.random, f"j{number}"
    at, kind = draw.when(0.7), random.random()
    queue = random.choice([*draw.queues, "default"])
    replicas = random.randint(1, 5)
    if kind < 0.08:
        replicas = random.randint(20, 40)  # has no place
    seconds = None if random.random() < 0.25 else round(random.uniform(5, 60), 1)
    template = pod_template(random, _requests(random), seconds)
    user = random.choice(USERS)
    if kind < 0.75:
        least = replicas if random.random() < 0.7 else random.randint(1, replicas)
        body: Object = {
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


def person(draw: Draw) -> None:
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
        pod = pod_template(random, _requests(random), round(random.uniform(5, 40), 1))
        metadata = {**pod["metadata"], "name": f"p{len(draw.deeds)}", "namespace": "default"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
        draw.do(at, "create", random.choice(USERS), body)


def _fault(draw: Draw) -> None:
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
