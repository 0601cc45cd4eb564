"""A claim that only one pod may use is used by one pod."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.check.facts import Pod, Turn


def claims(pod: Pod) -> list[str]:
    """Keys of the claims that a pod's volumes name."""
    named = (volume.get("persistentVolumeClaim") for volume in pod.spec.get("volumes") or [])
    return [f"{pod.namespace}/{claim['claimName']}" for claim in named if claim]


def rules(turn: Turn) -> Iterator[str]:
    """ReadWriteOncePod, also while its user terminates; a claim must exist."""
    known = turn.facts.all("PersistentVolumeClaim")
    users: dict[str, list[str]] = {}
    for pod, _ in turn.after():
        for key in claims(pod):
            users.setdefault(key, []).append(pod.key)
    for pod, _ in turn.bound():
        for key in claims(pod):
            if key not in known:
                yield f"pod {pod.key} is bound, and its claim {key} does not exist"
            elif "ReadWriteOncePod" in known[key]["spec"]["accessModes"] and len(users[key]) > 1:
                yield f"claim {key} is for one pod and would be used by {', '.join(sorted(users[key]))}"
