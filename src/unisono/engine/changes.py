"""Changes that would start a waiting job: a closed list, for people (`text`) and for programs (the fields).

Amounts are in engine units by resource name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from unisono.api import pod_edits
from unisono.api.messages import counted, plural
from unisono.api.pod_edits import Spec
from unisono.api.queues import JOBS
from unisono.api.resources import amounts_text

_MOST_NAMES = 3
_CLAIMS = {"PersistentVolumeClaim": "claim", "ResourceClaim": "resource claim"}


class Change(msgspec.Struct, frozen=True):
    """Something that is made different.

    ``words`` name its fields: amounts are those by which something is raised or lowered.
    """

    words: ClassVar[str] = ""

    def text(self) -> str:
        """For people."""
        return self.words.format_map({name: _told(getattr(self, name)) for name in self.__struct_fields__})


class OfPods(Change, frozen=True):
    """A change of the spec of each pod of the job."""

    running: ClassVar[bool] = False
    """Whether it counts for pods that have started already, too."""

    def edit(self, spec: Spec) -> None:
        """Make it in the spec of one pod, as JSON."""
        raise NotImplementedError


class LowerMinAvailable(Change, frozen=True):
    """Let the gang start with fewer members (its minResources shrink in proportion)."""

    words = "lower minAvailable to {to}"
    to: int


class AddNodes(Change, frozen=True):
    """Add empty nodes like one that exists: same labels (but the host name), taints and amounts."""

    like: str
    count: int

    def text(self) -> str:
        """For people."""
        return f"add {counted(self.count, 'node')} like {self.like}"


class RequestAtMost(OfPods, frozen=True):
    """Let each pod of the job request no more than ``amounts`` of these resources."""

    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        return f"request at most {amounts_text(self.amounts, 'down')} per pod"

    def edit(
        self,
        spec: Spec,
        overheads: Mapping[str, Mapping[str, Any]] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """See `pod_edits.request_at_most`."""
        pod_edits.request_at_most(spec, self.amounts, overheads, defaults)


class OfLimits(Change, frozen=True):
    """A change of limits of a queue or a ResourceQuota by ``amounts``.

    ``path``: to the limits in its spec, ``sign``: -1 where they become smaller.
    """

    path: ClassVar[tuple[str, ...]]
    sign: ClassVar[int] = 1

    def steps(self) -> dict[str, int]:
        """By how much each limit grows."""
        return {name: self.sign * amount for name, amount in getattr(self, "amounts").items()}  # noqa: B009


class RaiseCapability(OfLimits, frozen=True):
    """Raise ``spec.capability`` of a queue by ``amounts``."""

    path = ("capability",)
    words = "raise the capability of queue {queue}: {amounts}"
    queue: str
    amounts: Mapping[str, int]


class RaiseQuota(OfLimits, frozen=True):
    """Raise ``spec.hard`` of a ResourceQuota in the job's namespace by ``amounts``; missing pods are created then."""

    path = ("hard",)
    words = "raise the resource quota {quota}: {amounts}"
    quota: str
    amounts: Mapping[str, int]


class SetLicenses(Change, frozen=True):
    """Let there be ``to`` of a floating resource (``spec.amount``); it is created where there is none."""

    words = "set the amount of the floating resource {name} to {to}"
    name: str
    to: int


class RaiseBudget(Change, frozen=True):
    """Set these amounts of a Budget (``spec.amounts``): hours by resource, or money."""

    name: str
    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        amounts = [f"{to} {'money' if name == 'money' else f'hours of {name}'}" for name, to in self.amounts.items()]
        return f"raise budget {self.name} to {listed(tuple(amounts))}"


class RaiseDeserved(OfLimits, frozen=True):
    """Raise ``spec.deserved`` of a queue by ``amounts``."""

    path = ("deserved",)
    words = "raise what queue {queue} deserves: {amounts}"
    queue: str
    amounts: Mapping[str, int]


class LowerGuarantee(OfLimits, frozen=True):
    """Lower ``spec.guarantee.resource`` of a queue by ``amounts``: what it does not use is for others then."""

    path, sign = ("guarantee", "resource"), -1
    words = "lower the guarantee of queue {queue}: {amounts}"
    queue: str
    amounts: Mapping[str, int]


class OfQueueSpec(Change, frozen=True):
    """A change that writes fields of a queue's spec.

    ``spec``: the fields, each with its value where the change has no attribute of that name.
    """

    spec: ClassVar[Mapping[str, Any]]
    queue: str

    def fields(self) -> dict[str, Any]:
        """What it writes, as the API has it."""
        return {field: getattr(self, field, value) for field, value in self.spec.items()}


class RaiseWeight(OfQueueSpec, frozen=True):
    """Give a queue another ``spec.weight``, and so a larger share of the cluster."""

    words, spec = "raise the weight of queue {queue} to {weight}", {"weight": 1}
    weight: int


class RaiseQueuePriority(OfQueueSpec, frozen=True):
    """Give a queue another ``spec.priority``: it is served before queues of a lower one, whatever all of them hold."""

    words, spec = "serve queue {queue} before others (priority {priority})", {"priority": 0}
    priority: int


class OpenQueue(Change, frozen=True):
    """Open a closed queue."""

    words = "open queue {queue}"
    queue: str


class CreateQueue(Change, frozen=True):
    """Create a queue (weight 1, no limits), and open it."""

    words = "create queue {queue}"
    queue: str


class CreatePods(Change, frozen=True):
    """Create more pods like those that the job has."""

    count: int

    def text(self) -> str:
        """For people."""
        return f"create {self.count} more {plural(self.count, 'pod')}"


class RemoveGates(Change, frozen=True):
    """Remove the scheduling gates of pods of the job (``namespace/name``)."""

    words = "remove the scheduling gates of {pods}"
    pods: tuple[str, ...]


class Uncordon(Change, frozen=True):
    """Let nodes take pods again."""

    words = "uncordon {nodes}"
    nodes: tuple[str, ...]


class LiftQuarantine(Change, frozen=True):
    """Let nodes that failed a check, or that somebody took out, take pods again."""

    words = "lift the quarantine of {nodes}"
    nodes: tuple[str, ...]


class AddLabels(Change, frozen=True):
    """Put labels on nodes."""

    nodes: tuple[str, ...]
    labels: Mapping[str, str]

    def text(self) -> str:
        """For people."""
        labels = ", ".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        return f"label {listed(self.nodes)} with {labels}"


class AddToleration(OfPods, frozen=True):
    """Let the job's pods tolerate a taint (operator Equal)."""

    key: str
    value: str
    effect: str

    def text(self) -> str:
        """For people."""
        taint = f"{self.key}={self.value}" if self.value else self.key
        return f"let its pods tolerate the taint {taint}:{self.effect}"

    def edit(self, spec: Spec) -> None:
        """One more toleration, where none covers the taint."""
        pod_edits.tolerate(spec, self.key, self.value, self.effect)


class RelaxRule(OfPods, frozen=True):
    """Turn what the job's pods require of other pods or of their nodes into a preference.

    ``rule``: ``podAffinity``, ``podAntiAffinity``, ``topologySpreadConstraints``, ``nodeAffinity`` or ``nodeSelector``.
    """

    words, running = "make the {rule} that its pods require a preference", True  # those repel others by their own rule
    rule: str

    def edit(self, spec: Spec) -> None:
        """What is required becomes a preference, and a node selector goes."""
        pod_edits.relax(spec, self.rule)


class AllowTier(Change, frozen=True):
    """Raise the highest HyperNode tier that the job, and its sub-groups where they are bounded, may span."""

    words = "set highestTierAllowed to {tier}"
    tier: int


class ReleasePort(Change, frozen=True):
    """End the pods that hold a host port where the job could run."""

    port: int
    pods: tuple[str, ...]
    nodes: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        taken = f"port {self.port} is taken on {_noun('node', self.nodes)} by {_noun('pod', self.pods)}"
        return f"{taken}; wait for {'it' if len(self.pods) == 1 else 'them'}, or use another port"


class WaitFor(Change, frozen=True):
    """Nothing needs to change: the job starts when these pods have ended."""

    pods: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        return f"wait until {listed(self.pods)} {'has' if len(self.pods) == 1 else 'have'} ended"


class EvictPods(Change, frozen=True):
    """End these pods; they do not come back before the job has started."""

    words = "end {pods}"
    pods: tuple[str, ...]


class AddAnnotation(Change, frozen=True):
    """Give the job's pods an annotation that a plug-in asks for."""

    key: str
    value: str

    def text(self) -> str:
        """For people."""
        return f'annotate its pods with {self.key}: "{self.value}"'


class UseQueue(Change, frozen=True):
    """Name another queue, which exists and is open, in the job."""

    words = "name queue {queue} in spec.queue"
    queue: str


class UseRole(Change, frozen=True):
    """Name another role, which pods have, in minTaskMember."""

    words = "name role {instead} in minTaskMember in place of {name}"
    name: str
    instead: str


class UseResource(OfPods, frozen=True):
    """Let the job's pods request ``instead`` where they request ``name``, which no node has."""

    words = "request {instead} in place of {name}"
    name: str
    instead: str

    def edit(self, spec: Spec) -> None:
        """The same amounts of the other resource."""
        pod_edits.use_resource(spec, self.name, self.instead)


class UseLabel(OfPods, frozen=True):
    """Let the job's pods select nodes by another label than ``key=value``, which no node has.

    Without a ``key`` by one more, without an ``instead_key`` by one less.
    """

    instead_key: str
    instead_value: str
    key: str = ""
    value: str = ""

    def text(self) -> str:
        """For people."""
        if not self.instead_key:
            return f"no longer select nodes by {self.key}={self.value}"
        what = f"select nodes by {self.instead_key}={self.instead_value}"
        return f"{what} in place of {self.key}={self.value}" if self.key else what

    def edit(self, spec: Spec) -> None:
        """In the node selector and in each required term that names the label."""
        pod_edits.use_label(spec, self.key, self.value, self.instead_key, self.instead_value)


class UsePriority(Change, frozen=True):
    """Give the job a PriorityClass that exists and is higher than its own."""

    words = "give it the priority class {priority_class}"
    priority_class: str


class UseClaim(Change, frozen=True):
    """Let the job's pods name claim ``instead``, which exists; ``of``: PersistentVolumeClaim or ResourceClaim."""

    of: str
    name: str
    instead: str

    def text(self) -> str:
        """For people."""
        return f"name {_CLAIMS[self.of]} {self.instead} in the pods"


class CreateClaim(Change, frozen=True):
    """Create a PersistentVolumeClaim in the job's namespace; its size and class are for its owner to say."""

    words = "create claim {name}"
    name: str


class UseStorageClass(Change, frozen=True):
    """Let a PersistentVolumeClaim that is not bound name a storage class that exists."""

    words = "name storage class {storage_class} in claim {claim}"
    claim: str
    storage_class: str

    def edit(self, claim: dict[str, Any]) -> None:
        """Of the claim, as JSON: the class, and no volume of the old one."""
        claim["spec"]["storageClassName"] = self.storage_class
        claim["spec"].pop("volumeName", None)


class UseDeviceClass(Change, frozen=True):
    """Let a ResourceClaim name a device class that exists; with ``template`` that, and all claims made from it."""

    claim: str
    name: str
    instead: str
    template: str = ""

    def text(self) -> str:
        """For people."""
        where = f"template {self.template}" if self.template else self.claim
        return f"name device class {self.instead} in resource claim {where}"

    def edit(self, claim: dict[str, Any]) -> None:
        """Of the claim, or its template, as JSON."""
        for box, at in pod_edits.places(claim, ("deviceClassName",)):
            box[at] = self.instead if box[at] == self.name else box[at]


class SetMinResources(Change, frozen=True):
    """State in minResources what the gang's pods ask for."""

    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        return f"set minResources to {amounts_text(self.amounts, 'up')}"


class PassOver(OfQueueSpec, frozen=True):
    """Let jobs of a queue start before one that comes first and cannot (``dequeueStrategy: traverse``)."""

    words, spec = "set dequeueStrategy of queue {queue} to traverse", {"dequeueStrategy": "traverse"}


class RaiseUserLimits(Change, frozen=True):
    """Raise what a queue lets each user hold (annotation ``unisono.io/user-limits``) by ``amounts``.

    ``jobs`` counts jobs.
    """

    queue: str
    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        jobs = {name: f"jobs by {amount}" for name, amount in self.amounts.items() if name == JOBS}
        others = amounts_text({name: amount for name, amount in self.amounts.items() if name != JOBS}, "up", by=" by")
        return f"raise the user limits of queue {self.queue}: {', '.join(filter(None, (*jobs.values(), others)))}"


class AllowReclaim(OfQueueSpec, frozen=True):
    """Let other queues take back what a queue holds beyond its share (``spec.reclaimable: true``)."""

    words, spec = "make queue {queue} reclaimable", {"reclaimable": True}


class UseNodeGroup(Change, frozen=True):
    """Let a queue's affinity name a group of nodes that exists."""

    words = "name node group {instead} in the affinity of queue {queue}"
    queue: str
    name: str
    instead: str


class Together(Change, frozen=True):
    """Several changes, none of which is enough without the others."""

    changes: tuple[Change, ...]

    def text(self) -> str:
        """For people."""
        return " and ".join(change.text() for change in self.changes)


KINDS = tuple(
    one
    for one in tuple(vars().values())
    if isinstance(one, type) and issubclass(one, Change) and not one.__subclasses__()
)
"""All of them."""


def parts_of(change: Change) -> tuple[Change, ...]:
    """The changes that one consists of."""
    return change.changes if isinstance(change, Together) else (change,)


def _told(value: object) -> object:
    if isinstance(value, Mapping):
        return amounts_text(value, "up", by=" by")
    return listed(value) if isinstance(value, tuple) else value


def listed(names: tuple[str, ...]) -> str:
    """``a, b, c and 5 more``."""
    if len(names) <= _MOST_NAMES + 1:
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "nothing"
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"


def _noun(word: str, names: tuple[str, ...]) -> str:
    return f"{plural(len(names), word)} {listed(names)}"
