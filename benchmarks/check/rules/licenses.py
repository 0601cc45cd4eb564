"""No more licences are taken than there are, and than queues may hold; what a job takes as a whole counts once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from benchmarks.check.facts import LICENSES, Amounts, Pod, Turn, add, amounts

_NONE = Fraction(0)


def rules(turn: Turn) -> Iterator[str]:
    """All of them."""
    now = {pod.key: pod for pod, _ in turn.after()}
    fresh = {pod.key for pod, _ in turn.bound()}
    gone = {key for key, _, _ in turn.evictions} | {key for key, pod in turn.facts.pods.items() if pod.leaving}
    soon = {key: pod for key, pod in now.items() if key not in gone}
    promised = {key: turn.facts.pods[key] for key in turn.promised}
    for pods, new, words in ((now, fresh, "taken"), (soon | promised, set(promised), "promised")):
        if not new:
            continue
        more = _new(turn, pods, new)
        for name, value in taken(turn, pods.values()).items():
            if more.get(name) and value > there(turn, name):
                yield f"{float(value)} of {name} would be {words}, and there are {float(there(turn, name))}"
    for queue in {name for key in fresh for name in turn.facts.lineage(turn.facts.queue_of(now[key].group))}:
        yield from _capability(turn, queue, list(now.values()), fresh)


def _capability(turn: Turn, queue: str, pods: list[Pod], fresh: set[str]) -> Iterator[str]:
    found = turn.facts.all("Queue").get(queue)
    limits = amounts(found["spec"].get("capability") if found is not None else None)
    own = [
        pod for pod in pods if pod.ours and pod.group and queue in turn.facts.lineage(turn.facts.queue_of(pod.group))
    ]
    more = _new(turn, {pod.key: pod for pod in own}, fresh)
    for name, value in taken(turn, own).items():
        if name in limits and more.get(name) and value > limits[name]:
            yield f"queue {queue} may hold {float(limits[name])} of {name} and would hold {float(value)}"


def _new(turn: Turn, pods: dict[str, Pod], new: set[str]) -> Amounts:
    """What these pods take that the others do not take already."""
    before, after = (taken(turn, each) for each in ([p for k, p in pods.items() if k not in new], pods.values()))
    return {name: value - before.get(name, _NONE) for name, value in after.items()}


def taken(turn: Turn, pods: Iterable[Pod]) -> Amounts:
    """What these pods take, each group that one of them is of counted once."""
    pods, total = list(pods), Amounts()
    for pod in pods:
        add(total, pod.licenses)
    for group in {pod.group for pod in pods if pod.group}:
        add(total, turn.facts.licenses_of(group))
    return total


def there(turn: Turn, name: str) -> Fraction:
    """How many there are for this cluster; none of what nobody knows."""
    found = turn.facts.all("FloatingResource").get(name.removeprefix(LICENSES))
    spec = found["spec"] if found is not None else {}
    return Fraction(max(spec.get("amount", 0) - spec.get("inUse", 0), 0))


def scarce(turn: Turn, gone: set[str]) -> bool:
    """Whether more would be taken than there is once the promised pods have come and only these have gone."""
    pods = [pod for pod, _ in turn.after() if not pod.leaving and pod.key not in gone]
    total = taken(turn, [*pods, *(turn.facts.pods[key] for key in turn.promised)])
    return any(value > there(turn, name) for name, value in total.items())


def asks(turn: Turn, group: str) -> bool:
    """Whether a PodGroup, or one of its pods, takes any."""
    return bool(turn.facts.licenses_of(group)) or any(pod.licenses for pod in turn.facts.members(group))
