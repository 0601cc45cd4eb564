"""What a Queue says beside its amounts: who may use it, limits of users, and fields that some schedulers ignore."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from unisono.api.annotations import (
    ADMITTED_QUEUES,
    DEFAULT_RUN_TIME,
    ENFORCED_QUEUE_FIELDS,
    EVICTABLE,
    HOT_SPARES,
    IDLE_GPUS,
    MAX_RUN_TIME,
    QUEUE_NAMESPACES,
    QUEUE_USERS,
    QUOTAS,
)
from unisono.api.groups.scheduling import Queue, QueueAffinity, QueueSpec
from unisono.api.idle_gpus import policy_of
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.resources import resource_list, to_units, to_wire
from unisono.api.selecting import ROOT
from unisono.api.times import duration_or_none

# Who may use a queue, as annotations of the Queue say (pure).
#
# ``unisono.io/namespaces`` names the namespaces whose jobs may use it, ``unisono.io/users`` users and groups; a user
# who is not named needs the verb ``use`` on the queue. Without an annotation all may. What a queue says holds for all
# queues below it, too.

USE = "use"
"""The verb of RBAC."""
_GROUP = "group:"
_PRIORITY = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_BELOW_ALL = -(10**11)
_MOST_PARTS = 100
_MOST_DIGITS = 6
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
    match = _RESERVED.search(text)
    return match[1] if match is not None else ""


def mistakes(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Annotation, value and what is wrong with it."""
    for part in _parts(annotations.get(QUEUE_NAMESPACES, "")):
        if "*" in part[:-1]:
            yield QUEUE_NAMESPACES, part, "a * may only stand at the end"
    try:
        evictable_of(annotations.get(EVICTABLE, ""))
    except ValueError as error:
        yield EVICTABLE, annotations[EVICTABLE], str(error)
    for key in (MAX_RUN_TIME, DEFAULT_RUN_TIME):
        try:
            run_times_of(annotations.get(key, ""))
        except ValueError as error:
            yield key, annotations[key], str(error)
    spares = annotations.get(HOT_SPARES)
    if spares is not None and spares != "0" and not spares_of(spares):
        yield HOT_SPARES, spares, "write a whole number of nodes"
    try:
        policy_of(annotations.get(IDLE_GPUS, ""))
    except ValueError as error:
        yield IDLE_GPUS, annotations[IDLE_GPUS], str(error)
    try:
        quotas_of(annotations.get(QUOTAS, ""))
    except ValueError as error:
        yield QUOTAS, annotations[QUOTAS], str(error)


def spares_of(text: str | None) -> int:
    """How many nodes ``unisono.io/hot-spares`` asks for; 0 for a text that is no such number."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0


def _parts(text: str) -> list[str]:
    return [part for part in (each.strip() for each in text.split(",")) if part]


def _some(text: str) -> list[str]:
    parts = _parts(text)
    if len(parts) > _MOST_PARTS:
        raise ValueError(f"{len(parts)} parts: write at most {_MOST_PARTS}")
    return parts


def _matches(namespace: str, pattern: str) -> bool:
    return namespace.startswith(pattern[:-1]) if pattern.endswith("*") else namespace == pattern


def _listed(names: Iterable[str], user: str, groups: Iterable[str]) -> bool:
    members = {user, *(f"{_GROUP}{group}" for group in groups)}
    return any(name in members for name in names)


# Which pods of a queue's jobs may be evicted for others, as annotations say (pure).

ALL: Final = "all"
SURPLUS: Final = "surplus"
NONE: Final = "none"
LEVELS: Final = (ALL, SURPLUS, NONE)
"""From the least protection to the most."""


def evictable_of(text: str) -> list[tuple[int, str]]:
    """``surplus,10000=none`` as priorities from which on a level holds, ascending; one without a priority holds below.

    Raises:
        ValueError: a part is no level, or stands for a priority that another one stands for; there are too many.
    """
    levels: dict[int, str] = {}
    for part in _some(text):
        number, mark, level = part.rpartition("=")
        if level.strip() not in LEVELS or (mark and not _PRIORITY.fullmatch(number.strip())):
            raise ValueError(f"{part!r} must be all, surplus or none, or such as 10000=none from a priority on")
        since = int(number) if mark else _BELOW_ALL
        if since in levels:
            raise ValueError(f"{part!r}: another part is for the same priority")
        levels[since] = level.strip()
    return sorted(levels.items())


def level_at(bands: Sequence[tuple[int, str]], priority: int) -> str:
    """The level that holds for a priority; ``all`` below the first one."""
    return next((level for since, level in reversed(bands) if since <= priority), ALL)


# How long pods of a queue's jobs run, as annotations say (pure).


def run_times_of(text: str) -> dict[str, float]:
    """``4h,urgent=12h`` as seconds by PriorityClass; those of ``""`` hold for all that are not named.

    Raises:
        ValueError: a part is no duration above 0, or is for the same class as another one; there are too many.
    """
    run_times: dict[str, float] = {}
    for part in _some(text):
        name, _, length = (each.strip() for each in part.rpartition("="))
        seconds = duration_or_none(length)
        if seconds is None or seconds <= 0 or (not name and "=" in part):
            raise ValueError(f"{part!r} must be a duration such as 4h, or such as urgent=12h for a PriorityClass")
        if name in run_times:
            raise ValueError(f"{part!r}: another part is for the same jobs")
        run_times[name] = seconds
    return run_times


# Amounts of a queue that follow the nodes, as an annotation of the Queue says (pure).

_AMOUNTS: Final = ("capability", "deserved", "guarantee")
_WHOLE = 100
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%", re.ASCII)


def quotas_of(text: str) -> dict[tuple[str, str], Fraction]:
    """``deserved.nvidia.com/gpu=80%`` as a part of the whole, by field of the spec and name of the resource.

    Raises:
        ValueError: a part is no such thing, or is there twice; there are too many.
    """
    quotas: dict[tuple[str, str], Fraction] = {}
    for part in _some(text):
        where, _, share = (each.strip() for each in part.partition("="))
        field, _, name = where.partition(".")
        percent = _PERCENT.fullmatch(share)
        if field not in _AMOUNTS or not name or percent is None or Fraction(percent[1]) > _WHOLE:
            raise ValueError(f"{part!r} must be such as deserved.cpu=80%, with {', '.join(_AMOUNTS)} and at most 100%")
        if (field, name) in quotas:
            raise ValueError(f"{where} is there twice")
        quotas[field, name] = Fraction(percent[1]) / _WHOLE
    return quotas


# What a queue's amounts may be beside those of its family: of the queues above it and beside it (pure).


class Family(NamedTuple):
    """What a queue says of its place: the queue above it, and the most that it and all below it may hold."""

    parent: str
    capability: Mapping[str, int]


def capabilities_above(name: str, queues: Callable[[str], Family | None]) -> Iterator[tuple[str, Mapping[str, int]]]:
    """The queues above one, from the nearest on, and their capabilities; root limits none."""
    queue, seen = queues(name), {name}
    while queue is not None and queue.parent not in (ROOT, *seen):
        seen.add(queue.parent)
        above = queues(queue.parent)
        if above is not None:
            yield queue.parent, above.capability
        queue = above


def exceeded(
    name: str, amounts: Mapping[str, int], queues: Callable[[str], Family | None]
) -> Iterator[tuple[str, str, int]]:
    """Resources of which a queue may hold more than the nearest queue above that limits them: that queue, its limit."""
    left = dict(amounts)
    for above, limits in capabilities_above(name, queues):
        for resource in [each for each in left if each in limits]:
            if left.pop(resource) > limits[resource]:
                yield resource, above, limits[resource]


def oversubscribed(own: Mapping[str, int], children: Iterable[Mapping[str, int]]) -> list[str]:
    """Resources of which children ask for more together than a queue has, where what it does not name counts as zero.

    The rule of guarantees and of deserved amounts.
    """
    return [resource for resource, amount in summed(children).items() if amount > own.get(resource, 0)]


def summed(each: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Amounts of several, by resource."""
    total: dict[str, int] = {}
    for amounts in each:
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, 0) + amount
    return total


# What one user may hold in a queue, as an annotation of the Queue says (pure).

JOBS: Final = "jobs"


def limits_of(text: str) -> dict[str, int]:
    """``jobs=4,pods=16,nvidia.com/gpu=8`` by name: ``jobs`` as a number, everything else in engine units.

    Raises:
        ValueError: a part is no ``NAME=QUANTITY``.
    """
    amounts: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, mark, value = part.partition("=")
        if not mark or not name.strip():
            raise ValueError(f"{part!r} is no NAME=QUANTITY, such as nvidia.com/gpu=8")
        amounts[name.strip()] = value.strip()
    jobs = amounts.pop(JOBS, None)
    if jobs is not None and not (jobs.isascii() and jobs.isdigit()):
        raise ValueError(f"{JOBS}={jobs} must be a whole number")
    for amount in amounts.values():
        try:
            parse_quantity(amount)
        except QuantityError:
            raise ValueError(f"{amount!r} is no quantity, such as 8 or 16Gi") from None
    limits = resource_list(amounts)
    return limits if jobs is None else {JOBS: int(jobs), **limits}


def raised(text: str, by: Mapping[str, int]) -> str:
    """The same limits, those in ``by`` raised by so much; its amounts are those of `limits_of`."""
    parts: list[str] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = (each.strip() for each in part.partition("="))
        if name == JOBS and name in by:
            value = str(int(value) + by[name])
        elif name in by:
            value = to_wire({name: to_units(name, value) + by[name]})[name]
        parts.append(f"{name}={value}")
    return ",".join(parts)


# Node groups in the affinity of a queue: another name in place of one (pure).


def with_group(affinity: QueueAffinity, name: str, instead: str) -> QueueAffinity:
    """The same rules for the group ``instead`` in place of ``name``."""
    rules = msgspec.to_builtins(affinity)
    for part in filter(None, rules.values()):
        for each, groups in part.items():
            part[each] = groups and [instead if one == name else one for one in groups]
    return msgspec.convert(rules, QueueAffinity)


# Fields of a Queue that only some scheduler configurations enforce, and what to say where one is not enforced.

NEEDS: Final[dict[str, str]] = {
    "weight": "list the plug-in proportion",
    "deserved": "list the plug-in capacity",
    "guarantee": "list the plug-in capacity or proportion",
    "priority": "list the plug-in capacity or proportion",
    "affinity": "list the plug-in nodegroup",
    "parent": "list the plug-in capacity with enableHierarchy: true (capabilities of parents hold without it)",
}
"""By field of the spec what it takes. ``capability`` always holds, also that of parents."""


def unenforced(spec: QueueSpec, enforced: Collection[str]) -> Iterator[str]:
    """Names of fields that the queue states and that are not among ``enforced``.

    A value that means what holds without it (weight 1, no amounts) is none that is stated.
    """
    stated = {
        "weight": (spec.weight or 1) != 1,
        "deserved": bool(spec.deserved),
        "guarantee": spec.guarantee is not None and bool(spec.guarantee.resource),
        "priority": bool(spec.priority),
        "affinity": spec.affinity is not None,
        "parent": spec.parent not in ("", ROOT, None)
        and bool(spec.deserved or (spec.guarantee and spec.guarantee.resource)),
    }
    return (field for field in NEEDS if stated[field] and field not in enforced)


def warnings_of(spec: QueueSpec, lease_annotations: Mapping[str, str] | None) -> list[str]:
    """One sentence for each such field, by what the scheduler's Lease says of its configuration, if there is one."""
    enforced = (lease_annotations or {}).get(ENFORCED_QUEUE_FIELDS)
    if enforced is None:
        return []
    return [
        f"spec.{field}: the scheduler's configuration does not enforce it; {NEEDS[field]}"
        for field in unenforced(spec, enforced.split(","))
    ]


class Place(NamedTuple):
    """Where a queue stands: its parent, whether it is closed, and whether it was closed with that."""

    parent: str
    closed: bool
    by_parent: bool


def to_be_opened(name: str, place_of: Callable[[str], Place | None]) -> tuple[str, ...]:
    """The closed queues that have to be opened for a closed one, the uppermost first.

    A parent closes those below it, and opens them again, but for those that were closed by themselves.
    """
    by_hand: list[str] = []
    for _ in range(_MOST_PARTS):
        place = place_of(name)
        above = place_of(place.parent) if place is not None else None
        if place is None or above is None or not above.closed:
            break
        by_hand += [] if place.by_parent else [name]
        name = place.parent
    return (name, *reversed(by_hand))
