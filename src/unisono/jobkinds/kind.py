"""What is to be said of a kind of job, and what follows from that for all kinds alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from unisono.api.core import PodSpec
from unisono.api.keys import POD_QUEUE, QUEUE_NAME
from unisono.api.kind import Kind
from unisono.jobkinds.paths import walk

Control = Literal["commands", "flag", "parts", ""]

NOTE: Final = f"metadata.annotations[{POD_QUEUE}]"
"""Where most kinds name their queue."""
LABEL: Final = f"metadata.labels[{QUEUE_NAME}]"
"""Where Ray's kinds do."""
_NAMES: Final = (NOTE, f"metadata.annotations[{QUEUE_NAME}]", f"metadata.labels[{POD_QUEUE}]", LABEL)
"""By what people name a queue in the metadata of anything."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods that an object has at a time from one template.

    Attributes:
        role: name of the task, replica type or group; empty where there is but one.
        count: pods.
        spec: of each.
        least: how many of them the smallest gang has; all where it is None.
        later: they are made when others run: they count in ``minResources`` of the gang, and not in ``minMember``.

    """

    role: str
    count: int
    spec: PodSpec
    least: int | None = None
    later: bool = False


def no_pods(_: Any) -> Iterable[PodSet]:
    """Of kinds that have none, or whose objects do not tell."""
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class JobKind:
    """One kind, as its family's module describes it. Paths are those of `paths`.

    Attributes:
        kind: its struct and names.
        templates: where the templates of its pods stand.
        inner: where templates of what it makes between itself and its pods stand, which have metadata of their own.
        queues: where the name of its queue is heeded; the first that is there counts.
        pods: its pod sets.
        replicas: path of the number that says how many pods it has, ``.*`` in it stands for each of its roles; empty
            where the size is fixed, or does not follow from one number for each role.
        size: pods at a time, where that is not the sum of the pod sets.
        control: how it is stopped: by ``commands``, by a ``flag`` in its spec, or by its ``parts``; empty: not at all.
        flag: path of the flag.
        makes: what its controller makes that has pods of its own.
        own_pods: its own controller makes pods.
        pods_label: label of its pods that has its name; empty where they have none.
        group_name: name of its PodGroup, where that follows from its ``{name}`` and ``{uid}``.
        ends: its objects run to an end.
        refers: objects that it refers to may name its queue.

    """

    kind: Kind[Any]
    templates: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    queues: tuple[str, ...] = (NOTE,)
    pods: Callable[[Any], Iterable[PodSet]] = no_pods
    replicas: str = ""
    size: Callable[[Any], int] | None = None
    control: Control = ""
    flag: str = ""
    makes: tuple[Kind[Any], ...] = ()
    own_pods: bool = True
    pods_label: str = ""
    group_name: str = ""
    ends: bool = False
    refers: bool = False

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
        metas = ("", *(f"{each}." for each in (*self.inner, *self.templates)))
        return tuple(dict.fromkeys((*self.queues, *(f"{meta}{name}" for meta in metas for name in _NAMES))))

    def queues_of(self, obj: Any) -> list[str]:
        """The queues that an object's pods go to: those at the first place at which one is heeded and named."""
        for place in self.queues:
            if found := [value for _, value in walk(obj, place) if isinstance(value, str) and value]:
                return list(dict.fromkeys(found))
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

    def pods_of(self, obj: Any) -> int:
        """Pods that an object and everything made for it may have at a time."""
        return self.size(obj) if self.size is not None else sum(each.count for each in self.pods(obj))


def noted(*templates: str) -> tuple[str, ...]:
    """Where a queue is heeded that templates name by an annotation."""
    return tuple(f"{each}.{NOTE}" for each in templates)


def given(number: int | None) -> int:
    """A number of replicas, which is 1 where nothing is said."""
    return 1 if number is None else max(0, number)
