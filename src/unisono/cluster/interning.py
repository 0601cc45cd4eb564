"""Interned pod classes: which specs share one, and which classes are still in use.

A class without pods is kept for a while, for the next pod of the same spec, and then freed with the selectors that only
it looked through: users make any number of distinct specs in the life of a scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import msgspec

from unisono.api.core import PodSpec
from unisono.cluster.podclass import UNTIED, PodClass, PodRelations, images_of, relevant_notes
from unisono.cluster.resources import ResourceRegistry
from unisono.cluster.selectors import SelectorBook

# Objects that live as long as their owner, such as a session or a cluster's state, found by their class.

T = TypeVar("T")


class SharedObjects:
    """At most one object of each class, made when it is first asked for.

    What several plug-ins or actions use together, such as the book of who holds which device, lives here, so that it
    ends with its owner.
    """

    __slots__ = ("_by_class",)

    def __init__(self) -> None:
        self._by_class: dict[type[Any], Any] = {}

    def of(self, kind: type[T], make: Callable[[], T]) -> T:
        """The object of class ``kind``; ``make`` makes it if there is none yet."""
        found: T | None = self._by_class.get(kind)
        if found is None:
            found = self._by_class[kind] = make()
        return found

    def find(self, kind: type[T]) -> T | None:
        """The object of class ``kind``; None when nothing has asked for it yet."""
        found: T | None = self._by_class.get(kind)
        return found

    def put(self, part: object) -> None:
        """Have ``part`` in place of the object of its class."""
        self._by_class[type(part)] = part

    def clear(self) -> None:
        """Forget all objects."""
        self._by_class.clear()


KEPT = 1024
"""Classes without pods that are kept, those that lost their last pod last."""

_SLICE = 1024
"""Classes that one sweep frees at most, so that no cycle waits for it."""

_ENCODER = msgspec.msgpack.Encoder()


class PodClasses:
    """The pod classes of one cluster state.

    Ids are never used twice, so results that are kept by id never answer for another class.

    Attributes:
        all: by id, in the order in which they were made.
        kins: number of specs by ``PodClass.kin``.
        next_id: a number above all ids so far.
        freed: moves when classes were freed: results kept by id or kin may be of no use any more.

    """

    __slots__ = (
        "_by_key",
        "_by_kin",
        "_by_ties",
        "_idle",
        "_keys",
        "_next_kin",
        "_width",
        "all",
        "freed",
        "kins",
        "next_id",
        "registry",
        "selectors",
    )

    def __init__(self, registry: ResourceRegistry) -> None:
        self.registry = registry
        self.selectors = SelectorBook()
        self.all: dict[int, PodClass] = {}
        self.kins: dict[int, int] = {}
        self.next_id = 0
        self.freed = 0
        self._next_kin = 0
        self._width = len(registry)
        self._by_key: dict[bytes, PodClass] = {}
        self._by_kin: dict[bytes, int] = {}
        self._by_ties: dict[tuple[int, PodRelations], PodClass] = {}
        self._keys: dict[int, tuple[bytes, bytes]] = {}
        self._idle: dict[int, PodClass] = {}

    def __len__(self) -> int:
        return len(self.all)

    def intern(self, spec: PodSpec, annotations: Mapping[str, str] | None = None, namespace: str = "") -> PodClass:
        """The class of ``spec`` in a pod with ``annotations``."""
        notes = relevant_notes(annotations, namespace) if annotations else None
        key = _ENCODER.encode((_relevant(spec), notes) if notes else _relevant(spec))
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = PodClass(self.next_id, spec, self.registry, notes)
            kin = _ENCODER.encode((_constraints(spec), notes))
            found.kin = self._kin(kin)
            self._keys[found.id] = key, kin
            self._add(found)
        return found

    def _kin(self, key: bytes) -> int:
        number = self._by_kin.get(key)
        if number is None:
            number = self._by_kin[key] = self._next_kin
            self._next_kin += 1
            self.kins[number] = 0
        self.kins[number] += 1
        return number

    def refine(self, base: PodClass, ties: PodRelations) -> PodClass:
        """The class of pods of ``base`` with these ties."""
        if ties == UNTIED:
            return base
        key = (base.id, ties)
        found = self._by_ties.get(key)
        if found is None:
            found = self._by_ties[key] = base.refined(self.next_id, ties)
            self._add(found)
            self.take(base)
            self.selectors.take(ties.terms.selectors)
        return found

    def _add(self, fresh: PodClass) -> None:
        self.next_id += 1
        self.all[fresh.id] = self._idle[fresh.id] = fresh

    # ---- use

    def take(self, pod_class: PodClass) -> None:
        """One more pod, or one more class of this base."""
        pod_class.uses += 1
        if pod_class.uses == 1:
            self._idle.pop(pod_class.id, None)

    def give_back(self, pod_class: PodClass) -> None:
        """The opposite of `take`."""
        pod_class.uses -= 1
        if not pod_class.uses:
            self._idle[pod_class.id] = pod_class

    def clear_pods(self) -> None:
        """No class has pods any more."""
        for pod_class in self.all.values():
            pod_class.uses = 0
        for pod_class in self.all.values():
            if pod_class.base is not pod_class:
                pod_class.base.uses += 1
        self._idle = {number: each for number, each in self.all.items() if not each.uses}

    def sweep(self) -> frozenset[int]:
        """Free some of the classes that have had no pods for longest; answer the ids of selectors freed with them."""
        surplus = len(self._idle) - KEPT
        if surplus <= 0:
            return frozenset()
        for number in list(self._idle)[: min(surplus, _SLICE)]:
            self._free(self._idle.pop(number))
        self.freed += 1
        return self.selectors.sweep()

    def _free(self, pod_class: PodClass) -> None:
        del self.all[pod_class.id]
        if pod_class.base is pod_class:
            key, kin = self._keys.pop(pod_class.id)
            del self._by_key[key]
            self.kins[pod_class.kin] -= 1
            if not self.kins[pod_class.kin]:
                del self.kins[pod_class.kin], self._by_kin[kin]
            return
        self._forget_ties(pod_class)
        self.give_back(pod_class.base)
        self.selectors.give_back(pod_class.terms.selectors)

    def _forget_ties(self, pod_class: PodClass) -> None:
        key = (pod_class.base.id, pod_class.ties)
        if self._by_ties.get(key) is pod_class:
            del self._by_ties[key]

    def unmatch(self, selectors: frozenset[int]) -> dict[int, PodClass]:
        """Take freed selectors out of what selects the pods of classes.

        Answers, by id, which class to use instead of those that differ from another one in nothing any more.
        """
        instead: dict[int, PodClass] = {}
        for pod_class in list(self.all.values()):
            if selectors.isdisjoint(pod_class.matched):
                continue
            self._forget_ties(pod_class)
            pod_class.matched -= selectors
            ties = pod_class.ties
            key = (pod_class.base.id, ties)
            same = pod_class.base if ties == UNTIED else self._by_ties.setdefault(key, pod_class)
            if same is not pod_class:
                instead[pod_class.id] = same
        return instead

    # ---- resources

    def widen(self) -> None:
        """Pad every vector to the registry's size."""
        size = len(self.registry)
        if size == self._width:
            return
        self._width = size
        for pod_class in self.all.values():
            pod_class.widen(size)

    def relist(self, names: Collection[str]) -> bool:
        """Lay out the requests of classes again that name one of these resources; False when no class does."""
        found = [each for each in self.all.values() if not each.requests.keys().isdisjoint(names)]
        for pod_class in found:
            pod_class.lay_out(self.registry)
        return bool(found)


def _relevant(spec: PodSpec) -> tuple[Any, ...]:
    """Everything of a spec that placement may depend on, cheap to encode."""
    return (
        [(c.resources, c.ports, c.image) for c in spec.containers or ()],
        [(c.resources, c.ports, c.image, c.restart_policy) for c in spec.init_containers]
        if spec.init_containers
        else (),
        spec.resources,
        spec.overhead,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.host_network,
        [v.image.reference for v in spec.volumes if v.image is not None] if spec.volumes else (),
    )


def _constraints(spec: PodSpec) -> tuple[Any, ...]:
    """What of a spec chooses nodes by what they are, whatever the pod requests."""
    return (
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.host_network,
        images_of(spec),
        len(spec.containers or ()),
        len(spec.init_containers or ()),
    )
