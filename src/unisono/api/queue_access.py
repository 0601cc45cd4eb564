"""Who may use a queue, as annotations of the Queue say (pure).

``unisono.io/namespaces`` names the namespaces whose jobs may use it, ``unisono.io/users`` users and groups; a user who
is not named needs the verb ``use`` on the queue. Without an annotation all may. What a queue says holds for all
queues below it, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from unisono.api.annotations import QUEUE_NAMESPACES, QUEUE_USERS
from unisono.api.keys import POD_QUEUE
from unisono.api.scheduling import Queue

USE = "use"
"""The verb of RBAC."""
_GROUP = "group:"
_RESERVED = re.compile(r"queue (\S{1,253}?)(?:, which queue \S{1,253} is below,)? is for jobs of other namespaces than")


def named_queues(obj: Any) -> Iterator[tuple[str, str]]:
    """Fields in which an object names a queue for its pods, and the queues."""
    yield from _noted(obj, "")
    spec = getattr(obj, "spec", None)
    policy = getattr(getattr(spec, "run_policy", None), "scheduling_policy", None)
    template = getattr(spec, "template", None)
    for path, value in (
        ("spec.queue", getattr(spec, "queue", None)),
        ("spec.runPolicy.schedulingPolicy.queue", getattr(policy, "queue", None)),
        (
            "spec.jobTemplate.spec.queue",
            getattr(getattr(getattr(spec, "job_template", None), "spec", None), "queue", None),
        ),
    ):
        if isinstance(value, str) and value:
            yield path, value
    if template is not None:
        yield from _noted(template, "spec.template.")
    for index, flow in enumerate(getattr(spec, "flows", None) or ()):
        patch = getattr(getattr(flow, "patch", None), "job_spec", None)
        if isinstance(value := getattr(patch, "queue", None), str) and value:
            yield f"spec.flows[{index}].patch.jobSpec.queue", value
    for index, part in enumerate(getattr(spec, "replicated_jobs", None) or ()):
        if isinstance(value := getattr(getattr(part, "template_spec", None), "queue", None), str) and value:
            yield f"spec.replicatedJobs[{index}].templateSpec.queue", value


def _noted(obj: Any, path: str) -> Iterator[tuple[str, str]]:
    annotations = getattr(getattr(obj, "metadata", None), "annotations", None)
    if isinstance(annotations, Mapping) and annotations.get(POD_QUEUE):
        yield f"{path}metadata.annotations[{POD_QUEUE}]", str(annotations[POD_QUEUE])


def refusal(
    name: str,
    queues: Callable[[str], Queue | None],
    namespace: str,
    user: str,
    groups: Iterable[str],
    may_use: Callable[[str], bool],
) -> str:
    """Why a user may not submit jobs of a namespace to a queue; empty where that is allowed.

    Args:
        name: of the queue.
        queues: finds queues by name.
        namespace: of the job.
        user: who submits it; empty for the system, whom only ``namespaces`` concerns.
        groups: the user's groups.
        may_use: whether roles give the user the verb ``use`` on the queue of a name.

    """
    seen: set[str] = set()
    at = name
    while at and at not in seen and (queue := queues(at)) is not None:
        seen.add(at)
        notes = queue.metadata.annotations or {}
        spaces, users = notes.get(QUEUE_NAMESPACES), notes.get(QUEUE_USERS)
        below = "" if at == name else f", which queue {name} is below,"
        if spaces is not None and not any(_matches(namespace, one) for one in _parts(spaces)):
            return f"queue {at}{below} is for jobs of other namespaces than {namespace} (annotation {QUEUE_NAMESPACES})"
        if users is not None and user and not _listed(_parts(users), user, groups) and not may_use(at):
            return (
                f'queue {at}{below} is not for user "{user}": annotation {QUEUE_USERS} does not name them, and no role '
                f"gives them the verb {USE} on it"
            )
        at = queue.spec.parent or ""
    return ""


def reserved_queue_in(text: str) -> str:
    """The queue that `refusal` says to be for other namespaces, somewhere in a text; ``""`` where it does not."""
    found = _RESERVED.search(text)
    return found[1] if found is not None else ""


def mistakes(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Annotation, value and what is wrong with it."""
    for part in _parts(annotations.get(QUEUE_NAMESPACES, "")):
        if "*" in part[:-1]:
            yield QUEUE_NAMESPACES, part, "a * may only stand at the end"


def _parts(text: str) -> list[str]:
    return [part for part in (each.strip() for each in text.split(",")) if part]


def _matches(namespace: str, pattern: str) -> bool:
    return namespace.startswith(pattern[:-1]) if pattern.endswith("*") else namespace == pattern


def _listed(names: Iterable[str], user: str, groups: Iterable[str]) -> bool:
    members = {user, *(f"{_GROUP}{group}" for group in groups)}
    return any(name in members for name in names)
