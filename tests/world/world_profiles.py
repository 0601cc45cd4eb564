"""Kinds of worlds: each draws some kinds of trouble often, so that most of its seeds find the faults that need them.

The thousands of a seed say which kind it is: 3004 is the fifth world of the fourth kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import yaml
from world_configured import KEY
from world_configured import NAMES as CONFIG_MAPS
from world_crowds import growth, queue, throng
from world_story import USERS, Draw, Object, Story, mixed, pod_template

_THOUSAND = 1000
_ROOT: Object = {"weight": 1}
_SCHEDULERS = ("scheduler-a", "scheduler-b")
_FIRST = ("priority", "gang", "conformance")


def _config(actions: str, *plugins: Any) -> Object:
    named = [one if isinstance(one, dict) else {"name": one} for one in plugins]
    first: list[Object] = [{"name": name} for name in _FIRST]
    return {"actions": actions, "tiers": [{"plugins": first}, {"plugins": [{"name": "predicates"}, *named]}]}


def _nodes(draw: Draw, count: int, **capacity: Any) -> tuple[Object, ...]:
    draw.node_names += [f"n-{number}" for number in range(count)]
    return ({"name": "n", "count": count, "capacity": {"memory": "64Gi", **capacity}},)


def _asked(cpu: str = "1", **more: Any) -> Object:
    return {"cpu": cpu, "memory": "1Gi", **more}


def _pod(draw: Draw, at: float, lasts: float | None, asked: Object, *, priority: str = "", **spec: Any) -> Object:
    """Somebody creates a pod of its own; answers its object, which may still be changed."""
    body = pod_template(draw.random, asked, lasts)
    body["metadata"] |= {"name": f"p{len(draw.deeds)}", "namespace": "default"}
    body["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = draw.random.choice(draw.queues)
    body["spec"] |= {"priorityClassName": priority, **spec}
    draw.do(at, "create", draw.random.choice(USERS), {"apiVersion": "v1", "kind": "Pod", **body})
    return body


def _burst(draw: Draw, at: float, most: int = 5, longest: float = 8.0) -> None:
    for _ in range(draw.random.randint(2, most)):
        _pod(draw, at, round(draw.random.uniform(1, longest), 1), _asked(draw.random.choice(("1", "1", "2"))))


def _job(
    draw: Draw, at: float, replicas: int, least: int, lasts: float | None, asked: Object | None = None, **spec: Any
) -> Object:
    """Somebody creates a job of one role ``t``; answers its object, which may still be changed."""
    name = f"j{len(draw.jobs)}"
    draw.jobs.append(name)
    template = pod_template(draw.random, asked or _asked(), lasts)
    body: Object = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "queue": draw.random.choice(draw.queues),
            "minAvailable": least,
            "tasks": [{"name": "t", "replicas": replicas, "template": template}],
            **spec,
        },
    }
    draw.do(at, "create", draw.random.choice(USERS), body)
    return body


def _queues(draw: Draw, **specs: Object) -> tuple[Object, ...]:
    draw.queues += list(specs)
    return tuple(queue(name, spec) for name, spec in specs.items())


def disk(draw: Draw) -> Story:
    """Disks that are full, and power that goes in the middle of commits, while pods come and go."""
    random = draw.random
    nodes, queues = _nodes(draw, 3, cpu=8), _queues(draw, free=_ROOT)
    for _ in range(8):
        _burst(draw, draw.when())
    for _ in range(3):
        _job(draw, draw.when(), random.randint(2, 4), 2, round(random.uniform(2, 9), 1))
    for _ in range(3):
        at, lasts = draw.when(0.9), round(random.uniform(2, 6), 3)
        draw.do(at, "full", lasts, round(random.uniform(0.2, 0.7), 3))
        draw.do(at, "flutter", lasts)
    for _ in range(4):
        how = random.choice(("now", "commit", "commit"))
        draw.do(draw.when(), "power", how, round(random.uniform(0.2, 1.5), 3))
    return draw.story(nodes, _config("enqueue, allocate, backfill", "nodeorder"), queues)


def watches(draw: Draw) -> Story:
    """Watches that break all the time, and processes that hear nothing for longer than history is kept."""
    random = draw.random
    nodes, queues = _nodes(draw, 3, cpu=8), _queues(draw, free=_ROOT)
    draw.do(0.0, "storm", draw.length, 0.02, round(random.uniform(0.05, 0.2), 3))
    for _ in range(6):
        _burst(draw, draw.when())
    for _ in range(4):
        body = _job(draw, draw.when(0.6), random.randint(1, 4), 1, None)
        draw.do(draw.when(), "delete", body["apiVersion"], "Job", body["metadata"]["name"])
    for _ in range(6):
        draw.do(draw.when(), "delete-pod", random.randrange(1000))
    for name in ("observer", "observer", "controllers-a", "nodes"):
        draw.do(draw.when(0.9), "part", name, round(random.uniform(3, 9), 3))
        draw.do(draw.when(), "cut", random.choice((name, *_SCHEDULERS)))
    return draw.story(nodes, _config("enqueue, allocate, backfill", "nodeorder"), queues)


def leaders(draw: Draw) -> Story:
    """Leaders that stand still for longer than their lease, lose it, or reach nobody, with much to write."""
    random = draw.random
    draw.length = 70.0
    nodes, queues = _nodes(draw, 3, cpu=8), _queues(draw, free=_ROOT)
    if random.random() < 0.3:  # a request that is on its way takes longer than what ends a leader
        draw.do(0.0, "slow", draw.length, round(random.uniform(0.3, 1.5), 3), True)
    at = round(random.uniform(4, 12), 3)
    for name in random.choice((_SCHEDULERS, _SCHEDULERS[::-1])):
        lasts, what = round(random.uniform(17, 24), 3), random.choice(("pause", "pause", "pause", "part"))
        draw.do(at, what, name, lasts)
        draw.do(round(at - 1, 3), "refuse", "bind", lasts, 0.8, "busy")
        for moment in (-1.5, -0.3, lasts - 2, lasts - 0.3):
            _burst(draw, round(at + moment, 3))
        at = round(at + lasts + random.uniform(4, 10), 3)
    for _ in range(random.randint(2, 3)):
        draw.do(draw.when(), "abdicate")
    for _ in range(4):
        _burst(draw, draw.when())
    return draw.story(nodes, _config("enqueue, allocate, backfill", "nodeorder"), queues, disorder=0.8)


def binds(draw: Draw) -> Story:
    """Binds that fail, are lost or in conflict, on nodes that are full, heard of late."""
    random = draw.random
    draw.length = 35.0
    nodes = _nodes(draw, 2, cpu=random.choice((3, 4)), pods=random.choice((4, 5, 110)))
    queues = _queues(draw, free=_ROOT)
    at, hows = 2.0, ["conflict", "lost", "busy"]
    random.shuffle(hows)
    for how in hows:
        draw.do(at, "refuse", "bind", 9.0, round(random.uniform(0.4, 0.8), 2), how)
        at += 10.0
    draw.do(0.0, "lag", draw.length, round(random.uniform(1, 5), 3), "scheduler")
    draw.do(0.0, "slow", draw.length, round(random.uniform(0.1, 0.6), 3), True)
    for _ in range(8):
        _burst(draw, draw.when())
        draw.do(draw.when(), "bind-again", random.randrange(1000), random.choice(draw.node_names))
    for _ in range(7):
        port: Object = {"name": "main", "image": "busybox", "resources": {"requests": _asked()}}
        ports = [{"containerPort": 80, "hostPort": 8080}]
        _pod(draw, draw.when(), round(random.uniform(3, 9), 1), _asked(), containers=[{**port, "ports": ports}])
    return draw.story(nodes, _config("enqueue, allocate, backfill", "nodeorder"), queues)


def gangs(draw: Draw) -> Story:
    """Gangs that fill the cluster, of which some binds fail for long, and of which pods and nodes are taken away."""
    random = draw.random
    draw.length = 45.0
    nodes = _nodes(draw, 3, cpu=4)
    queues = _queues(draw, free=_ROOT)
    for _ in range(random.randint(6, 8)):
        replicas = random.randint(3, 7)
        lasts = round(random.uniform(5, 20), 1)
        _job(draw, draw.when(0.7), replicas, replicas - random.randint(0, 1), lasts, _asked(random.choice("112")))
    _job(draw, draw.when(0.3), 14, 14, None)  # has no place
    draw.do(1.0, "refuse", "bind", draw.length, round(random.uniform(0.93, 0.98), 3), "busy")
    for _ in range(3):
        draw.do(draw.when(), "delete-pod", random.randrange(1000))
        _burst(draw, draw.when())
    if random.random() < 0.7:
        for name in draw.node_names:
            draw.do(15.0, "patch", "v1", "Node", name, {"spec": {"unschedulable": True}})
    else:
        draw.do(draw.when(), "delete", "v1", "Node", random.choice(draw.node_names))
    return draw.story(nodes, _config("enqueue, allocate, backfill", "nodeorder"), queues)


def evictions(draw: Draw) -> Story:
    """High priorities and poor queues that take room from others, whose pods leave slowly or cannot be evicted."""
    random = draw.random
    draw.length = 45.0
    nodes = _nodes(draw, 2, cpu=4)
    queues = _queues(draw, a={"weight": 1, "deserved": {"cpu": 4}}, b={"weight": 1, "deserved": {"cpu": 4}})
    actions = random.choice(("preempt", "preempt, reclaim", "reclaim", "gangpreempt, gangreclaim"))
    if random.random() < 0.8:
        spec = {"minAvailable": random.randint(1, 3), "selector": {"matchLabels": {"kept": "yes"}}}
        budget: Object = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec}
        draw.do(0.0, "create", "admin", {**budget, "metadata": {"name": "kept", "namespace": "default"}})
    for name, at in (("a", 0.1), ("b", 0.2), ("a", 0.5), ("b", 0.6)):
        body = _job(draw, draw.when(at), random.randint(3, 6), 1, None, priorityClassName="low", queue=name)
        body["spec"]["tasks"][0]["template"]["metadata"]["labels"] = {"kept": random.choice(("yes", "no"))}
    for _ in range(6):
        at, size = round(8 + draw.when(0.8), 3), random.randint(1, 3)
        lasts = None if random.random() < 0.5 else round(random.uniform(4, 12), 1)
        _job(draw, at, size, size, lasts, _asked(random.choice("12")), priorityClassName="high")
    for verb in ("delete", "evict"):
        share, how = round(random.uniform(0.5, 0.9), 2), random.choice(("busy", "busy", "lost"))
        draw.do(9.0, "refuse", verb, draw.length - 5, share, how)
    for _ in range(2):
        draw.do(round(10 + draw.when(0.7), 3), "kill", "nodes", round(random.uniform(5, 20), 3))
    draw.do(0.0, "lag", draw.length, round(random.uniform(0.5, 3), 3), "scheduler")
    return draw.story(
        nodes, _config(f"enqueue, allocate, {actions}, backfill", "capacity", "pdb", "nodeorder"), queues, after=30.0
    )


def controllers(draw: Draw) -> Story:
    """Jobs and deployments whose sizes change, whose pods are deleted, which end, are ordered about and have owners."""
    random = draw.random
    draw.length = 35.0
    nodes, queues = _nodes(draw, 3, cpu=8), _queues(draw, free=_ROOT)
    for _ in range(4):
        at = draw.when(0.4)
        body = _job(draw, at, random.randint(2, 4), 1, None)
        name, template = body["metadata"]["name"], body["spec"]["tasks"][0]["template"]
        for size in random.sample((1, 3, 6), 2):
            at = round(at + random.uniform(3, 9), 3)
            tasks = [{"name": "t", "replicas": size, "template": template}]
            draw.do(at, "patch", body["apiVersion"], "Job", name, {"spec": {"minAvailable": 1, "tasks": tasks}})
    draw.do(0.0, "slow", draw.length, round(random.uniform(0.1, 0.6), 3), True)
    for _ in range(3):
        ttl = random.randint(1, 12)
        _job(draw, draw.when(), 2, 2, round(random.uniform(1, 6), 1), ttlSecondsAfterFinished=ttl)
        gone = _job(draw, draw.when(0.5), 2, 1, None)
        draw.do(draw.when(), "delete", gone["apiVersion"], "Job", gone["metadata"]["name"])
        draw.do(draw.when(), "order", random.choice(("AbortJob", "RestartJob")), gone["metadata"]["name"])
    for number in range(3):
        labels = {"app": f"d{number}"}
        pod = pod_template(random, _asked("500m"), None)
        template = {"metadata": {"labels": labels}, "spec": {**pod["spec"], "restartPolicy": "Always"}}
        spec = {"replicas": random.randint(1, 3), "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": f"d{number}", "namespace": "default"}
        made = draw.when(0.3)
        draw.do(
            made, "create", "ann", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
        )
        draw.do(round(made + 5, 3), "patch", "apps/v1", "Deployment", f"d{number}", {"spec": {"replicas": 2}})
    draw.do(draw.when(), "delete", "apps/v1", "Deployment", "d0")
    for _ in range(5):
        draw.do(draw.when(), "delete-pod", random.randrange(1000))
        draw.do(draw.when(), "stale", random.randrange(1000))
    draw.do(draw.when(), "kill", "controllers-a", 2.0)
    return draw.story(nodes, _config("enqueue, allocate, backfill", "nodeorder"), queues)


def machines(draw: Draw) -> Story:
    """Nodes that are deleted, shrink and are cordoned, and their agent that dies while pods end and are deleted."""
    random = draw.random
    draw.length = 35.0
    nodes, queues = _nodes(draw, 4, cpu=4), _queues(draw, free=_ROOT)
    for _ in range(8):
        _burst(draw, draw.when(), longest=12.0)
        draw.do(draw.when(), "delete-pod", random.randrange(1000))
    for _ in range(3):
        _job(draw, draw.when(0.6), random.randint(2, 5), 2, round(random.uniform(5, 30), 1))
        _job(draw, draw.when(0.6), 2, 1, None)
    # A new life of the agent makes nodes again that were deleted.
    for _ in range(2):
        draw.do(draw.when(0.4), "kill", "nodes", round(random.uniform(2, 6), 3))
    for at, name in zip((21.0, 33.0), random.sample(draw.node_names, 2), strict=True):
        draw.do(at, "delete", "v1", "Node", name)
    for at in (26.0, 34.0):
        _burst(draw, at)
    name = random.choice(draw.node_names)
    draw.do(draw.when(), "shrink", name, random.choice((0, 1, 2)))
    draw.do(draw.when(), "drain", random.choice(draw.node_names))
    return draw.story(nodes, _config("enqueue, allocate, backfill", "nodeorder"), queues)


def limits(draw: Draw) -> Story:
    """Queues below queues and users, all with limits that are much smaller than what is asked and there."""
    random = draw.random
    draw.length = 35.0
    nodes = _nodes(draw, 3, cpu=8)
    top = {"weight": 1, "capability": {"cpu": random.randint(5, 7)}}
    low = {"weight": 1, "parent": "top", "capability": {"cpu": random.randint(3, 4)}}
    queues = _queues(draw, top=top, low=low, wide={"weight": 1, "parent": "top"}, shared=_ROOT)
    draw.queues.remove("top")
    notes = {"unisono.io/user-limits": random.choice(("cpu=3", "pods=2", "cpu=4,pods=3"))}
    queues[-1]["metadata"]["annotations"] = notes
    quota = {"hard": {"requests.cpu": "14", "pods": "30"}}
    metadata = {"name": "all", "namespace": "default"}
    draw.do(0.0, "create", "admin", {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": quota})
    for _ in range(7):
        lasts = None if random.random() < 0.4 else round(random.uniform(4, 15), 1)
        body = _job(draw, draw.when(0.6), random.randint(2, 6), random.choice((1, 2)), lasts)
        tasks = [{**body["spec"]["tasks"][0], "replicas": random.choice((1, 4, 8))}]
        patch = {"spec": {"minAvailable": 1, "tasks": tasks}}
        draw.do(round(15 + draw.when(0.6), 3), "patch", body["apiVersion"], "Job", body["metadata"]["name"], patch)
    for _ in range(4):
        _burst(draw, draw.when(), 3)
        draw.do(draw.when(), "delete-pod", random.randrange(1000))
    for name in ("low", "wide"):
        _job(draw, draw.when(), 9, 8, None, queue=name)  # may never be admitted
    draw.do(0.0, "slow", draw.length, round(random.uniform(0.1, 0.5), 3), True)
    tree = {"name": "capacity", "enableHierarchy": True}
    config = _config("enqueue, allocate, backfill", tree, "user-limits", "resourcequota", "nodeorder")
    return draw.story(nodes, config, queues)


def devices(draw: Draw) -> Story:
    """Cards that pods share, and devices that claims are given, on nodes that are full, while binds fail."""
    random = draw.random
    draw.length = 35.0
    cards = {"volcano.sh/gpu-memory": 40, "volcano.sh/gpu-number": 2}
    nodes = _nodes(draw, 2, cpu=16, **cards)
    nodes[0]["devices"] = {"gpu.nvidia.com": 2}
    queues = _queues(draw, free=_ROOT)
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}
    body: Object = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    body |= {
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    draw.do(0.0, "create", "admin", body)
    for _ in range(14):
        asked = _asked("500m", **{"volcano.sh/gpu-memory": str(random.choice((5, 10, 12, 15)))})
        _pod(draw, draw.when(), round(random.uniform(2, 10), 1), asked)
    for _ in range(8):
        made = _pod(draw, draw.when(), round(random.uniform(2, 10), 1), _asked("500m"))
        made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    draw.do(2.0, "refuse", "bind", 12.0, round(random.uniform(0.3, 0.7), 2), random.choice(("busy", "lost")))
    draw.do(16.0, "refuse", "patch", 8.0, round(random.uniform(0.2, 0.5), 2), random.choice(("busy", "conflict")))
    draw.do(0.0, "lag", draw.length, round(random.uniform(0.3, 3), 3), "scheduler")
    for _ in range(3):
        draw.do(draw.when(), "delete-pod", random.randrange(1000))
    shares = {"name": "deviceshare", "arguments": {"deviceshare.GPUSharingEnable": True}}
    return draw.story(nodes, _config("enqueue, allocate, backfill", shares, "nodeorder"), queues)


def network(draw: Draw) -> Story:
    """Jobs that may not leave a rack, in racks that are nearly full and lose pods."""
    random = draw.random
    draw.length = 35.0
    nodes, queues = _nodes(draw, 4, cpu=4), _queues(draw, free=_ROOT)
    racks = {
        "rack-0": ("Node", "n-0", "n-1"),
        "rack-1": ("Node", "n-2", "n-3"),
        "all": ("HyperNode", "rack-0", "rack-1"),
    }
    for name, (kind, *members) in racks.items():
        among = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members]
        spec = {"tier": 1 if kind == "Node" else 2, "members": among}
        body = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
        draw.do(0.0, "create", "admin", {**body, "spec": spec})
    for _ in range(8):
        size = random.randint(2, 6)
        bound = {"mode": "hard", "highestTierAllowed": random.choice((1, 1, 2))}
        lasts = round(random.uniform(3, 15), 1)
        _job(draw, round(1 + draw.when(0.8), 3), size, random.randint(1, size), lasts, networkTopology=bound)
    for _ in range(5):
        _burst(draw, draw.when())
        draw.do(draw.when(), "delete-pod", random.randrange(1000))
    draw.do(2.0, "refuse", "bind", 20.0, round(random.uniform(0.3, 0.7), 2), random.choice(("busy", "lost")))
    aware = {"name": "network-topology-aware", "arguments": {"weight": 10}}
    return draw.story(nodes, _config("enqueue, allocate, backfill", "binpack", aware), queues)


_ACTIONS = (
    "enqueue, allocate, backfill",
    "allocate, backfill",
    "enqueue, allocate, preempt, backfill",
    "enqueue, allocate, reclaim, backfill",
    "enqueue, allocate, preempt, reclaim, backfill",
    "allocate, gangpreempt, gangreclaim, backfill",
)


def _sound(random: Random) -> Object:
    """A configuration that may be used: jobs run whole, and queues keep their limits, with each of them."""
    actions = random.choice(_ACTIONS)
    # Where nothing says what a queue deserves, queues take the same room from each other without end.
    share = random.choice(("capacity", "capacity", "proportion", "drf" if "reclaim" not in actions else "capacity"))
    others = [name for name in ("user-limits", "overcommit", "binpack") if random.random() < 0.4]
    return _config(actions, share, *others, "nodeorder")


def _refused(random: Random) -> str:
    """A text that is no configuration, though a part of it may be."""
    config = _sound(random)
    tiers = config["tiers"]
    wrong: tuple[Any, ...] = (
        {**config, "actions": "enqueue, allocates, preempt"},
        {**config, "tiers": [*tiers, {"plugins": [{"name": "gangg"}]}]},
        {**config, "tiers": [*tiers, {"plugins": [{"name": "gang"}]}]},
        {**config, "tiers": [*tiers, {"plugins": [{"name": "conformance", "arguments": {"most": "much"}}]}]},
        {**config, "action": "preempt"},
    )
    texts = [yaml.safe_dump(one) for one in wrong]
    return random.choice([*texts, "", texts[-1] + "["])


def _configure(draw: Draw, at: float, name: str, what: str) -> None:
    """Somebody writes a ConfigMap of the scheduler's configuration, or deletes it."""
    random, data = draw.random, dict[str, str]()
    if what in ("sound", "refused"):
        text = _refused(random) if what == "refused" else yaml.safe_dump(_sound(random))
        data = {random.choice((KEY, KEY, "scheduler.conf")): text}
    elif what == "keyless":
        data = {"README": yaml.safe_dump(_sound(random))}
    draw.do(at, "configure", name, data, what == "sound")


def reloads(draw: Draw) -> Story:
    """The scheduler's configuration changes all the time, also to what cannot be used, on nodes that are full."""
    random = draw.random
    draw.length = 45.0
    nodes = _nodes(draw, 2, cpu=4)
    queues = _queues(
        draw,
        a={"weight": 1, "deserved": {"cpu": 4}},
        b={"weight": 1, "deserved": {"cpu": 4}},
        c={"weight": 1, "capability": {"cpu": 3}},
    )
    queues[1]["metadata"]["annotations"] = {"unisono.io/user-limits": "cpu=3"}
    for name, at in (("a", 0.1), ("c", 0.2), ("a", 0.3), ("b", 0.8)):
        _job(draw, draw.when(at), random.randint(3, 6), 1, None, priorityClassName="low", queue=name)
    for _ in range(7):
        at, size = draw.when(), random.randint(1, 3)
        lasts = None if random.random() < 0.3 else round(random.uniform(4, 20), 1)
        urgent = random.choice(("high", "high", "low"))
        _job(draw, at, size, random.randint(1, size), lasts, _asked(random.choice("12")), priorityClassName=urgent)
    for _ in range(3):
        _burst(draw, draw.when())
    # Other releases' are none of this scheduler's business, also where there is no other one.
    _configure(draw, 0.5, "team-scheduler-configmap", "sound")
    at, there = round(random.uniform(6, 12), 3), {"team-scheduler-configmap"}
    while at < draw.length - 12:
        name = random.choice((*CONFIG_MAPS, *CONFIG_MAPS, "team-scheduler-configmap"))
        what = random.choices(("sound", "refused", "gone", "keyless"), (5, 5, 4, 1))[0]
        _configure(draw, at, name, what if what != "gone" or name in there else "sound")
        there = there - {name} if what == "gone" else there | {name}
        at = round(at + random.choice((0.2, 2, 8, 18)) * random.uniform(0.8, 1.3), 3)
    end = draw.length
    for name in CONFIG_MAPS:
        _configure(draw, end - 8, name, "sound")
    _configure(draw, end, CONFIG_MAPS[0], "gone")
    _configure(draw, end, CONFIG_MAPS[1], "sound")
    _burst(draw, end + 19)
    if random.random() < 0.7:
        _configure(draw, end + 24, CONFIG_MAPS[1], "refused")
        _burst(draw, end + 45)
    draw.do(draw.when(0.7), "kill", random.choice(_SCHEDULERS), 2.0)
    draw.do(draw.when(0.7), "abdicate")
    for name in _SCHEDULERS:
        draw.do(draw.when(), "cut", name)
        draw.do(draw.when(), "part", name, round(random.uniform(2, 6), 3))
    draw.do(0.0, "lag", draw.length, round(random.uniform(0.3, 3), 3), "scheduler")
    return draw.story(nodes, _config("enqueue, allocate, backfill", "nodeorder"), queues, after=55.0)


def answers(draw: Draw) -> Story:
    """Jobs that cannot start for many reasons; some do what they are told would help."""
    random = draw.random
    draw.length = 20.0
    nodes = _nodes(draw, random.randint(2, 3), cpu=random.choice((2, 4, 5)))
    capped = {"weight": 1, "capability": {"cpu": random.choice((1, 3))}}
    queues = _queues(draw, capped=capped, free=_ROOT, low={"weight": 1, "parent": "root"})
    if random.random() < 0.3:
        quota: Object = {"hard": {"requests.cpu": random.choice(("6", "9")), "pods": "20"}}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": "default"}}
        draw.do(0.0, "create", "admin", {**body, "spec": quota})
    for _ in range(random.randint(8, 12)):
        size, cpu = random.randint(1, 6), random.choice(("1", "1", "500m", "2", "6"))
        lasts = round(random.uniform(4, 20), 1) if random.random() < 0.1 else None
        urgent = random.choice(("", "", "high", "low"))
        _job(draw, draw.when(), size, random.randint(1, size), lasts, _asked(cpu), priorityClassName=urgent)
    if random.random() < 0.5:
        name = random.choice(draw.node_names)
        draw.do(draw.when(), "patch", "v1", "Node", name, {"spec": {"unschedulable": True}})
    draw.do(draw.when(), "kill", "scheduler-a", 2.0)
    draw.do(2.0, "refuse", "bind", 9.0, 0.5, random.choice(("busy", "lost")))
    share = random.choice(("capacity", "proportion"))
    story = draw.story(nodes, _config("enqueue, allocate, backfill", share, "overcommit", "nodeorder"), queues, 5.0)
    return replace(story, asks=3)


def choices(draw: Draw) -> Story:
    """Gangs that take one of several kinds of nodes, and too few licences, while binds fail and pods are taken away."""
    random = draw.random
    draw.length = 35.0
    found: list[Object] = []
    for name in ("red", "blue"):
        capacity = {"cpu": random.choice((3, 4)), "memory": "64Gi"}
        found.append({"name": name, "count": 2, "capacity": capacity, "labels": {"colour": name}})
        draw.node_names += [f"{name}-0", f"{name}-1"]
    queues = _queues(draw, free=_ROOT)
    for name, amount in (("one", 1), ("few", random.randint(2, 4))):
        body: Object = {"apiVersion": "quota.unisono.io/v1alpha1", "kind": "FloatingResource"}
        draw.do(0.0, "create", "admin", {**body, "metadata": {"name": name}, "spec": {"amount": amount}})
    for _ in range(6):
        size = random.randint(2, 5)
        body = _job(draw, draw.when(0.8), size, random.randint(1, size), round(random.uniform(4, 15), 1))
        kinds = random.sample(("colour=red", "colour=blue"), 2)
        body["metadata"]["annotations"] = {"unisono.io/one-of": ", ".join(kinds[: random.choice((1, 2, 2))])}
    for _ in range(8):
        name, size = random.choice(("one", "few", "few")), random.randint(1, 3)
        asked = _asked("500m")
        whole = random.random() < 0.3
        if not whole:
            asked[f"licenses.unisono.io/{name}"] = "1"
        body = _job(draw, draw.when(), size, random.randint(1, size), round(random.uniform(3, 12), 1), asked)
        if whole:
            body["metadata"]["annotations"] = {"unisono.io/licenses": name}
    for _ in range(5):
        draw.do(draw.when(), "delete-pod", random.randrange(1000))
    draw.do(2.0, "refuse", "bind", 20.0, round(random.uniform(0.3, 0.7), 2), random.choice(("busy", "lost")))
    draw.do(draw.when(), "kill", random.choice(_SCHEDULERS), 2.0)
    draw.do(0.0, "lag", draw.length, round(random.uniform(0.3, 3), 3), "scheduler")
    return draw.story(tuple(found), _config("enqueue, allocate, backfill", "one-of", "nodeorder"), queues)


PROFILES: tuple[Callable[[Draw], Story], ...] = (
    mixed,
    throng,
    growth,
    disk,
    watches,
    leaders,
    binds,
    gangs,
    evictions,
    controllers,
    machines,
    limits,
    devices,
    network,
    reloads,
    answers,
    choices,
)
NAMES = tuple(profile.__name__ for profile in PROFILES)


def seeds_of(name: str, count: int) -> range:
    """The first seeds of a kind of worlds."""
    first = NAMES.index(name) * _THOUSAND
    return range(first, first + count)


def story(seed: int, *, short: bool = False) -> Story:
    """The story of a seed; ``short`` ones take a third of the time and see the same faults."""
    profile = PROFILES[seed // _THOUSAND % len(PROFILES)]
    draw = Draw(seed, Random(seed), short, 25.0 if short else 110.0)
    return profile(draw)
