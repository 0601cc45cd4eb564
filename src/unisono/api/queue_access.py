"""Who may use a queue, as annotations of the Queue say (pure).

``unisono.io/namespaces`` names the namespaces whose jobs may use it, ``unisono.io/users`` users and groups; a user who
is not named needs the verb ``use`` on the queue. Without an annotation all may. What a queue says holds for all
queues below it, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from unisono.api.annotations import ADMITTED_QUEUES, QUEUE_NAMESPACES, QUEUE_USERS
from unisono.api.scheduling import Queue

USE = "use"
"""The verb of RBAC."""
_GROUP = "group:"
_RESERVED = re.compile(r"queue (\S{1,253}?)(?:, which queue \S{1,253} is below,)? is for jobs of other namespaces than")


class Rules(NamedTuple):
    """What a queue says of access: its annotations, and the queue above it."""

    notes: Mapping[str, str]
    parent: str


def rules_of(queue: Queue | None) -> Rules | None:
    """The same of an object; None of none."""
    return None if queue is None else Rules(queue.metadata.annotations or {}, queue.spec.parent or "")


def names_users(name: str, queues: Callable[[str], Rules | None]) -> bool:
    """Whether a queue, or one above it, is for certain users only."""
    return any(QUEUE_USERS in rules.notes for _, rules in _upwards(name, queues))


def admitted_to(notes: Mapping[str, str] | None) -> frozenset[str]:
    """Queues for certain users that admission has let an object's author use, as the object's annotation says."""
    return frozenset(_parts((notes or {}).get(ADMITTED_QUEUES, "")))


def _upwards(name: str, queues: Callable[[str], Rules | None]) -> Iterator[tuple[str, Rules]]:
    seen: set[str] = set()
    while name and name not in seen and (rules := queues(name)) is not None:
        seen.add(name)
        yield name, rules
        name = rules.parent


def refusal(
    name: str,
    queues: Callable[[str], Rules | None],
    namespace: str,
    user: str,
    groups: Iterable[str],
    may_use: Callable[[str], bool],
) -> str:
    """Why a user may not submit jobs of a namespace to a queue; empty where that is allowed.

    Args:
        name: of the queue.
        queues: finds what queues say, by name.
        namespace: of the job.
        user: who submits it; empty for the system, whom only ``namespaces`` concerns.
        groups: the user's groups.
        may_use: whether roles give the user the verb ``use`` on the queue of a name.

    """
    for at, (notes, _) in _upwards(name, queues):
        spaces, users = notes.get(QUEUE_NAMESPACES), notes.get(QUEUE_USERS)
        below = "" if at == name else f", which queue {name} is below,"
        if spaces is not None and not any(_matches(namespace, one) for one in _parts(spaces)):
            return f"queue {at}{below} is for jobs of other namespaces than {namespace} (annotation {QUEUE_NAMESPACES})"
        if users is not None and user and not _listed(_parts(users), user, groups) and not may_use(at):
            return (
                f'queue {at}{below} is not for user "{user}": annotation {QUEUE_USERS} does not name them, and no role '
                f"gives them the verb {USE} on it"
            )
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
