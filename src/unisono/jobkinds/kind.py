"""What is to be said of a kind of job, and what follows from that for all kinds alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from unisono.api import keys
from unisono.api.conditions import SUCCEEDED, SUSPENDED
from unisono.api.core import PodSpec
from unisono.api.kind import Kind
from unisono.api.times import time_or
from unisono.errors import UnisonoError
from unisono.jobkinds.paths import first, patch_of, put, walk

# How objects of different kinds tell that they run, have ended, and how: always in the words of Volcano's Jobs.

Tells = Callable[[Any, bool], tuple[str, str]]

_GOOD = ("Succeeded", "Complete", "Completed")
_ENDS = (*_GOOD, "Failed")
_END_TIMES = ("status.completionTime", "status.endTime", "status.state.lastTransitionTime")


def by_conditions(obj: Any, running: bool) -> tuple[str, str]:
    """Of kinds whose conditions say it; not all of them say that pods run."""
    said = {
        str(first(each, "type")): str(first(each, "message") or first(each, "reason") or "")
        for _, each in walk(obj, "status.conditions[*]")
        if first(each, "status") == "True"
    }
    for good in _GOOD:
        if good in said:
            return SUCCEEDED, said[good]
    for name in ("Failed", SUSPENDED, "Restarting"):
        if name in said:
            return name, said[name]
    return ("Running" if "Running" in said or running else "Pending"), ""


def ran_before(obj: Any) -> bool:
    """Whether the object tells that pods of it have run, now or earlier."""
    running = any(first(each, "type") == "Running" for _, each in walk(obj, "status.conditions[*]"))
    return running or bool(first(obj, "status.failed"))


def by_field(path: str, phases: Mapping[str, Collection[str]], message: str = "") -> Tells:
    """Of kinds that have a field for it.

    Args:
        path: of the field.
        phases: its values, by what they mean; any other means Pending.
        message: path of what the object says of it.
    """
    meant = {value: phase for phase, values in phases.items() for value in values}

    def tells(obj: Any, _: bool) -> tuple[str, str]:
        phase = meant.get(str(first(obj, path) or ""), "Pending")
        return phase, str(first(obj, message) or "") if message and phase != "Pending" else ""

    return tells


def ended_at(obj: Any) -> str | None:
    """The time on the wire at which an object that has ended did so; None where it does not say."""
    for path in _END_TIMES:
        if isinstance(time := first(obj, path), str) and time:
            return time
    ends = [
        str(first(each, "lastTransitionTime"))
        for _, each in walk(obj, "status.conditions[*]")
        if first(each, "type") in _ENDS and first(each, "status") == "True" and first(each, "lastTransitionTime")
    ]
    return max(ends, default=None)


Control = Literal["commands", "flag", "parts", ""]
InFleet = Literal["whole", "parts", "divided", ""]
Json = dict[str, Any]
Patch = Json | list[Json]

NOTE: Final = f"metadata.annotations[{keys.POD_QUEUE}]"
"""Where most kinds name their queue."""
LABEL: Final = f"metadata.labels[{keys.QUEUE_NAME}]"
"""Where Ray's kinds do."""
_NAMES: Final = (NOTE, f"metadata.annotations[{keys.QUEUE_NAME}]", f"metadata.labels[{keys.POD_QUEUE}]", LABEL)
"""By what people name a queue in the metadata of anything."""
_TIERS: Final = (keys.NETWORK_TOPOLOGY_HIGHEST_TIER, keys.NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED)
MANAGED: Final = "spec.managedBy"
"""Where most kinds name the controller that acts on an object."""
ONLY: Final = "pod"
"""The part of an object whose pods are all alike, and that has no name for them."""


class NoSuchField(UnisonoError):
    """The kind has no field for what is asked, or not for this value; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods that an object has at a time from one template.

    Attributes:
        role: name of the task, replica type or group; empty where there is but one.
        count: pods.
        spec: of each.
        least: how many of them the smallest gang has; all where it is None.
        later: they are made when others run: they count in ``minResources`` of the gang, and not in ``minMember``.
        helps: they serve the job, and are no part of it.
    """

    role: str
    count: int
    spec: PodSpec
    least: int | None = None
    later: bool = False
    helps: bool = False


@dataclass(frozen=True, slots=True)
class ElasticPart:
    """Replicas of an object that may be more or fewer.

    Attributes:
        name: of the part; empty where the object has only one.
        label: key and value that the part's pods have.
        replicas: as the object asks for.
        least: replicas that it needs.
        most: replicas that it can use.
        template: of its pods.
        pods: of each replica.
    """

    name: str
    label: tuple[str, str]
    replicas: int
    least: int
    most: int
    template: PodSpec
    pods: int = 1


def no_pods(_: Any) -> Iterable[PodSet]:
    """Of kinds that have none, or whose objects do not tell."""
    return ()


def by_annotation(manifest: Json, to: int) -> None:
    """The gang of pods that nobody has made a PodGroup for: their owner's annotation says how many it needs."""
    notes = manifest["metadata"].get("annotations") or {}
    manifest["metadata"]["annotations"] = notes | {keys.GROUP_MIN_MEMBER: str(to)}


def all_at_once(manifest: Json, _: int) -> None:
    """Of what is made of other objects, and has no gang of its own to make smaller."""
    raise NoSuchField(f"a {manifest['kind']} starts with all its pods: run fewer of them")


@dataclass(frozen=True, slots=True, eq=False)
class JobKind:
    """One kind, as its family's module describes it. Paths are those of `paths`.

    Attributes:
        kind: its struct and names.
        templates: where the templates of its pods stand.
        inner: where templates of what it makes between itself and its pods stand, which have metadata of their own.
        queues: where the name of its queue is heeded; the first that is there counts.
        priorities: where the priority class of its gang is named, beside its pods.
        topologies: where its gang, or a part of it, says how close its pods must be.
        minimum: where it states the minResources of its gang; empty where it does not.
        role_minimums: where it states how many pods of each role its gang needs.
        pods: its pod sets.
        fewer: changes an object's JSON so that its gang starts with so many pods; raises NoSuchField.
        replicas: path of the number that says how many pods it has; ``.*`` or ``[*]`` in it stands for each of its
            parts. Empty where the size is fixed, or does not follow from one number for each part.
        resized: the patch after which a part of an object has so many replicas, where that is not the number alone: a
            merge patch, or the operations of a JSON patch; raises NoSuchField.
        sized: kind and path of the name of the object that is changed in its place.
        size: pods at a time, where that is not the sum of the pod sets.
        completions: path of how many pods have to end well, where that may be more than run at a time.
        elastic: the parts that may be grown and shrunk, within their limits; none while the object is suspended.
        grown: the merge patch after which parts, by name, have so many replicas.
        control: how it is stopped: by ``commands``, by a ``flag`` in its spec, or by its ``parts``; empty: not at all.
        flag: path of the flag.
        flag_values: what stands there while it is suspended, and while it is not.
        tells: its phase in the words of Volcano's Jobs, and what it says of it; the flag says whether a pod runs.
        ends: its objects run to an end.
        makes: what its controller makes that has pods of its own.
        parts: path of what it makes, where each entry may have ``replicas``.
        own_pods: its own controller makes pods.
        runs: its objects have pods; templates and groups have none.
        pods_label: label of its pods that has its name; empty where they have none.
        part_label: label of its pods that has the name of their part.
        fixed_names: its pods have names of their own: a successor comes only when the old pod has gone.
        at_once: path, and the value there with which its pods are made all at once; else one after the other, each when
            the one before it is ready. Empty where they always are.
        group_name: name of its PodGroup, where that follows from its ``{name}`` and ``{uid}``.
        one_group: all its pods, whoever makes them, are in one PodGroup, which nobody else makes.
        fleet: a hub sends it to a member as a ``whole``, by its ``parts``, or with its replicas ``divided``.
        refers: objects that it refers to may name its queue.
        managed: path at which an object names the controller that acts on it.
        managers: names there that stand for the controller here.
    """

    kind: Kind[Any]
    templates: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    queues: tuple[str, ...] = (NOTE,)
    priorities: tuple[str, ...] = ()
    topologies: tuple[str, ...] = ()
    minimum: str = ""
    role_minimums: str = ""
    pods: Callable[[Any], Iterable[PodSet]] = no_pods
    fewer: Callable[[Json, int], None] = by_annotation
    replicas: str = ""
    resized: Callable[[Any, str, int], Patch] | None = None
    sized: tuple[Kind[Any], str] | None = None
    size: Callable[[Any], int] | None = None
    completions: str = ""
    elastic: Callable[[Any], Iterator[ElasticPart]] | None = None
    grown: Callable[[Any, Mapping[str, int]], Json] | None = None
    control: Control = ""
    flag: str = ""
    flag_values: tuple[Any, Any] = (True, False)
    tells: Callable[[Any, bool], tuple[str, str]] = by_conditions
    ends: bool = False
    makes: tuple[Kind[Any], ...] = ()
    parts: str = ""
    own_pods: bool = True
    runs: bool = True
    pods_label: str = ""
    part_label: str = ""
    fixed_names: bool = False
    at_once: tuple[str, str] = ("", "")
    group_name: str = ""
    one_group: bool = False
    fleet: InFleet = ""
    refers: bool = False
    managed: str = MANAGED
    managers: frozenset[str] = frozenset()

    def named_queues(self, obj: Any, *, all_places: bool = True) -> Iterator[tuple[str, str]]:
        """Fields in which an object names a queue, and the queues; those that are heeded come first and in order.

        Args:
            obj: a struct, or its JSON.
            all_places: also where it is not heeded.
        """
        for place in self.places if all_places else self.queues:
            for path, value in walk(obj, place):
                if isinstance(value, str) and value:
                    yield path, value

    @property
    def places(self) -> tuple[str, ...]:
        """Every place at which a queue may be named."""
        return tuple(dict.fromkeys((*self.queues, *(f"{meta}{name}" for meta in self._metas() for name in _NAMES))))

    def labelled(self, label: str) -> tuple[str, ...]:
        """Every place at which a label of an object, or of what is made of it, may stand."""
        return tuple(f"{meta}metadata.labels[{label}]" for meta in self._metas())

    def _metas(self) -> tuple[str, ...]:
        """What has metadata, each with the dot before them."""
        return ("", *(f"{each}." for each in (*self.inner, *self.templates)))

    def queues_of(self, obj: Any) -> list[str]:
        """The queues that an object's pods go to: those at the first place at which one is heeded and named."""
        for place in self.queues:
            if names := [value for _, value in walk(obj, place) if isinstance(value, str) and value]:
                return list(dict.fromkeys(names))
        return []

    def unheeded(self, obj: Any) -> list[str]:
        """One sentence for each name of a queue that leads nowhere: another one counts, or none does at that place."""
        queues = self.queues_of(obj)
        instead = f"the pods go to queue {queues[0]}" if queues else f"name it in {' or '.join(self.queues[:2])}"
        return [
            f"{path}: queue {name} is not used: {instead}"
            for path, name in self.named_queues(obj)
            if name not in queues
        ]

    def one_by_one(self, obj: Any) -> bool:
        """Whether each of an object's pods is made when the one before it is ready."""
        path, value = self.at_once
        return bool(path) and first(obj, path) != value

    def priority_of(self, obj: Any) -> str:
        """The priority class that an object names for its gang, else for its pods; empty where it names none."""
        for place in (*self.priorities, *(f"{each}.spec.priorityClassName" for each in self.templates)):
            for _, value in walk(obj, place):
                if isinstance(value, str) and value:
                    return value
        return ""

    def pods_of(self, obj: Any) -> int:
        """Pods that an object and everything made for it may have at a time."""
        return self.size(obj) if self.size is not None else sum(each.count for each in self.pods(obj))

    def to_end(self, obj: Any) -> int | None:
        """Pods of an object that have to end well; None where that is not counted."""
        number = first(obj, self.completions) if self.completions else None
        return number if isinstance(number, int) else None

    def parts_of(self, obj: Any) -> int:
        """Objects that make an object's pods, as far as its spec says that in one number for each part; else 0."""
        return sum(given(first(each, "replicas")) for _, each in walk(obj, self.parts)) if self.parts else 0

    def state(self, obj: Any, *, running: bool = False) -> tuple[str, str]:
        """Phase of an object in the words of Volcano's Jobs, and what it says of it.

        Args:
            obj: a struct, or its JSON.
            running: a pod of it runs; kinds that tell their state by conditions do not all say so.
        """
        return self.tells(obj, running)

    def ended_at(self, obj: Any) -> float:
        """When an object that has ended did so, as it says itself, in seconds since 1970; 0 where it does not say."""
        return time_or(ended_at(obj))

    def suspended(self, value: bool) -> Json:
        """The merge patch that suspends an object, or lets it go on.

        Raises:
            NoSuchField: the kind cannot be suspended.
        """
        if self.control != "flag":
            raise NoSuchField(
                f"a {self.kind.kind} cannot be suspended as a whole: suspend the jobs that it is made of."
            )
        return patch_of(self.flag, self.flag_values[0 if value else 1])

    def is_suspended(self, obj: Any) -> bool:
        """Whether an object's spec says that it has no pods for now."""
        return bool(self.flag) and first(obj, self.flag) == self.flag_values[0]

    def resize(self, obj: Any, part: str, replicas: int) -> Patch:
        """The patch after which a part of an object has so many replicas.

        Args:
            obj: as the server has it.
            part: its name in any case; ``pod`` where all pods are alike.
            replicas: number.

        Returns:
            a merge patch, or the operations of a JSON patch.

        Raises:
            NoSuchField: there is no such part, its limits do not allow the number, or the size is fixed.
        """
        if replicas < 0:
            raise NoSuchField(f"replicas of task {part} must be 0 or more, and not {replicas}.")
        if self.resized is not None:
            return self.resized(obj, part, replicas)
        roles, each, field = self.replicas.partition(".*.")
        if each:
            role = part_named(obj, part, list(first(obj, roles) or {}))
            return patch_of(f"{roles}.{role}.{field}", replicas)
        if not roles:
            raise NoSuchField(f"a {self.kind.kind} keeps the size that it was made with: submit a new one.")
        part_named(obj, part, [ONLY])
        return patch_of(roles, replicas)

    def grow(self, manifest: Json, by: int) -> None:
        """Let an object's JSON ask for so many more pods.

        Raises:
            NoSuchField: it is not known which of its parts should have them.
        """
        above, _, field = self.replicas.rpartition(".")
        places = [path for path, _ in walk(manifest, above)] if above else []
        if len(places) != 1:
            raise NoSuchField(f"let the {self.kind.kind} have more pods of the role that lacks them")
        path = f"{places[0]}.{field}"
        more = given(first(manifest, path)) + by
        put(manifest, path, more)
        if self.completions and (number := first(manifest, self.completions)) is not None:
            put(manifest, self.completions, max(number, more))

    def allow_tier(self, manifest: Json, tier: int) -> None:
        """Let the gang of an object's JSON, and its parts where they are bounded, span HyperNodes of this tier."""
        for path, _ in [found for place in self.topologies for found in walk(manifest, place)]:
            put(manifest, path, {"mode": "hard", "highestTierAllowed": tier})
        for meta in self._metas():
            for _, notes in list(walk(manifest, f"{meta}metadata.annotations")):
                notes |= {key: str(tier) for key in _TIERS if key in notes}

    def use_priority(self, manifest: Json, name: str) -> None:
        """Let the gang of an object's JSON have another priority class, besides what its pods say."""
        for place in self.priorities:
            if "*" not in place:
                put(manifest, place, name)
                continue
            above, _, field = place.rpartition(".")
            for path, _ in list(walk(manifest, above)):
                put(manifest, f"{path}.{field}", name)

    def use_queue(self, manifest: Json, queue: str) -> None:
        """Wait in another queue: wherever one is named, and where the kind looks first if none is."""
        paths = [path for place in self.places for path, value in walk(manifest, place) if value]
        for path in paths or [one for one in self.queues[:1] if "*" not in one]:
            put(manifest, path, queue)


def noted(*templates: str) -> tuple[str, ...]:
    """Where a queue is heeded that templates name by an annotation."""
    return tuple(f"{each}.{NOTE}" for each in templates)


def given(number: int | None) -> int:
    """A number of replicas, which is 1 where nothing is said."""
    return 1 if number is None else max(0, number)


def part_named(obj: Any, part: str, names: Sequence[str]) -> str:
    """The name of a part as an object writes it.

    Raises:
        NoSuchField: it has none of that name.
    """
    for name in names:
        if name.lower() == part.lower():
            return name
    raise NoSuchField(f"the job {obj.metadata.name} has no task {part!r}: its tasks are {', '.join(names)}.")
