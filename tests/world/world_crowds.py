"""Stories of more work than there is room for, and of jobs that grow and shrink below limits."""

from __future__ import annotations

from random import Random

from world_story import PROCESSES, USERS, VOLCANO, Draw, Object, Story, person, pod_template


def throng(draw: Draw) -> Story:
    """A story of contention."""
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
        person(draw)
    if random.random() < 0.7:
        draw.do(0.0, "slow", draw.length, round(random.uniform(0.2, 0.75), 3), True)
    if random.random() < 0.8:
        draw.do(0.0, "lag", draw.length, round(random.uniform(1, 8), 3), random.choice(("scheduler", "scheduler", "")))
    for _ in range(random.randint(2, 4) if draw.short else random.randint(4, 9)):
        _hindrance(draw)
    return draw.story(nodes, config, queues)


def growth(draw: Draw) -> Story:
    """A story of jobs that would grow beyond what their queue or user may hold, and of pods that go and come again."""
    random = draw.random
    count, size = random.randint(2, 3), random.choice((6, 8))
    nodes = ({"name": "n", "count": count, "capacity": {"cpu": size, "memory": "64Gi"}},)
    draw.node_names += [f"n-{number}" for number in range(count)]
    queues = (
        queue("capped", {"weight": 1, "capability": {"cpu": random.randint(2, 4)}}),
        queue("shared", {"weight": 1}, random.choice(("cpu=3", "pods=2", "cpu=4,pods=3"))),
        queue("free", {"weight": 2}),
    )
    draw.queues += ["capped", "shared", "free"]
    second: list[Object] = [{"name": "predicates"}, {"name": random.choice(("capacity", "capacity", "proportion"))}]
    second += [{"name": "user-limits"}, {"name": "nodeorder"}]
    tiers = [{"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]}, {"plugins": second}]
    actions = random.choice(("enqueue, allocate, backfill", "enqueue, allocate, preempt, backfill"))
    for number in range(random.randint(4, 6) if draw.short else random.randint(8, 12)):
        _growing(draw, number)
    for _ in range(random.randint(2, 4) if draw.short else random.randint(5, 9)):
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
    return draw.story(nodes, {"actions": actions, "tiers": tiers}, queues, after=40.0)


def queue(name: str, spec: Object, users: str = "") -> Object:
    notes = {"unisono.io/user-limits": users} if users else {}
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name, "annotations": notes}, "spec": spec}


def _growing(draw: Draw, number: int) -> None:
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
    draw.do(at, "create", random.choice(USERS), {**body, "spec": spec})
    draw.jobs.append(name)
    if random.random() < 0.5:
        tasks = [{"name": "t", "replicas": random.choice((1, 1, 2, 8)), "template": template}]
        later = round(at + random.uniform(5, 25), 3)
        draw.do(later, "patch", body["apiVersion"], "Job", name, {"spec": {"minAvailable": 1, "tasks": tasks}})


def _contended(draw: Draw, room: int) -> tuple[Object, ...]:
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


def _contender(draw: Draw, number: int, size: int) -> None:
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
    draw.do(at, "create", random.choice(USERS), body)
    draw.jobs.append(name)
    later = round(at + random.random() * 30, 3)
    if random.random() < 0.25:
        draw.do(later, "delete", body["apiVersion"], "Job", name)
    elif random.random() < 0.3:
        tasks = [{"name": "t", "replicas": random.randint(1, 8), "template": template}]
        draw.do(later, "patch", body["apiVersion"], "Job", name, {"spec": {"minAvailable": 1, "tasks": tasks}})


def _burst(draw: Draw) -> None:
    """Pods of a few seconds that come together, so that places are given, left and given again all the time."""
    random, at = draw.random, draw.when()
    asked: Object = {"cpu": random.choice(("1", "1", "2")), "memory": "1Gi"}
    for _ in range(random.randint(2, 5)):
        pod = pod_template(random, asked, round(random.uniform(1, 8), 1))
        notes = {**pod["metadata"]["annotations"], "scheduling.volcano.sh/queue-name": random.choice(draw.queues)}
        spec = {**pod["spec"], "priorityClassName": random.choice(("high", "low"))}
        metadata = {"name": f"p{len(draw.deeds)}", "namespace": "default", "annotations": notes}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        draw.do(at, "create", random.choice(USERS), body)


def _hindrance(draw: Draw) -> None:
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
