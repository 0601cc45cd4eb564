"""Environment by which the parts of a HyperJob find each other across clusters (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unisono.api.batch import Job
from unisono.controllers.job.view import JobView
from unisono.fleet.hyper_jobs.record import GangRecord

MOST_PARTS: Final = 256
"""Gangs of more parts get no lists of them: every container would carry the lists."""


def part_environment(name: str, parts: Mapping[str, Job], record: GangRecord) -> dict[str, str]:
    """The variables of one part.

    Args:
        name: of the part's job.
        parts: all parts that have not ended, by name; their order is that of the names' numbers.
        record: where they are.

    """
    order = sorted(parts, key=_by_number)
    pods = {each: sum(task.replicas for task in JobView(parts[each]).tasks) for each in order}
    index = order.index(name)
    found = {
        "HYPERJOB_PART": name,
        "HYPERJOB_PART_INDEX": str(index),
        "HYPERJOB_PART_COUNT": str(len(order)),
        "HYPERJOB_WORLD_SIZE": str(sum(pods.values())),
        "HYPERJOB_RANK_OFFSET": str(sum(pods[each] for each in order[:index])),
    }
    if len(order) > MOST_PARTS:
        return found
    clusters = [record.placement(each, parts[each].metadata.uid or "").cluster for each in order]
    return {
        **found,
        "HYPERJOB_PARTS": ",".join(order),
        "HYPERJOB_CLUSTERS": ",".join(clusters),
        "HYPERJOB_HOSTS": ",".join(_first_host(parts[each]) for each in order),
    }


def _first_host(job: Job) -> str:
    return next((task.host(0) for task in JobView(job).tasks if task.replicas), "")


def _by_number(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition("-")
    return head, int(number) if number.isdecimal() else 0
