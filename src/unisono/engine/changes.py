"""Changes that would start a waiting job: a closed list, for people (`text`) and for programs (the fields).

Amounts are in engine units by resource name.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unisono.api.messages import counted, plural
from unisono.api.quantity import Rounding
from unisono.api.queues import JOBS
from unisono.api.resources import by_importance, readable

_MOST_NAMES = 3
_CLAIMS = {"PersistentVolumeClaim": "claim", "ResourceClaim": "resource claim"}


class LowerMinAvailable(msgspec.Struct, frozen=True):
    """Let the gang start with fewer members (its minResources shrink in proportion)."""

    to: int

    def text(self) -> str:
        """For people."""
        return f"lower minAvailable to {self.to}"


class AddNodes(msgspec.Struct, frozen=True):
    """Add empty nodes like one that exists: same labels (but the host name), taints and amounts."""

    like: str
    count: int

    def text(self) -> str:
        """For people."""
        return f"add {counted(self.count, 'node')} like {self.like}"


class RequestAtMost(msgspec.Struct, frozen=True):
    """Let each pod of the job request no more than ``amounts`` of these resources."""

    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        return f"request at most {amounts_text(self.amounts, 'down')} per pod"


class RaiseCapability(msgspec.Struct, frozen=True):
    """Raise ``spec.capability`` of a queue by ``amounts``."""

    queue: str
    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        return f"raise the capability of queue {self.queue}: {_by(self.amounts)}"


class RaiseQuota(msgspec.Struct, frozen=True):
    """Raise ``spec.hard`` of a ResourceQuota in the job's namespace by ``amounts``; missing pods are created then."""

    quota: str
    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        return f"raise the resource quota {self.quota}: {_by(self.amounts)}"


class RaiseDeserved(msgspec.Struct, frozen=True):
    """Raise ``spec.deserved`` of a queue by ``amounts``."""

    queue: str
    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        return f"raise what queue {self.queue} deserves: {_by(self.amounts)}"


class LowerGuarantee(msgspec.Struct, frozen=True):
    """Lower ``spec.guarantee.resource`` of a queue by ``amounts``: what it does not use is for others then."""

    queue: str
    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        return f"lower the guarantee of queue {self.queue}: {_by(self.amounts)}"


class RaiseWeight(msgspec.Struct, frozen=True):
    """Give a queue another ``spec.weight``, and so a larger share of the cluster."""

    queue: str
    weight: int

    def text(self) -> str:
        """For people."""
        return f"raise the weight of queue {self.queue} to {self.weight}"


class RaiseQueuePriority(msgspec.Struct, frozen=True):
    """Give a queue another ``spec.priority``: it is served before queues of a lower one, whatever all of them hold."""

    queue: str
    priority: int

    def text(self) -> str:
        """For people."""
        return f"serve queue {self.queue} before others (priority {self.priority})"


class OpenQueue(msgspec.Struct, frozen=True):
    """Open a closed queue."""

    queue: str

    def text(self) -> str:
        """For people."""
        return f"open queue {self.queue}"


class CreateQueue(msgspec.Struct, frozen=True):
    """Create a queue (weight 1, no limits), and open it."""

    queue: str

    def text(self) -> str:
        """For people."""
        return f"create queue {self.queue}"


class CreatePods(msgspec.Struct, frozen=True):
    """Create more pods like those that the job has."""

    count: int

    def text(self) -> str:
        """For people."""
        return f"create {self.count} more {plural(self.count, 'pod')}"


class RemoveGates(msgspec.Struct, frozen=True):
    """Remove the scheduling gates of pods of the job (``namespace/name``)."""

    pods: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        return f"remove the scheduling gates of {listed(self.pods)}"


class Uncordon(msgspec.Struct, frozen=True):
    """Let nodes take pods again."""

    nodes: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        return f"uncordon {listed(self.nodes)}"


class AddLabels(msgspec.Struct, frozen=True):
    """Put labels on nodes."""

    nodes: tuple[str, ...]
    labels: Mapping[str, str]

    def text(self) -> str:
        """For people."""
        labels = ", ".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        return f"label {listed(self.nodes)} with {labels}"


class AddToleration(msgspec.Struct, frozen=True):
    """Let the job's pods tolerate a taint (operator Equal)."""

    key: str
    value: str
    effect: str

    def text(self) -> str:
        """For people."""
        taint = f"{self.key}={self.value}" if self.value else self.key
        return f"let its pods tolerate the taint {taint}:{self.effect}"


class RelaxRule(msgspec.Struct, frozen=True):
    """Turn what the job's pods require of other pods or of their nodes into a preference.

    ``rule``: ``podAffinity``, ``podAntiAffinity``, ``topologySpreadConstraints``, ``nodeAffinity`` or ``nodeSelector``.
    """

    rule: str

    def text(self) -> str:
        """For people."""
        return f"make the {self.rule} that its pods require a preference"


class AllowTier(msgspec.Struct, frozen=True):
    """Raise the highest HyperNode tier that the job, and its sub-groups where they are bounded, may span."""

    tier: int

    def text(self) -> str:
        """For people."""
        return f"set highestTierAllowed to {self.tier}"


class ReleasePort(msgspec.Struct, frozen=True):
    """End the pods that hold a host port where the job could run."""

    port: int
    pods: tuple[str, ...]
    nodes: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        taken = f"port {self.port} is taken on {_noun('node', self.nodes)} by {_noun('pod', self.pods)}"
        return f"{taken}; wait for {'it' if len(self.pods) == 1 else 'them'}, or use another port"


class WaitFor(msgspec.Struct, frozen=True):
    """Nothing needs to change: the job starts when these pods have ended."""

    pods: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        return f"wait until {listed(self.pods)} {'has' if len(self.pods) == 1 else 'have'} ended"


class EvictPods(msgspec.Struct, frozen=True):
    """End these pods; they do not come back before the job has started."""

    pods: tuple[str, ...]

    def text(self) -> str:
        """For people."""
        return f"end {listed(self.pods)}"


class AddAnnotation(msgspec.Struct, frozen=True):
    """Give the job's pods an annotation that a plug-in asks for."""

    key: str
    value: str

    def text(self) -> str:
        """For people."""
        return f'annotate its pods with {self.key}: "{self.value}"'


class UseQueue(msgspec.Struct, frozen=True):
    """Name another queue, which exists and is open, in the job."""

    queue: str

    def text(self) -> str:
        """For people."""
        return f"name queue {self.queue} in spec.queue"


class UseRole(msgspec.Struct, frozen=True):
    """Name another role, which pods have, in minTaskMember."""

    name: str
    instead: str

    def text(self) -> str:
        """For people."""
        return f"name role {self.instead} in minTaskMember in place of {self.name}"


class UseResource(msgspec.Struct, frozen=True):
    """Let the job's pods request ``instead`` where they request ``name``, which no node has."""

    name: str
    instead: str

    def text(self) -> str:
        """For people."""
        return f"request {self.instead} in place of {self.name}"


class UseLabel(msgspec.Struct, frozen=True):
    """Let the job's pods select nodes by another label than ``key=value``, which no node has; ``""``: by one more."""

    instead_key: str
    instead_value: str
    key: str = ""
    value: str = ""

    def text(self) -> str:
        """For people."""
        what = f"select nodes by {self.instead_key}={self.instead_value}"
        return f"{what} in place of {self.key}={self.value}" if self.key else what


class UsePriority(msgspec.Struct, frozen=True):
    """Give the job a PriorityClass that exists and is higher than its own."""

    priority_class: str

    def text(self) -> str:
        """For people."""
        return f"give it the priority class {self.priority_class}"


class UseClaim(msgspec.Struct, frozen=True):
    """Let the job's pods name claim ``instead``, which exists; ``of``: PersistentVolumeClaim or ResourceClaim."""

    of: str
    name: str
    instead: str

    def text(self) -> str:
        """For people."""
        return f"name {_CLAIMS[self.of]} {self.instead} in the pods"


class CreateClaim(msgspec.Struct, frozen=True):
    """Create a PersistentVolumeClaim in the job's namespace; its size and class are for its owner to say."""

    name: str

    def text(self) -> str:
        """For people."""
        return f"create claim {self.name}"


class UseStorageClass(msgspec.Struct, frozen=True):
    """Let a PersistentVolumeClaim that is not bound name a storage class that exists."""

    claim: str
    storage_class: str

    def text(self) -> str:
        """For people."""
        return f"name storage class {self.storage_class} in claim {self.claim}"


class UseDeviceClass(msgspec.Struct, frozen=True):
    """Let a ResourceClaim name a device class that exists; with ``template`` that, and all claims made from it."""

    claim: str
    name: str
    instead: str
    template: str = ""

    def text(self) -> str:
        """For people."""
        where = f"template {self.template}" if self.template else self.claim
        return f"name device class {self.instead} in resource claim {where}"


class SetMinResources(msgspec.Struct, frozen=True):
    """State in minResources what the gang's pods ask for."""

    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        return f"set minResources to {amounts_text(self.amounts, 'up')}"


class PassOver(msgspec.Struct, frozen=True):
    """Let jobs of a queue start before one that comes first and cannot (``dequeueStrategy: traverse``)."""

    queue: str

    def text(self) -> str:
        """For people."""
        return f"set dequeueStrategy of queue {self.queue} to traverse"


class RaiseUserLimits(msgspec.Struct, frozen=True):
    """Raise what a queue lets each user hold (annotation ``unisono.io/user-limits``) by ``amounts``.

    ``jobs`` counts jobs.
    """

    queue: str
    amounts: Mapping[str, int]

    def text(self) -> str:
        """For people."""
        jobs = {name: f"jobs by {amount}" for name, amount in self.amounts.items() if name == JOBS}
        others = _by({name: amount for name, amount in self.amounts.items() if name != JOBS})
        return f"raise the user limits of queue {self.queue}: {', '.join(filter(None, (*jobs.values(), others)))}"


class AllowReclaim(msgspec.Struct, frozen=True):
    """Let other queues take back what a queue holds beyond its share (``spec.reclaimable: true``)."""

    queue: str

    def text(self) -> str:
        """For people."""
        return f"make queue {self.queue} reclaimable"


class UseNodeGroup(msgspec.Struct, frozen=True):
    """Let a queue's affinity name a group of nodes that exists."""

    queue: str
    name: str
    instead: str

    def text(self) -> str:
        """For people."""
        return f"name node group {self.instead} in the affinity of queue {self.queue}"


class Together(msgspec.Struct, frozen=True):
    """Several changes, none of which is enough without the others."""

    changes: tuple[Change, ...]

    def text(self) -> str:
        """For people."""
        return " and ".join(change.text() for change in self.changes)


Change = (
    LowerMinAvailable
    | AddNodes
    | RequestAtMost
    | RaiseCapability
    | RaiseQuota
    | RaiseDeserved
    | RaiseWeight
    | RaiseQueuePriority
    | OpenQueue
    | CreateQueue
    | CreatePods
    | RemoveGates
    | Uncordon
    | AddLabels
    | AddToleration
    | RelaxRule
    | AllowTier
    | ReleasePort
    | WaitFor
    | EvictPods
    | UseQueue
    | UseResource
    | UseLabel
    | UsePriority
    | UseClaim
    | CreateClaim
    | UseStorageClass
    | UseDeviceClass
    | SetMinResources
    | PassOver
    | RaiseUserLimits
    | LowerGuarantee
    | AddAnnotation
    | UseRole
    | AllowReclaim
    | UseNodeGroup
    | Together
)


def amounts_text(amounts: Mapping[str, int], rounding: Rounding = "nearest") -> str:
    """``cpu 2, memory 4Gi``."""
    told = readable(amounts, rounding)
    return ", ".join(f"{name} {told[name]}" for name in sorted(told, key=by_importance))


def _by(amounts: Mapping[str, int]) -> str:
    told = readable(amounts, "up")
    return ", ".join(f"{name} by {told[name]}" for name in sorted(told, key=by_importance))


def listed(names: tuple[str, ...]) -> str:
    """``a, b, c and 5 more``."""
    if len(names) <= _MOST_NAMES + 1:
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "nothing"
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"


def _noun(word: str, names: tuple[str, ...]) -> str:
    return f"{plural(len(names), word)} {listed(names)}"
