"""Whether gangs that name kinds of nodes are on one of them, with as much of it as they say there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from benchmarks.check.facts import Amounts, Facts, Pod
from benchmarks.matrix.draw import CARD

Kind = tuple[dict[str, str], int]
"""Labels of its nodes, and how many times as many cards a pod takes there."""


def _list_of(facts: Facts, group: str) -> str:
    found = facts.all("PodGroup").get(group)
    notes = (found["metadata"].get("annotations") or {}) if found is not None else {}
    return str(notes.get("unisono.io/one-of", ""))


def kinds_of(facts: Facts, group: str) -> list[Kind]:
    """The kinds that a PodGroup names."""
    kinds = []
    for part in filter(None, _list_of(facts, group).split(",")):
        words, _, times = part.strip().partition("@")[0].partition("*")
        kinds.append((dict(one.split("=") for one in words.split("+")), int(times or 1)))
    return kinds


def of_one_kind(facts: Facts, templates: Mapping[str, Amounts]) -> list[str]:
    """Gangs whose pods are on nodes of several kinds or of none that they name, or hold other amounts than they say.

    Args:
        facts: of a cluster.
        templates: what a pod of each job, by namespace and name, asks for.
    """
    wrong = []
    for key in facts.groups:
        kinds, there = kinds_of(facts, key), [pod for pod in facts.members(key) if pod.occupies]
        cards = templates.get(key.partition("-0000")[0], {}).get(CARD, Fraction(0))
        if kinds and not any(_is_on(facts, there, labels, times * cards) for labels, times in kinds):
            where = ", ".join(f"{pod.node} with {pod.requests.get(CARD, 0)}" for pod in there)
            wrong.append(f"PodGroup {key} names {_list_of(facts, key)} and is on {where}")
    return wrong


def _is_on(facts: Facts, pods: Sequence[Pod], labels: Mapping[str, str], cards: Fraction) -> bool:
    """Whether all pods are on nodes with these labels, and hold so many cards each."""
    nodes = facts.all("Node")
    return all(
        pod.requests.get(CARD, Fraction(0)) == cards
        and labels.items() <= nodes.get(pod.node, {"metadata": {"labels": {}}})["metadata"]["labels"].items()
        for pod in pods
    )
