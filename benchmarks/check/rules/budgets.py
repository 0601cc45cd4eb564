"""No pod starts when its hard budget is used up, and no pod is evicted for one that may not start."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.check.facts import Turn, amounts

_AGAIN, _SECONDS = 0.01, 2.0
"""Part of an amount that must be left until jobs start again, or what is used in so long, as counts differ by that."""


def rules(turn: Turn) -> Iterator[str]:
    """All of them."""
    for group in sorted({pod.group for pod, _ in turn.bound()}):
        if shut := used_up(turn, group):
            yield f"{group} starts, and budget {shut} is used up"
    for _, _, beneficiary in turn.evictions:
        if beneficiary and (shut := used_up(turn, beneficiary)):
            yield f"a pod is evicted for {beneficiary}, and budget {shut} is used up"


def used_up(turn: Turn, group: str, *, nearly: bool = False) -> str:
    """A hard budget of a PodGroup of which nothing is left, by its status: no other one is used up here.

    ``nearly``: or so little that it may stay as it is until more is.
    """
    found = turn.facts.all("PodGroup").get(group)
    if found is None:
        return ""
    queues = turn.facts.lineage(turn.facts.queue_of(group))
    for name, budget in turn.facts.all("Budget").items():
        spec, used = budget["spec"], budget["status"]["used"]
        mine = (
            bool(set(queues) & set(spec.get("queues", ())))
            or found["metadata"]["namespace"] in spec.get("namespaces", ())
            or turn.facts.user_of(group) in spec.get("users", ())
        )
        if (
            mine
            and spec["mode"] == "Hard"
            and any(
                float(used[key]) >= amount - (_slack(turn, key, amount) if nearly else 0.0)
                for key, amount in spec["amounts"].items()
            )
        ):
            return str(name)
    return ""


def _slack(turn: Turn, key: str, amount: float) -> float:
    there = sum(amounts(node["status"].get("allocatable")).get(key, 0) for node in turn.facts.all("Node").values())
    return max(_AGAIN * amount, float(there) * _SECONDS / 3600.0)
