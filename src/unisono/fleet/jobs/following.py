"""What of a job may change while a member has its copy, and how the copy follows: JSON patches (pure).

A copy that is held back has no pods: all its tasks have no replicas. To open it is to bring its sizes to what the job
asks for, which is also how a job that runs is scaled. Sizes that the member scales by itself have one owner, which is
the member: two who write one field would do so for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from unisono.api.annotations import SCALED_AT
from unisono.api.base import Object
from unisono.api.groups.batch import Job, JobSpec
from unisono.controllers.job import view
from unisono.controllers.objects import to_json
from unisono.jobkinds.volcano import with_defaults

# What a hub believes of a status that a member tells (pure): a member may be mistaken, or hostile.

MOST_BYTES: Final = 256 * 1024
"""Of a status that is taken over."""
_MOST_COUNT: Final = 2**31 - 1
_DEEPEST_STATUS: Final = 12
_PHASES: Final = frozenset({"", *view.TRANSITIONS, *view.KILLING, *view.STOPPED})


def disbelief(copied: Object) -> str:
    """Why the status of a copy is not taken over; empty where it is."""
    status = to_json(getattr(copied, "status", None))
    size = len(msgspec.json.encode(status))
    if size > MOST_BYTES:
        return f"the status has {size} bytes, and no more than {MOST_BYTES} are taken over"
    if isinstance(copied, Job) and (phase := copied.status.state.phase or "") not in _PHASES:
        return f"{phase[:40]!r} is no phase of a job"
    return _bad_number(status, 0)


def _bad_number(value: Any, depth: int) -> str:
    if depth > _DEEPEST_STATUS:
        return "the status is nested too deeply"
    if isinstance(value, bool):
        return ""
    if isinstance(value, int) and not 0 <= value <= _MOST_COUNT:
        return f"{str(value)[:20]} is no count"
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, (_bad_number(each, depth + 1) for each in inner)), "")


Operation = dict[str, Any]

_FOLLOWED = frozenset({"suspend", "replicas", "minReplicas", "maxReplicas", "minAvailable", "priorityClass"})
"""Fields of training jobs that may change while pods exist, outside of pod templates."""
_SCALED_THERE = frozenset({"replicas"})
"""What an autoscaler of the member changes where the job lets it."""
_DEEPEST = 8


def changes(job: Object, copied: Object, *, held: bool = False) -> list[Operation]:
    """JSON patch that brings what may change of a job to its copy; empty where they agree.

    Args:
        job: the hub's job.
        copied: its copy.
        held: of a part of a gang: the copy is to have no pods.

    """
    scaled_there = SCALED_AT in (copied.metadata.annotations or {})
    if isinstance(job, Job) and isinstance(copied, Job):
        own = scaled_there and not held and not is_held(copied)
        found = list(_of_job(with_defaults(job), copied.spec, held=held, own_size=own))
    else:
        wanted, have = to_json(getattr(job, "spec", None)), to_json(getattr(copied, "spec", None))
        scaled_there |= bool(wanted.get("elasticPolicy") or wanted.get("enableInTreeAutoscaling"))
        found = list(_of_training(wanted, have, _FOLLOWED - _SCALED_THERE if scaled_there else _FOLLOWED, "/spec", 0))
    return [{"op": "test", "path": "/metadata/uid", "value": copied.metadata.uid}, *found] if found else []


def _of_training(wanted: Any, found: Any, followed: frozenset[str], path: str, depth: int) -> Iterator[Operation]:
    """Fields that are followed, wherever both have the same structure."""
    if depth > _DEEPEST:
        return
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _of_training(one, other, followed, f"{path}/{index}", depth + 1)
    elif isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            one, other = wanted.get(key), found.get(key)
            if key in followed:
                # A job that says nothing is not suspended; of sizes it leaves the choice to the member.
                yield from _set(f"{path}/{key}", *((bool(one), bool(other)) if key == "suspend" else (one, other)))
            elif key != "template":
                yield from _of_training(one, other, followed, f"{path}/{_escaped(key)}", depth + 1)


def _escaped(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def can_be_held(job: Job) -> bool:
    """Whether a copy without pods is allowed: a task with a partition policy has as many as its partitions, always."""
    return all(task.partition_policy is None for task in job.spec.tasks or ())


def is_held(copied: Job) -> bool:
    """Whether a copy has no pods at present."""
    return not any(task.replicas for task in copied.spec.tasks or ())


def held_back(spec: dict[str, Any]) -> dict[str, Any]:
    """A Job's spec, as JSON, without pods."""
    tasks = [{**task, "replicas": 0, "minAvailable": 0} for task in spec.get("tasks") or ()]
    return {**spec, "minAvailable": 0, "tasks": tasks}


def _of_job(wanted: JobSpec, found: JobSpec, *, held: bool, own_size: bool) -> Iterator[Operation]:
    """``own_size``: the member says how many replicas the last task has, which is the one that is scaled."""
    tasks = list(zip(wanted.tasks or (), found.tasks or (), strict=False))
    if len(tasks) != len(wanted.tasks or ()) or len(tasks) != len(found.tasks or ()):
        return
    for index, (task, before) in enumerate(tasks):
        path = f"/spec/tasks/{index}"
        if not (own_size and index == len(tasks) - 1):
            yield from _set(f"{path}/replicas", 0 if held else task.replicas, before.replicas)
        yield from _set(f"{path}/minAvailable", 0 if held else task.min_available, before.min_available)
    yield from _set("/spec/minAvailable", 0 if held else wanted.min_available, found.min_available)
    yield from _set("/spec/priorityClassName", wanted.priority_class_name or None, found.priority_class_name or None)


def _set(path: str, wanted: Any, found: Any) -> Iterator[Operation]:
    """What the job does not say is the member's to fill in; a priority that is taken away goes."""
    if wanted == found:
        return
    if wanted is not None:
        yield {"op": "add", "path": path, "value": wanted}
    elif path.endswith("priorityClassName"):
        yield {"op": "remove", "path": path}
