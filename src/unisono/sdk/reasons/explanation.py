"""What is known about why an object waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unisono.errors import UnisonoError
from unisono.sdk import foreign
from unisono.sdk.reasons.fleet_notes import FleetNotes
from unisono.sdk.reasons.group_verdicts import telling
from unisono.sdk.state.bound_pods import waiting_text

if TYPE_CHECKING:
    from unisono.api.verdict import Verdict
    from unisono.sdk.fixes.fix import Fix
    from unisono.sdk.reasons.failed_flows import FailedStep
    from unisono.sdk.reasons.failures import FailedPod
    from unisono.sdk.reasons.not_begun import Kept
    from unisono.sdk.reasons.refusals import Refusal
    from unisono.sdk.state.bound_pods import WaitingContainer
    from unisono.sdk.state.running import RunningNote
    from unisono.sdk.state.waiting import Misnamed, UnboundPod

_OF_POD = ('pods "', 'Pod "')
"""In what the server says of a pod; claims, PodGroups and Services are refused, too."""
_BY_SIGNAL = (137, 143)
"""Exit codes of containers that their node ends."""


class NothingToExplain(UnisonoError):
    """The object has nothing that could wait for a node."""


@dataclass(slots=True)
class Explanation:
    """What is known about why an object waits.

    Attributes:
        kind: of the object.
        name: of the object.
        title: ``job/train``.
        state: what the object itself says it is doing.
        verdicts: of its PodGroups that wait, as the scheduler wrote them.
        pods: pods without a node that no verdict speaks of.
        partly: its other pods are no concern of ``pods``.
        containers: containers of bound pods that wait on their nodes.
        suspended: the field that stops it.
        suspended_in: the object above it that has this field; empty where it has it itself.
        failures: pods that have failed.
        loops: pods with a container that fails and is started again and again.
        refused: pods that it wants and that the server does not let be created.
        gates: which of its pods have which scheduling gates.
        unseen: that no scheduler has looked at its PodGroup.
        failed_step: the job of a flow, where ``stalled`` is because of that.
        misnamed: the name in it that nothing has, where ``unseen`` or ``stalled`` is because of that.
        stalled: why it has neither pods nor PodGroups, where it should have.
        unready: which of its pods run and are not ready, and why.
        empty: the field by which it wants no pods.
        kept: who keeps it there.
        silent: that no scheduler is alive; ``verdicts`` is empty then, because what stood there may no longer hold.
        outdated: the verdicts that a scheduler wrote before it fell silent.
        configuration_error: why the scheduler refuses its newest configuration.
        warnings: fields of a queue that the scheduler's configuration does not enforce.
        running: what is worth knowing of its pods that run.
        fixes: ways out, the first one first, with the requests that carry them out.
        fleet: what a hub knows of its members about it.
        candidates: changes that may be part of a fix.
        then: why it goes on waiting after the first change, after the second, and so on, as a copy of the cluster
            has shown.
    """

    kind: str
    name: str
    title: str
    state: str
    verdicts: list[Verdict] = field(default_factory=list)
    pods: list[UnboundPod] = field(default_factory=list)
    containers: list[WaitingContainer] = field(default_factory=list)
    suspended: str = ""
    suspended_in: str = ""
    failures: list[FailedPod] = field(default_factory=list)
    loops: list[FailedPod] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    gates: str = ""
    unseen: str = ""
    stalled: str = ""
    unready: str = ""
    empty: str = ""
    silent: str = ""
    outdated: list[Verdict] = field(default_factory=list)
    configuration_error: str = ""
    warnings: list[str] = field(default_factory=list)
    running: list[RunningNote] = field(default_factory=list)
    fixes: list[Fix] = field(default_factory=list)
    partly: bool = False
    misnamed: Misnamed | None = None
    failed_step: FailedStep | None = None
    fleet: FleetNotes = field(default_factory=FleetNotes)
    candidates: list[Fix] = field(default_factory=list)
    then: list[str] = field(default_factory=list)
    kept: Kept | None = None

    def __post_init__(self) -> None:
        self.verdicts = telling(self.verdicts, self.refused)

    @property
    def waits(self) -> bool:
        """Whether it is for a scheduler to do something."""
        return bool(self.verdicts or self.pods or self.unseen or self.gates)

    def _first_loop(self) -> str:
        first = self.loops[0]
        pod = "" if self.kind == "Pod" else f" of pod {first.name}"
        return f"{self._failed_probe()}{first.cause}, in container {first.container}{pod}"

    def _failed_probe(self) -> str:
        """``Liveness probe failed: exit code 1: ``, where its node ends the container for that."""
        first = self.loops[0]
        if first.exit_code not in _BY_SIGNAL:
            return ""
        texts = (note.text for note in self.running if note.about == f"pod/{first.name}")
        probe = next((match for text in texts if (match := foreign.PROBE.search(text[: foreign.LONGEST]))), None)
        return f"{probe[1]}: " if probe is not None else ""

    @property
    def headline(self) -> str:
        """How it is doing, in one line; where verdicts say why it waits, the message of the first."""
        if self.verdicts and not self.silent and not self.suspended and not self.containers:
            return f"{self.title} waits: {self.verdicts[0].message}"
        return self.state_line

    @property
    def state_line(self) -> str:
        """How it is doing as far as no verdict tells it; empty where only verdicts do."""
        if self.silent:
            return f"{self.title} waits: {self.silent}; {self.state}."
        if self.suspended:
            where = f"{self.suspended_in}'s " if self.suspended_in else ""
            then = f" Then {self.then[0]}" if self.then else ""
            return f"{self.title} is suspended: {self.state}; it goes on when {where}{self.suspended} is false.{then}"
        if self.loops:
            return f"{self.title} fails again and again: {self._first_loop()}; {self.state}."
        if self.containers:
            return f"{self.title} waits on its node: {waiting_text(self.containers)}; {self.state}."
        if self.verdicts:
            return ""
        if self.refused:
            message = self.refused[0].message
            what = " for pods that the server refuses" if any(each in message for each in _OF_POD) else ""
            wrong = f"; {self.pods[0]}" if self.pods and self.pods[0].misnamed is not None else ""
            return f"{self.title} waits{what}: {message}; {self.state}{wrong}."
        if self.pods:
            for_one = f" for pod {self.pods[0].name}" if self.partly else ""
            return f"{self.title} waits{for_one}: {self.pods[0].why}; {self.state}."
        if self.stalled:
            return f"{self.title} waits: {self.stalled}; {self.state}{self._first_failure()}."
        if self.empty:
            kept = f", and {self.kept.why}" if self.kept is not None else ""
            return f"{self.title} wants no pods: {self.empty} is 0{kept}."
        if self.unseen:
            return f"{self.title} waits: {self.unseen}; {self.state}."
        if self.unready:
            return f"{self.title} waits: {self.unready}; {self.state}."
        return f"{self.title} does not wait: {self.state}{self._first_failure()}."

    def _first_failure(self) -> str:
        """What the pod that failed first said, unless that was said already."""
        first = self.failures[0] if self.failures else None
        return "" if first is None or first.cause in self.state else f"; pod {first.name} failed: {first.cause}"
