"""What queues may hold, anywhere in their tree and while pods terminate; closed queues; quotas of namespaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from benchmarks.check.facts import Amounts, Turn, add, amounts


def rules(turn: Turn) -> Iterator[str]:
    """All of them."""
    for group in {pod.group for pod, _ in turn.bound()}:
        name = turn.facts.queue_of(group)
        found = turn.facts.all("Queue").get(name)
        if found is None:
            yield f"pods of {group} are bound, and its queue {name} does not exist"
        elif (found["status"].get("state") or "") in ("Closed", "Closing"):
            yield f"pods of {group} are bound, and its queue {name} is {found['status']['state']}"
    if "enqueue" in turn.actions:
        yield from _closed(turn)
    yield from _capability(turn)
    if turn.has("user-limits"):
        yield from _users(turn)
    if turn.has("resourcequota"):
        yield from _quotas(turn)


def _closed(turn: Turn) -> Iterator[str]:
    for group in admitted(turn):
        found = turn.facts.all("Queue").get(turn.facts.queue_of(group))
        if found is None or (found["status"].get("state") or "") in ("Closed", "Closing"):
            yield f"PodGroup {group} is admitted to a queue that is closed or unknown"


def admitted(turn: Turn) -> list[str]:
    """PodGroups that left phase Pending for Inqueue in this cycle."""
    groups = turn.facts.all("PodGroup")
    return [
        key
        for key, phase in turn.phases.items()
        if phase == "Inqueue" and key in groups and (groups[key]["status"].get("phase") or "Pending") == "Pending"
    ]


def _capability(turn: Turn) -> Iterator[str]:
    held: dict[str, Amounts] = {}
    fresh: dict[str, Amounts] = {}
    for pod, _ in turn.after():
        if not pod.ours or not pod.group:
            continue
        for name in turn.facts.lineage(turn.facts.queue_of(pod.group)):
            add(held.setdefault(name, {}), pod.requests)
            if not pod.occupies:
                add(fresh.setdefault(name, {}), pod.requests)
    for name, more in fresh.items():
        found = turn.facts.all("Queue").get(name)
        for resource, limit in amounts(found["spec"].get("capability") if found is not None else None).items():
            if resource in more and held[name][resource] > limit:
                yield f"queue {name} may hold {limit} of {resource} and would hold {float(held[name][resource])}"


def _users(turn: Turn) -> Iterator[str]:
    """What a user's pods hold in a queue once the binds are done; who was over a limit before gets nothing."""
    held: dict[tuple[str, str], Amounts] = {}
    fresh: dict[tuple[str, str], Amounts] = {}
    for pod, _ in turn.after():
        if pod.ours and pod.group in turn.facts.all("PodGroup"):
            account = (turn.facts.queue_of(pod.group), turn.facts.user_of(pod.group))
            add(held.setdefault(account, {}), {**pod.requests, "pods": Fraction(1)})
            if not pod.occupies:
                add(fresh.setdefault(account, {}), {**pod.requests, "pods": Fraction(1)})
    for (queue, user), more in fresh.items():
        for name, most in turn.facts.user_limits(queue).items():
            mine = held[queue, user].get(name, Fraction(0))
            if name in more and mine > most:
                yield f"user {user} may hold {most} of {name} in queue {queue} and would hold {float(mine)}"


def _quotas(turn: Turn) -> Iterator[str]:
    """minResources of what is admitted fit beside what the namespace's pods use.

    Pods that wait for another scheduler are known to the quota's controller only, and there is none here.
    """
    for key, quota in turn.facts.all("ResourceQuota").items():
        namespace = key.partition("/")[0]
        used: Counter[str] = Counter()
        for pod in turn.facts.pods.values():
            if pod.namespace == namespace and not pod.ended and (pod.ours or pod.node):
                for name, value in pod.requests.items():
                    used[name] += value  # type: ignore[assignment]
        fresh = [group for group in admitted(turn) if group.startswith(f"{namespace}/")]
        for name, limit in amounts(quota["spec"]["hard"]).items():
            asked = sum((_missing(turn, group, name) for group in fresh), Fraction(0))
            if asked and used[name] + asked > limit:
                yield f"quota {key} allows {limit} of {name}: {used[name]} are used and {asked} are admitted"


def _missing(turn: Turn, group: str, name: str) -> Fraction:
    wanted = amounts(turn.facts.all("PodGroup")[group]["spec"].get("minResources")).get(name, Fraction(0))
    present = sum(
        (pod.requests.get(name, Fraction(0)) for pod in turn.facts.members(group) if not pod.ended), Fraction(0)
    )
    return max(wanted - present, Fraction(0))
