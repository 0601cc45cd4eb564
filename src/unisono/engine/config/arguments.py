"""Arguments of plug-ins and actions: what they are called, what they may hold, and which value holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

# The switches of a plug-in in Volcano's configuration file, and which hooks each one guards.
#
# The odd mixture of ``enable`` and ``enabled`` is the wire format of Volcano and is kept as it is.


@dataclass(frozen=True, slots=True)
class Flags:
    """Resolved switches of one configured plug-in; the defaults are those of a flag absent from a file."""

    job_order: bool = True
    hierarchy: bool = False
    job_ready: bool = True
    job_pipelined: bool = True
    task_order: bool = True
    preemptable: bool = True
    reclaimable: bool = True
    preemptive: bool = True
    queue_order: bool = True
    cluster_order: bool = False
    predicate: bool = True
    best_node: bool = True
    node_order: bool = True
    target_job: bool = True
    reserved_nodes: bool = True
    job_enqueued: bool = True
    victim: bool = True
    job_starving: bool = True
    overused: bool = True
    allocatable: bool = True
    hyper_node_order: bool = True
    sub_job_ready: bool = True
    sub_job_pipelined: bool = True
    sub_job_order: bool = True
    hyper_node_gradient: bool = True
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(tuple(getattr(self, name) for name in _names(type(self)))))

    def __hash__(self) -> int:
        """Worked out once: each session finds the hooks of its plug-ins by their switches."""
        return self._hash

    @classmethod
    def all_off(cls, switched: Mapping[str, bool]) -> Flags:
        """Every flag off except those of ``switched`` (wire key to value): how recorded cases are meant."""
        values = dict.fromkeys(_names(cls), False)
        values.update({FLAG_KEYS[key].attribute: value for key, value in switched.items()})
        return cls(**values)

    @classmethod
    def scoring(cls) -> Flags:
        """Of a plug-in that only scores nodes."""
        return cls.all_off({"enableNodeOrder": True, "enableBestNode": True, "enabledHyperNodeOrder": True})

    @classmethod
    def from_keys(cls, switched: Mapping[str, bool]) -> Flags:
        """The defaults of a configuration file, overridden by ``switched`` (wire key to value)."""
        return cls(**{FLAG_KEYS[key].attribute: value for key, value in switched.items()})


def _names(cls: type[Flags]) -> list[str]:
    return [each.name for each in fields(cls) if each.init]


@dataclass(frozen=True, slots=True)
class FlagKey:
    """One switch: its key in the file, its attribute of `Flags`, and the hooks it guards (Volcano's names)."""

    key: str
    attribute: str
    guards: str

    @property
    def default(self) -> bool:
        """What holds when the key is absent from a configuration file."""
        return bool(getattr(_DEFAULTS, self.attribute))


_DEFAULTS = Flags()

FLAG_KEYS: dict[str, FlagKey] = {
    flag.key: flag
    for flag in (
        FlagKey("enableJobOrder", "job_order", "JobOrder"),
        FlagKey("enableHierarchy", "hierarchy", "hierarchical queues of drf, capacity and nodegroup"),
        FlagKey("enableJobReady", "job_ready", "JobReady"),
        FlagKey("enableJobPipelined", "job_pipelined", "JobPipelined"),
        FlagKey("enableTaskOrder", "task_order", "TaskOrder"),
        FlagKey("enablePreemptable", "preemptable", "Preemptable"),
        FlagKey("enableReclaimable", "reclaimable", "Reclaimable"),
        FlagKey("enablePreemptive", "preemptive", "Preemptive"),
        FlagKey("enableQueueOrder", "queue_order", "QueueOrder"),
        FlagKey("enabledClusterOrder", "cluster_order", "ClusterOrder"),
        FlagKey("enablePredicate", "predicate", "PrePredicate, Predicate"),
        FlagKey("enableBestNode", "best_node", "BestNode"),
        FlagKey("enableNodeOrder", "node_order", "NodeOrder, BatchNodeOrder"),
        FlagKey("enableTargetJob", "target_job", "TargetJob"),
        FlagKey("enableReservedNodes", "reserved_nodes", "ReservedNodes"),
        FlagKey("enableJobEnqueued", "job_enqueued", "JobEnqueueable, JobEnqueued"),
        FlagKey("enabledVictim", "victim", "VictimTasks"),
        FlagKey("enableJobStarving", "job_starving", "JobStarving"),
        FlagKey("enabledOverused", "overused", "Overused"),
        FlagKey("enabledAllocatable", "allocatable", "Allocatable"),
        FlagKey("enabledHyperNodeOrder", "hyper_node_order", "HyperNodeOrder"),
        FlagKey("enabledSubJobReady", "sub_job_ready", "SubJobReady"),
        FlagKey("enabledSubJobPipelined", "sub_job_pipelined", "SubJobPipelined"),
        FlagKey("enabledSubJobOrder", "sub_job_order", "SubJobOrder"),
        FlagKey("enabledHyperNodeGradient", "hyper_node_gradient", "HyperNodeGradient"),
    )
}

_GO_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|[-+]?0")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value inside a map, a list or a text must be.

    Attributes:
        kind: as of an `Argument`, or ``any``.
        fields: what a map may hold, by key; None: any keys.
        each: every value of a map without ``fields``, or every element of a list.
        required: keys that a map must have.
        choices: the only values that are right; none: all are.
        least, most: bounds of a number.
        right: whether the value is right beyond that.
        form: the right form in words, for errors.
    """

    kind: str = "any"
    fields: Mapping[str, Shape] | None = None
    each: Shape | None = None
    required: tuple[str, ...] = ()
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    right: Callable[[Any], bool] | None = None
    form: str = ""


def one_of(*choices: str) -> Shape:
    """One of these texts."""
    return Shape("text", choices=choices)


PERCENT = Shape("int", least=0, most=100, form="a whole number of percent, 0 to 100")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Attributes:
        key: its key; a trailing ``*`` stands for any further text (``binpack.resources.*``).
        kind: ``bool``, ``int``, ``float``, ``text``, ``duration``, ``list``, ``map`` or ``quantity``.
        default: what holds when the key is absent.
        meaning: one line for the documentation.
        choices: the only texts that are right; none: all are.
        effective: False for keys that are accepted because Volcano has them, and that change nothing here.
        shape: what must hold inside the value, where ``kind`` does not say all.
    """

    key: str
    kind: str
    default: Any
    meaning: str
    effective: bool = True
    choices: tuple[str, ...] = ()
    shape: Shape | None = None

    def accepts(self, key: str) -> bool:
        """Whether ``key`` is this argument."""
        if self.key.endswith("*"):
            return key.startswith(self.key[:-1]) and len(key) >= len(self.key)
        return key == self.key


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types) and not isinstance(value, bool)


_MATCHES: dict[str, Callable[[Any], bool]] = {
    "any": lambda value: True,
    "bool": lambda value: isinstance(value, bool) or (isinstance(value, str) and value in _GO_BOOLS),
    "int": _is(int),
    "float": _is(int, float),
    "text": _is(str),
    "duration": lambda value: isinstance(value, str) and _DURATION.fullmatch(value) is not None,
    "list": _is(list),
    "map": _is(dict),
    "quantity": _is(str, int),
}


def matches_kind(kind: str, value: Any) -> bool:
    """Whether a YAML value can be read as ``kind`` (Volcano's readers: bools also as Go's bool texts)."""
    return _MATCHES[kind](value)


def read_bool(value: Any) -> bool:
    """A bool as Volcano's readers accept it."""
    return _GO_BOOLS[value] if isinstance(value, str) else bool(value)


def is_true(value: Any) -> bool:
    """Whether a value means true; one that is no bool does not."""
    return matches_kind("bool", value) and read_bool(value)


def argument_value(spec: Argument, given: Mapping[str, Any]) -> Any:
    """The value that holds for ``spec``: what is given where its type is right, else the default."""
    value = given.get(spec.key)
    if value is None or not matches_kind(spec.kind, value):
        return spec.default
    if spec.kind == "bool":
        return read_bool(value)
    return float(value) if spec.kind == "float" else value
