"""Nodes as columns of int64 arrays, in name order, with their facts and a label index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from sys import intern
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unisono.api.base import Quantity
from unisono.api.core import Node, Taint
from unisono.api.resources import resource_list
from unisono.cluster.devices import NO_DEVICES, DeviceCount
from unisono.cluster.floating import NO_FLOATING, Floating
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import LARGE, LargeSums, Matrix, ResourceRegistry, Vector, scheduled, total
from unisono.cluster.taints import Tolerance

ABSENT = -1
"""Label code of a node that lacks the key."""

PLENTY = LARGE - 1
"""What every node offers of a floating resource: which node a pod is on says nothing about it."""

Codes = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


class NodeSums(NamedTuple):
    """Sums over nodes, ``[R]`` each; usable nodes are ready and not cordoned.

    Attributes:
        allocatable: over all nodes.
        usable: the same over usable nodes.
        sharable: what queues can have: of usable nodes whose taints some pod of ours tolerates what pods outside all
            queues leave, and of the others what pods in queues hold there for good. A resource of which nothing would
            be left for the taints alone counts as if all were tolerated.
        promisable: the same as if all taints were tolerated and pods outside all queues were gone: what pods tolerate
            that are not made yet, nobody knows, and who scales the cluster must see that they wait.
        used: what is in use on usable nodes.
        releasing: whether any node has pods that are being deleted.

    Of floating resources, which lie on no node, the first four are what there is for pods of this cluster, and used is
    what is held on any node, or by a job as a whole.
    """

    allocatable: Vector
    usable: Vector
    sharable: Vector
    promisable: Vector
    used: Vector
    releasing: bool


def _devices(capacity: Mapping[str, Quantity] | None) -> dict[str, Quantity]:
    """Extended resources; of the others a node keeps some for itself."""
    return {name: amount for name, amount in (capacity or {}).items() if "/" in name}


class NodeFacts:
    """What is static about one node.

    Attributes:
        allocatable: by resource name in engine units.
        by_claims: those of them that the node does not report: devices of its ResourceSlices, which a pod has by a
            claim that stands for its limits.
        claimed: what is missing in ``allocatable`` because claims have it.
        labels, annotations: as on the object.
        taints: as on the spec.
        unschedulable: ``spec.unschedulable``.
        ready: condition Ready is True, or no Ready condition is reported.
        images: bytes by image name, as the node reports them.
        unhealthy: capacity of devices of which less is allocatable, by resource name in engine units.
    """

    __slots__ = (
        "allocatable", "annotations", "by_claims", "claimed", "images", "labels", "name", "ready", "taints", "uid",
        "unhealthy", "unschedulable",
    )  # fmt: skip

    def __init__(self, node: Node, devices: DeviceCount | None = None) -> None:
        self.name = node.metadata.name
        self.uid = node.metadata.uid or ""
        self.labels: Mapping[str, str] = node.metadata.labels or {}
        self.annotations: Mapping[str, str] = node.metadata.annotations or {}
        self.taints: tuple[Taint, ...] = tuple(node.spec.taints or ())
        self.unschedulable = bool(node.spec.unschedulable)
        self.ready = all(c.status == "True" for c in node.status.conditions or () if c.type == "Ready")
        self.images: dict[str, int] = {
            intern(name): image.size_bytes or 0 for image in node.status.images or () for name in image.names or ()
        }
        self.allocatable: dict[str, int] = scheduled(resource_list(node.status.allocatable))
        self.unhealthy: dict[str, int] = {
            name: amount
            for name, amount in resource_list(_devices(node.status.capacity)).items()
            if amount > self.allocatable.get(name, 0)
        }
        self._offer(devices or NO_DEVICES)

    def _offer(self, devices: DeviceCount) -> None:
        reported = self.allocatable
        self.by_claims: dict[str, int] = {
            name: amount for name, amount in devices.there.items() if not reported.get(name)
        }
        self.claimed: dict[str, int] = {
            name: min(amount, reported[name]) for name, amount in devices.claimed.items() if reported.get(name)
        }
        self.allocatable = (
            reported | self.by_claims | {name: reported[name] - amount for name, amount in self.claimed.items()}
        )

    def with_devices(self, devices: DeviceCount) -> NodeFacts:
        """The same node with other devices in its slices, or other claims for them."""
        fresh = copy(self)
        fresh.allocatable = {
            name: amount + self.claimed.get(name, 0)
            for name, amount in self.allocatable.items()
            if name not in self.by_claims
        }
        fresh._offer(devices)
        return fresh

    def same(self, other: NodeFacts) -> bool:
        """Whether nothing static differs (amounts included)."""
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


_LAID_OUT = ("allocatable", "used", "outside", "releasing", "nonzero", "taint_codes", "unschedulable", "ready")
"""Arrays of a table of nodes that are moved as nodes come and go."""


class NodeTable:
    """All known nodes; column ``i`` of every array is ``names[i]``, and names are sorted.

    Added and removed nodes take effect in `settle`, which lays the arrays out again and moves ``layout``. A change of
    one node's facts moves ``generation`` and sets ``changed[i]`` to it, so that cached results can be brought up to
    date for the changed columns only.

    Attributes:
        allocatable, used, releasing: ``[R, N]``; used counts every pod that occupies the node, releasing those of
            them that are being deleted.
        outside: ``[R, N]`` the part of used that pods hold which are in no queue: no eviction frees it.
        tolerance: which taints some pod of ours tolerates.
        nonzero: ``[2, N]`` sum of the pods' `PodClass.nonzero`.
        taint_codes: ``[N]`` index into ``taint_sets``.
        unschedulable, ready: ``[N]`` bools.
        columns: ``[N]`` the numbers of all columns, read only.
        image_nodes: number of nodes that have an image, by its name.
        floating: floating resources by row, as `float` was told them.
    """

    def __init__(self, registry: ResourceRegistry) -> None:
        self.registry = registry
        self.facts: list[NodeFacts] = []
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.layout = 0
        self.generation = 0
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self._taint_keys: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._columns: dict[str, Codes] = {}
        self._codes: dict[str, dict[str, int]] = {}
        self._present: dict[str, tuple[int, list[str]]] = {}
        self._wanted: dict[str, NodeFacts] = {}
        self.image_nodes: dict[str, int] = {}
        self._image_sizes: dict[str, int] = {}
        self._label_nodes: dict[str, int] = {}
        self._stale = False
        self._large: LargeSums[tuple[str, str]] = LargeSums()
        self.tolerance = Tolerance()
        self.floating: dict[int, Floating] = {}
        self._allocate(0)

    def __len__(self) -> int:
        return len(self.names)

    def _allocate(self, size: int) -> None:
        rows = len(self.registry)
        self.allocatable: Matrix = np.zeros((rows, size), dtype=np.int64)
        self.used: Matrix = np.zeros((rows, size), dtype=np.int64)
        self.outside: Matrix = np.zeros((rows, size), dtype=np.int64)
        self.releasing: Matrix = np.zeros((rows, size), dtype=np.int64)
        self.nonzero: Matrix = np.zeros((2, size), dtype=np.int64)
        self.changed: npt.NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        self.taint_codes: Codes = np.zeros(size, dtype=np.int32)
        self.unschedulable: Flags = np.zeros(size, dtype=np.bool_)
        self.ready: Flags = np.zeros(size, dtype=np.bool_)
        self._sums: NodeSums | None = None
        self._tolerated = -1
        self.columns: npt.NDArray[np.intp] = np.arange(size, dtype=np.intp)
        self.columns.flags.writeable = False  # every session shows it to plug-ins
        self.allocatable[self.registry.floating] = PLENTY
        self._absent: Codes = np.full(size, ABSENT, dtype=np.int32)
        self._absent.flags.writeable = False

    # ---- sums

    def sums(self) -> NodeSums:
        """Sums over the nodes as they are; found out once for as long as nothing changes."""
        if self._sums is None or self._tolerated != self.tolerance.version:
            self._tolerated = self.tolerance.version
            usable = self.ready & ~self.unschedulable
            whole = total(self.allocatable, 1)
            some, used = whole, self.used
            if not usable.all():
                some, used = total(self.allocatable[:, usable], 1), self.used[:, usable]
            outside = np.minimum(self.outside, self.allocatable) if self.outside.any() else None
            promisable = sharable = self._shared(usable)
            if outside is not None:
                sharable = self._shared(usable, outside)
            shut = self._shut()
            if shut.any():
                tolerated = self._shared(usable & ~shut, outside)
                sharable = np.where(tolerated > 0, tolerated, sharable)
            totals = NodeSums(whole, some, sharable, promisable, total(used, 1), bool(self.releasing.any()))
            self._sums = self._with_floating(totals) if self.registry.floating else totals
        return self._sums

    def _with_floating(self, sums: NodeSums) -> NodeSums:
        """The same sums with floating resources in the place of what nodes pretend to have of them."""
        whole, usable, sharable, promisable, used = (each.copy() for each in sums[:5])
        for row in self.registry.floating:
            if row >= len(whole):
                continue
            one = self.floating.get(row, NO_FLOATING)
            whole[row] = usable[row] = promisable[row] = one.most
            sharable[row] = max(one.most - int(self.outside[row].sum()), 0)
            used[row] = self.used[row].sum() + one.by_jobs
        return NodeSums(whole, usable, sharable, promisable, used, sums.releasing)

    def float(self, floating: Mapping[int, Floating]) -> None:
        """Exactly these floating resources exist, by row."""
        if self.floating != floating:
            self.floating = dict(floating)
            self._sums = None

    def _shared(self, usable: Flags, outside: Matrix | None = None) -> Vector:
        """``[R]`` what pods in queues can have: of usable nodes all but ``outside``, of others what they hold.

        A pod that terminates there holds it for nobody after it, and is in no queue's allocated sum any more.
        """
        there = self.allocatable if outside is None else self.allocatable - outside
        if not usable.all():
            held = self.used - self.outside - self.releasing
            there = np.where(usable, there, np.minimum(held.clip(min=0), there))
        return total(there, 1)

    def opens(self) -> Flags:
        """``[N]`` nodes of which queues share more than their pods hold there: ready, not cordoned, and tolerated."""
        return np.asarray(self.ready & ~self.unschedulable & ~self._shut())

    def _shut(self) -> Flags:
        """``[N]`` nodes whose taints no pod of ours tolerates."""
        if len(self.taint_sets) == 1:
            return np.zeros(len(self.names), dtype=np.bool_)
        shut = np.array([not self.tolerance.covers(taints) for taints in self.taint_sets], dtype=np.bool_)
        return np.asarray(shut[self.taint_codes], dtype=np.bool_)

    # ---- changes

    def put(self, facts: NodeFacts) -> bool:
        """Add or change a node; False when nothing static differs."""
        old = self._wanted.get(facts.name)
        if old is not None and old.same(facts):
            return False
        self.registry.check(facts.allocatable)
        self._count_names(old, facts)
        self._wanted[facts.name] = facts
        for name in facts.allocatable:
            self.registry.row(name)
        row = self.index.get(facts.name)
        if row is None:
            self._stale = True
        else:
            self.widen()
            self._fill(row, facts)
        return True

    def remove(self, name: str) -> bool:
        """Forget a node; False when it was unknown."""
        old = self._wanted.pop(name, None)
        if old is None:
            return False
        self._count_names(old, None)
        self._stale = True
        return True

    def _count_names(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        """Keep count of on how many nodes each image and each label key is."""
        self._image_sizes.clear()
        for facts, sign in ((old, -1), (new, 1)):
            for numbers, names in () if facts is None else self._named(facts):
                for name in names:
                    number = numbers[name] = numbers.get(name, 0) + sign
                    if not number:
                        del numbers[name]

    def _named(self, facts: NodeFacts) -> tuple[tuple[dict[str, int], Collection[str]], ...]:
        return (self.image_nodes, facts.images), (self._label_nodes, facts.labels)

    def images_known(self, names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
        """On how many nodes each of the images is, and its size in bytes; empty when none is anywhere."""
        if not names or self.image_nodes.keys().isdisjoint(names):
            return ()
        return tuple((self.image_nodes.get(name, 0), self.image_size(name)) for name in names)

    def image_size(self, name: str) -> int:
        """Bytes of an image, 0 when no node has it: one size for all nodes, as kube-scheduler takes it.

        Nodes report the same image with different sizes (compressed or not, with or without shared layers). The first
        node by name decides: a restart lists nodes in that order, and there kube-scheduler takes the order of arrival.
        """
        size = self._image_sizes.get(name)
        if size is None:
            size = next((facts.images[name] for facts in self.facts if name in facts.images), 0)
            self._image_sizes[name] = size
        return size

    def facts_of(self, name: str) -> NodeFacts | None:
        """What is known of a node, settled or not."""
        return self._wanted.get(name)

    def wanted(self) -> list[str]:
        """Names of all nodes that have been seen and not deleted, settled or not."""
        return list(self._wanted)

    def settle(self, moved_in: Callable[[list[str]], None]) -> None:
        """Lay the arrays out for the present set of nodes.

        Args:
            moved_in: called with the names of nodes that are new, to add their pods with `occupy_all`.
        """
        if not self._stale:
            self.widen()
            return
        self._stale = False
        old_index, old = self.index, {name: getattr(self, name) for name in _LAID_OUT}
        self.names = sorted(self._wanted)
        self.index = {name: row for row, name in enumerate(self.names)}
        self.layout += 1
        self.generation += 1
        self._allocate(len(self.names))
        self._columns.clear()
        self._codes.clear()  # values of nodes that no longer exist must not add up
        self.facts = [self._wanted[name] for name in self.names]
        self._image_sizes.clear()
        kept = [(row, old_index[name]) for name, row in self.index.items() if name in old_index]
        if kept:
            to, origin = (np.array(part, dtype=np.intp) for part in zip(*kept, strict=True))
            for name, before in old.items():
                getattr(self, name)[..., to] = _with_rows(before, getattr(self, name))[..., origin]
        for row, name in enumerate(self.names):
            if name not in old_index:
                self._fill(row, self.facts[row], moves=False)
        self._number_taints()
        self.changed[:] = self.generation
        for name in old_index.keys() - self.index.keys():
            for part in ("used", "outside", "nonzero", "releasing"):
                self._large.drop((name, part))
        moved_in([name for name in self.names if name not in old_index])

    def _number_taints(self) -> None:
        """Number the sets of taints that nodes have, in the order of the nodes; the empty one stays the first."""
        sets = self.taint_sets
        codes, first, inverse = np.unique(self.taint_codes, return_index=True, return_inverse=True)
        self.taint_sets, self._taint_keys = [()], {(): 0}
        fresh = np.zeros(len(codes), dtype=np.int32)
        for at in np.argsort(first).tolist():
            fresh[at] = self._taint_code(sets[codes[at]])
        self.taint_codes = fresh[inverse.reshape(-1)]

    def clear_pods(self) -> None:
        """Take all pods off all nodes."""
        self._sums = None
        self._large = LargeSums()
        self.tolerance = Tolerance()
        for array in (self.used, self.outside, self.releasing, self.nonzero):
            array[:] = 0

    def occupy(self, name: str, pod_class: PodClass, sign: int, *, releasing: bool, outside: bool = False) -> None:
        """Add (``sign`` 1) or take away (-1) one pod; a node that is unknown or not settled yet is left alone.

        ``outside`` says that the pod is in no queue.
        """
        row = self.index.get(name)
        if row is None:
            return
        vector = pod_class.vector
        if len(vector) > len(self.used):
            self.widen()
        self._sums = None
        if not (pod_class.large or releasing or outside):  # nearly always
            self.used[: len(vector), row] += sign * vector
            self.nonzero[:, row] += sign * pod_class.nonzero
            return
        parts = {"used": vector, "nonzero": pod_class.nonzero}
        if releasing:
            parts["releasing"] = vector
        if outside:
            parts["outside"] = vector
        for part, amounts in parts.items():
            change = self._large.move((name, part), amounts, sign) if pod_class.large else sign * amounts
            getattr(self, part)[: len(amounts), row] += change

    def occupy_all(self, names: Sequence[str], pod_class: PodClass, *, releasing: bool, outside: bool = False) -> None:
        """Add pods of one class, one on each entry of ``names``, in one pass: for state that is built from lists."""
        if pod_class.large:
            for name in names:
                self.occupy(name, pod_class, 1, releasing=releasing, outside=outside)
            return
        numbers = np.bincount([self.index[name] for name in names], minlength=len(self.names)).astype(np.int64)
        vector = pod_class.vector
        if len(vector) > len(self.used):
            self.widen()
        self._sums = None
        parts = [self.used, *([self.releasing] if releasing else ()), *([self.outside] if outside else ())]
        for row in pod_class.rows.tolist():
            for part in parts:
                part[row] += vector[row] * numbers
        self.nonzero += pod_class.nonzero[:, None] * numbers

    def widen(self) -> None:
        """Give every array as many rows as the registry has."""
        missing = len(self.registry) - len(self.allocatable)
        if missing > 0:
            self._sums = None
            pad = np.zeros((missing, len(self.names)), dtype=np.int64)
            self.allocatable = np.vstack((self.allocatable, pad))
            self.allocatable[self.registry.floating] = PLENTY
            self.used = np.vstack((self.used, pad))
            self.outside = np.vstack((self.outside, pad))
            self.releasing = np.vstack((self.releasing, pad))

    def variant(self, changed: Mapping[str, NodeFacts] | None = None) -> NodeTable:
        """A table with the same pods and with ``changed`` nodes, known or new (and empty); this one is left alone.

        Without changes the static parts are shared, and only what pods occupy is a copy.
        """
        if not changed:
            fork = copy(self)
            for name in ("used", "outside", "releasing", "nonzero"):
                setattr(fork, name, getattr(self, name).copy())
            fork._large = self._large.copy()
            return fork
        fork = copy(self)
        fork._wanted, fork.image_nodes = dict(self._wanted), dict(self.image_nodes)
        fork._label_nodes, fork._image_sizes = dict(self._label_nodes), {}
        fork._columns, fork._codes, fork._present, fork._taint_keys = {}, {}, {}, dict(self._taint_keys)
        fork.facts, fork.taint_sets, fork._large = list(self.facts), list(self.taint_sets), self._large.copy()
        for name in (*_LAID_OUT, "changed"):
            setattr(fork, name, getattr(self, name).copy())
        for facts in changed.values():
            fork.put(facts)
        fork._stale = True  # as if all of its nodes had been put in one after the other
        fork.settle(lambda _: None)
        return fork

    def _fill(self, row: int, facts: NodeFacts, *, moves: bool = True) -> None:
        self._sums = None
        self.facts[row] = facts
        self.allocatable[:, row] = 0
        for name, amount in facts.allocatable.items():
            self.allocatable[self.registry.row(name), row] = amount
        self.allocatable[[each for each in self.registry.floating if each < len(self.allocatable)], row] = PLENTY
        self.unschedulable[row] = facts.unschedulable
        self.ready[row] = facts.ready
        self.taint_codes[row] = self._taint_code(facts.taints)
        for key, column in self._columns.items():
            column[row] = self._code_of(key, facts)
        if moves:
            self.generation += 1
            self.changed[row] = self.generation

    def _taint_code(self, taints: tuple[Taint, ...]) -> int:
        key = tuple((t.key or "", t.value or "", t.effect or "") for t in taints)
        code = self._taint_keys.get(key)
        if code is None:
            code = self._taint_keys[key] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return code

    # ---- label index

    def label_column(self, key: str) -> Codes:
        """``[N]`` codes of the values of label ``key``; `ABSENT` where a node lacks it. Do not change it."""
        column = self._columns.get(key)
        if column is None:
            if key not in self._label_nodes:  # pods may ask for any number of keys
                return self._absent
            column = np.fromiter((self._code_of(key, f) for f in self.facts), dtype=np.int32, count=len(self.facts))
            self._columns[key] = column
        return column

    def label_code(self, key: str, value: str) -> int:
        """Code of a value of ``key``, or -2 (equal to no column entry) when no node has it."""
        self.label_column(key)
        return self._codes.get(key, {}).get(value, -2)

    def label_values(self, key: str) -> list[str]:
        """Values of ``key`` by code."""
        self.label_column(key)
        return list(self._codes.get(key, {}))

    def present_values(self, key: str) -> list[str]:
        """Values of ``key`` that nodes have now, in order; read only."""
        if key not in self._label_nodes:  # pods may ask for any number of keys
            return []
        generation, values = self._present.get(key, (-1, []))
        if generation != self.generation:
            codes, values_by_code = np.flatnonzero(np.bincount(self.label_column(key) + 1)[1:]), self.label_values(key)
            values = sorted(values_by_code[code] for code in codes.tolist())
            self._present[key] = self.generation, values
        return values

    def label_keys(self) -> list[str]:
        """Keys of all labels that nodes have."""
        return list(self._label_nodes)

    def label_domains(self, key: str) -> int:
        """Number of values of ``key`` that nodes have had since the layout moved; codes are below it."""
        self.label_column(key)
        return len(self._codes.get(key, {}))

    def _code_of(self, key: str, facts: NodeFacts) -> int:
        value = facts.labels.get(key)
        if value is None:
            return ABSENT
        codes = self._codes.setdefault(key, {})
        return codes.setdefault(value, len(codes))


def _with_rows(before: npt.NDArray[Any], like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array with as many rows as another one, which may have more; those are 0."""
    missing = len(like) - len(before) if before.ndim > 1 else 0
    return before if not missing else np.vstack((before, np.zeros((missing, before.shape[1]), dtype=before.dtype)))
