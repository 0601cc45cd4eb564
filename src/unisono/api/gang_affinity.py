"""Where a gang stands in relation to other pods, in annotations of a line: the short form of a pod's terms (pure).

``app=prefill@tier-1`` in annotation ``unisono.io/near`` means: in a HyperNode of tier 1 with a pod that has this label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

from msgspec import structs

from unisono.api import core
from unisono.api.annotations import APART, NEAR, SPREAD, TIER
from unisono.api.base import LabelSelector, LabelSelectorRequirement
from unisono.api.keys import GROUP_NAME
from unisono.api.names import label_value, qualified_name

WORDS: Final = (NEAR, APART, SPREAD)
_WORDS: Final = frozenset(WORDS)

MOST: Final = 8
"""Entries of one annotation."""
LONGEST: Final = 2048
"""Characters of one annotation."""
MOST_WEIGHT: Final = 100
_LARGEST: Final = 5_000
"""Domains that can be asked for, and the largest skew."""

_OPTIONS: Final = {NEAR: ("preferred",), APART: ("preferred", "by"), SPREAD: ("preferred", "skew", "min")}
_EXAMPLES: Final = {
    NEAR: "app=prefill@tier-1, or app=prefill@tier-1:preferred",
    APART: "app=trainer@tier-2, or @tier-1:by=volcano.sh/partition-id",
    SPREAD: "@tier-1, or app=server@tier-1:skew=2:min=3",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """One entry.

    Attributes:
        word: `NEAR`, `APART` or `SPREAD`.
        labels: of the pods that are meant; none for those of its own gang.
        key: topology key over whose domains it is meant.
        weight: 1 to 100 where it is preferred, 0 where it must hold.
        skew, least: of `SPREAD`: the most by which domains may differ, and how many domains there must be.
        by: of `APART`: the label whose values stand apart; ``""`` where gangs do.
    """

    word: str
    labels: tuple[tuple[str, str], ...]
    key: str
    weight: int = 0
    skew: int = 1
    least: int = 0
    by: str = ""


@lru_cache(maxsize=1024)
def wishes_of(word: str, text: str) -> tuple[Wish, ...]:
    """The entries of an annotation, as they stand there; none of an empty one.

    Raises:
        ValueError: it cannot be read; the text says what to write.
    """
    if len(text) > LONGEST:
        raise ValueError(f"{len(text)} characters are too many, {LONGEST} at most")
    wishes = [_wish(word, part) for each in text.split(";") if (part := each.strip())]
    if text.strip() and not wishes:
        raise ValueError(f"{text!r} says nothing: write {_EXAMPLES[word]}")
    if len(wishes) > MOST:
        raise ValueError(f"{len(wishes)} entries are too many, {MOST} at most")
    for at, one in enumerate(wishes):
        if any(other.labels == one.labels and other.key == one.key and other.by == one.by for other in wishes[:at]):
            raise ValueError(f"{text!r} says the same twice")
    if word == NEAR and sum(not one.weight for one in wishes) > 1:
        raise ValueError(
            "only one entry may be required: of several, as of several terms of podAffinity, one pod would have to be "
            "what all of them say; let the others be preferred"
        )
    return tuple(wishes)


def _wish(word: str, part: str) -> Wish:
    form = f"write {_EXAMPLES[word]}"
    pods, mark, rest = part.partition("@")
    place, *options = (each.strip() for each in rest.split(":"))
    if not mark or not place:
        raise ValueError(f"{part!r} names no domain behind an @: {form}")
    key = place if "/" in place else f"{TIER}{place}"
    if qualified_name(key):
        raise ValueError(
            f"{place!r} is no domain: write tier-N or the name of a tier of HyperNodes, or the key of a label of nodes"
        )
    given = _options(word, part, options)
    labels = _labels(pods, form)
    if word == APART and not labels and not given["by"]:
        raise ValueError(f"{part!r} names no pods: write labels before the @, or by=LABEL to part the gang itself")
    return Wish(word, labels, key, **given)


def _labels(text: str, form: str) -> tuple[tuple[str, str], ...]:
    labels: dict[str, str] = {}
    for each in text.split(",") if text.strip() else ():
        key, equals, value = (one.strip() for one in each.partition("="))
        if not equals or qualified_name(key) or label_value(value):
            raise ValueError(f"{each.strip()!r} is no label of pods: {form}")
        if key in labels:
            raise ValueError(f"label {key} stands there twice: {form}")
        labels[key] = value
    return tuple(sorted(labels.items()))


def _options(word: str, part: str, options: Iterable[str]) -> dict[str, Any]:
    values: dict[str, Any] = {"weight": 0, "skew": 1, "least": 0, "by": ""}
    for each in options:
        name, equals, value = (one.strip() for one in each.partition("="))
        if name not in _OPTIONS[word]:
            choices = ", ".join(_OPTIONS[word])
            raise ValueError(f"{each!r} in {part!r} is not known: behind the domain may stand, after colons, {choices}")
        if name == "by":
            if qualified_name(value):
                raise ValueError(f"{each!r} names no label: write by=LABEL, such as by=volcano.sh/partition-id")
            values["by"] = value
        elif name == "preferred":
            values["weight"] = _number(each, value, MOST_WEIGHT) if equals else MOST_WEIGHT
        else:
            values["skew" if name == "skew" else "least"] = _number(each, value, _LARGEST)
    if values["weight"] and values["least"]:
        raise ValueError(f"{part!r}: min holds for what is required only: leave out min or preferred")
    return values


def _number(option: str, value: str, most: int) -> int:
    number = int(value) if value.isascii() and value.isdigit() and len(value) <= len(str(most)) else 0
    if not 1 <= number <= most:
        raise ValueError(f"{option!r} must have a whole number from 1 to {most} behind the =")
    return number


def said(annotations: Mapping[str, str], of_gang: Mapping[str, str] | None = None) -> tuple[Wish, ...]:
    """What a pod says, or its gang where the pod does not.

    Args:
        annotations: of the pod.
        of_gang: those of its PodGroup.

    Raises:
        ValueError: an annotation cannot be read; the text names it.
    """
    if _WORDS.isdisjoint(annotations) and not of_gang:
        return ()
    wishes: list[Wish] = []
    for word in WORDS:
        text = annotations.get(word, (of_gang or {}).get(word, ""))
        try:
            wishes += wishes_of(word, text) if text else ()
        except ValueError as error:
            raise ValueError(f"annotation {word}: {error}") from error
    return tuple(wishes)


def words_of_gang(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those of the annotations of a PodGroup that its pods heed.

    Raises:
        ValueError: one cannot be read; the text names it.
    """
    words = {key: annotations[key] for key in WORDS if key in annotations} if annotations else {}
    said(words)
    return words


def preferring(annotations: Mapping[str, str], word: str) -> str:
    """The text of an annotation with all that it requires as a preference; empty where it requires nothing."""
    parts = [each.strip() for each in annotations.get(word, "").split(";") if each.strip()]
    wishes = wishes_of(word, annotations.get(word, ""))
    if all(one.weight for one in wishes):
        return ""
    return "; ".join(
        part if one.weight else ":".join((*_without_least(part), "preferred"))
        for part, one in zip(parts, wishes, strict=True)
    )


def _without_least(part: str) -> list[str]:
    return [each for each in part.split(":") if not each.strip().startswith("min=")]


# What the entries mean as terms of a pod.

Side = TypeVar("Side", core.PodAffinity, core.PodAntiAffinity)


def with_wishes(spec: core.PodSpec, wishes: Iterable[Wish], labels: Mapping[str, str], gang: str) -> core.PodSpec:
    """A spec with the terms that the wishes stand for beside its own.

    Args:
        spec: of the pod; it is left alone.
        wishes: what `said` answers.
        labels: of the pod.
        gang: name of its PodGroup. Terms refer to it as to a label `GROUP_NAME` that all pods of the gang have.
    """
    near: list[tuple[core.PodAffinityTerm, int]] = []
    away: list[tuple[core.PodAffinityTerm, int]] = []
    spread: list[core.TopologySpreadConstraint] = []
    for one in wishes:
        selector = _selector(one, labels, gang)
        if selector is None:
            continue
        if one.word == SPREAD:
            spread.append(
                core.TopologySpreadConstraint(
                    max_skew=one.skew,
                    topology_key=one.key,
                    when_unsatisfiable="ScheduleAnyway" if one.weight else "DoNotSchedule",
                    label_selector=selector,
                    min_domains=one.least or None,
                )
            )
        else:
            term = core.PodAffinityTerm(label_selector=selector, topology_key=one.key)
            (near if one.word == NEAR else away).append((term, one.weight))
    affinity = spec.affinity or core.Affinity()
    return structs.replace(
        spec,
        affinity=structs.replace(
            affinity,
            pod_affinity=_side(affinity.pod_affinity or core.PodAffinity(), near),
            pod_anti_affinity=_side(affinity.pod_anti_affinity or core.PodAntiAffinity(), away),
        ),
        topology_spread_constraints=[*(spec.topology_spread_constraints or ()), *spread] or None,
    )


def _selector(one: Wish, labels: Mapping[str, str], gang: str) -> LabelSelector | None:
    """The pods that are meant; None where it means nothing for the pod, which lacks the label whose values part."""
    if one.by and one.by not in labels:
        return None
    more = list(_requirements(one, labels, gang))
    return LabelSelector(match_labels=dict(one.labels) or None, match_expressions=more or None)


def _requirements(one: Wish, labels: Mapping[str, str], gang: str) -> Iterator[LabelSelectorRequirement]:
    if not one.labels:
        yield LabelSelectorRequirement(key=GROUP_NAME, operator="In", values=[gang])
    elif one.word == APART and not one.by:
        yield LabelSelectorRequirement(key=GROUP_NAME, operator="NotIn", values=[gang])
    if one.by:
        yield LabelSelectorRequirement(key=one.by, operator="Exists")
        yield LabelSelectorRequirement(key=one.by, operator="NotIn", values=[labels[one.by]])


def _side(side: Side, more: list[tuple[core.PodAffinityTerm, int]]) -> Side:
    return structs.replace(
        side,
        required_during_scheduling_ignored_during_execution=[
            *(side.required_during_scheduling_ignored_during_execution or ()),
            *(term for term, weight in more if not weight),
        ]
        or None,
        preferred_during_scheduling_ignored_during_execution=[
            *(side.preferred_during_scheduling_ignored_during_execution or ()),
            *(core.WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term) for term, weight in more if weight),
        ]
        or None,
    )
