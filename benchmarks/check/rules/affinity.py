"""Inter-pod affinity and anti-affinity of both sides, judged by where everything ends up, and topology spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.check.facts import Pod, Turn
from benchmarks.check.rules.nodes import selected
from benchmarks.check.rules.selectors import selects

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def terms(pod: Pod, kind: str) -> list[Mapping[str, Any]]:
    """Required terms of ``podAffinity`` or ``podAntiAffinity``."""
    return ((pod.spec.get("affinity") or {}).get(kind) or {}).get(_REQUIRED) or []


def matches(owner: Pod, term: Mapping[str, Any], other: Pod) -> bool:
    """Whether a term of ``owner`` speaks of ``other``."""
    return other.namespace in (term.get("namespaces") or [owner.namespace]) and selects(
        term.get("labelSelector"), other.labels
    )


def rules(turn: Turn) -> Iterator[str]:
    """All of them."""
    labels = {name: node["metadata"].get("labels") or {} for name, node in turn.facts.all("Node").items()}
    after = [(pod, node) for pod, node in turn.after() if node in labels]
    for pod, node in turn.bound():
        if node not in labels:
            continue
        for other, where in after:
            if other.key != pod.key and repel(pod, labels[node], other, labels[where]):
                yield f"pod {pod.key} on {node} and pod {other.key} on {where} repel each other"
        for term in terms(pod, "podAffinity"):
            yield from _affinity(turn, pod, labels[node], term, after, labels)
        for wish in pod.spec.get("topologySpreadConstraints") or []:
            if wish["whenUnsatisfiable"] == "DoNotSchedule":
                earlier = after[: next(at for at, (other, _) in enumerate(after) if other.key == pod.key) + 1]
                yield from _spread(turn, pod, labels[node], wish, earlier)


def repel(pod: Pod, here: Mapping[str, str], other: Pod, there: Mapping[str, str]) -> bool:
    """Whether anti-affinity of one of two pods keeps them from nodes with these labels."""
    for one, two in ((pod, other), (other, pod)):
        for term in terms(one, "podAntiAffinity"):
            key = term["topologyKey"]
            if key in here and here[key] == there.get(key) and matches(one, term, two):
                return True
    return False


def _affinity(
    turn: Turn,
    pod: Pod,
    here: Mapping[str, str],
    term: Mapping[str, Any],
    after: list[tuple[Pod, str]],
    labels: Mapping[str, Mapping[str, str]],
) -> Iterator[str]:
    key = term["topologyKey"]
    if key not in here:
        yield f"pod {pod.key} is bound to a node without label {key}, which its affinity needs"
        return
    mates = [(other, where) for other, where in after if other.key != pod.key and matches(pod, term, other)]
    if any(labels[where].get(key) == here[key] for _, where in mates):
        return
    if matches(pod, term, pod) and not any(key in labels[where] and other.occupies for other, where in mates):
        return  # the first of its kind may start anywhere
    yield f"pod {pod.key} is bound where none of the pods is that its affinity asks for"


def _spread(
    turn: Turn, pod: Pod, here: Mapping[str, str], wish: Mapping[str, Any], after: list[tuple[Pod, str]]
) -> Iterator[str]:
    key = wish["topologyKey"]
    if key not in here:
        yield f"pod {pod.key} is bound to a node without label {key}, over which it is to be spread"
        return
    allowed = {
        name: node["metadata"]["labels"][key]
        for name, node in turn.facts.all("Node").items()
        if key in (node["metadata"].get("labels") or {}) and selected(pod, node)
    }
    counts = dict.fromkeys(allowed.values(), 0)
    # Pods that terminate do not count, and those that this cycle evicts terminate.
    evicted = {key for key, _, _ in turn.evictions}
    for other, where in after:
        mine = other.namespace == pod.namespace and selects(wish["labelSelector"], other.labels)
        if mine and not other.leaving and other.key not in evicted and where in allowed:
            counts[allowed[where]] += 1
    skew = counts[here[key]] - min(counts.values())
    if skew > wish["maxSkew"]:
        yield f"pod {pod.key} makes a skew of {skew} over {key} where {wish['maxSkew']} is allowed"
