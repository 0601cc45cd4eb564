"""Has nodes checked between jobs, and takes those out that fail."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from unisono.api import node_checks
from unisono.api.annotations import NODE_CHECK, NODE_CHECKS, NODE_FAULTS, QUARANTINE
from unisono.api.base import Condition
from unisono.api.core import Node, Pod
from unisono.api.groups.health import NodeCheck, NodeCheckStatus
from unisono.api.kinds import NODE_CHECKS as CHECKS
from unisono.api.kinds import NODES, PODS
from unisono.api.node_faults import JOB_FAILURE, begun_again, faults_of, number
from unisono.api.pod_states import failed_on_its_node, has_ended
from unisono.api.resources import pod_requests
from unisono.api.times import rfc3339
from unisono.controllers.node_checks import decide
from unisono.controllers.node_scaling.shrink import is_of_node
from unisono.controllers.objects import LastWritten, write_status
from unisono.controllers.owners import index
from unisono.controllers.pod_facts import finished_at
from unisono.controllers.recorder import Recorder
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller, sooner

_USING, _FAILED, _CHECKING = "pods-using-node", "pods-failed-on-node", "pods-checking-node"
_SOON = 0.5
_AGAIN = 10.0
_marks = lru_cache(maxsize=65536)(node_checks.marks_of)


class NodeCheckController(Controller):
    """Looks at all nodes of one NodeCheck at once: how many may be checked, and may be out, is for all of them."""

    name = "node-check-controller"
    workers = 1

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on nodes and checks."""
        self._recorder = recorder
        self._written: LastWritten[NodeCheck] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch checks and nodes, and pods that use nodes, that have failed there, or that check them."""
        self._checks = context.watch(CHECKS, optional=True)
        self._nodes, self._pods = context.informer(NODES), context.informer(PODS)
        index(self._pods, _USING, _using)
        index(self._pods, _FAILED, _failed)
        index(self._pods, _CHECKING, _checking)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    def _node_changed(self, event: EventType, new: Node, old: Node | None) -> None:
        if len(self._checks) and (old is None or event == "DELETED" or _facts(new) != _facts(old)):
            self._look_again()

    def _pod_changed(self, event: EventType, new: Pod, old: Pod | None) -> None:
        if not len(self._checks):
            return
        if name := self._checked_by(new):
            self._context.enqueue(name)
        elif (old is None or event == "DELETED" or _stands(new) != _stands(old)) and (_using(new) or _failed(new)):
            self._look_again()

    def _look_again(self) -> None:
        for check in self._checks.items():
            self._context.enqueue(check.key, _SOON)

    async def reconcile(self, key: str) -> float | None:
        """Take the next steps on the nodes of one check."""
        check = self._written.newest(key, self._checks.get(key))
        if check is None or check.metadata.deletion_timestamp:
            return await self._forget(key, {})
        rule = node_checks.rule_of(check)
        now = float(int(self._clock.time()))  # as marks have it
        nodes = {
            each.metadata.name: each
            for each in self._nodes.items()
            if rule.means(each.metadata.name, each.metadata.labels or {}) and not each.metadata.deletion_timestamp
        }
        again = await self._forget(key, nodes)
        seen = {name: self._see(rule, node) for name, node in nodes.items()}
        planned = decide.plan(rule, list(seen.values()), now)
        again = sooner(again, planned.again)
        for step in planned.steps:
            again = sooner(again, await self._take(check, rule, nodes[step.node], step, now))
        taken = {step.node: step.mark for step in planned.steps}
        for name, node in nodes.items():
            mark = taken.get(name, seen[name].mark)
            again = sooner(again, await self._keep_pods(check, rule, node, mark, name in taken))
        after = [_after(rule, each, planned) for each in seen.values()]
        await self._write(check, rule, after, now)
        return again

    # ---- what is there

    def _see(self, rule: node_checks.CheckRule, node: Node) -> decide.Seen:
        name = node.metadata.name
        mark = _marks((node.metadata.annotations or {}).get(NODE_CHECKS)).get(rule.name)
        using = [pod for pod in self._jobs_pods(_USING, name) if _uses(rule, pod)]
        ends = [finished_at(pod) for pod in using if has_ended(pod)]
        fails = [finished_at(pod) for pod in self._jobs_pods(_FAILED, name)]
        checking = {pod.metadata.name: pod for pod in self._pods.by_index(_CHECKING, name) if self._checked_by(pod)}
        faults = faults_of(node.metadata.annotations)
        own = None
        if mark is not None and mark.state == node_checks.CHECKING:
            own_name = decide.pod_name(rule.name, name, node.metadata.uid or "", mark)
            own = checking.get(own_name)
        ready = all(each.status == "True" for each in node.status.conditions or () if each.type == "Ready")
        return decide.Seen(
            name,
            mark,
            node_checks.quarantined_by(node.spec.taints),
            any(not has_ended(pod) for pod in using),
            max(ends, default=-1.0),
            max(fails, default=-1.0),
            max((one.last for name, one in faults.items() if name != JOB_FAILURE), default=-1.0),
            number(faults, self._clock.time()),
            (node.metadata.annotations or {}).get(NODE_FAULTS, ""),
            ready and not node.spec.unschedulable,
            any(not has_ended(pod) and self._checked_by(pod) != rule.name for pod in checking.values()),
            own is not None,
            decide.outcome_of(own) if own is not None else None,
        )

    def _checked_by(self, pod: Pod) -> str:
        """The check that has made a pod, in its namespace; empty for those of jobs, for anybody may set the label."""
        check = self._checks.get(_claimed(pod))
        made = check is not None and pod.metadata.namespace == decide.pods_namespace(check) and _is_owned(pod, check)
        return check.metadata.name if check is not None and made else ""

    def _jobs_pods(self, index: str, node: str) -> list[Pod]:
        return [pod for pod in self._pods.by_index(index, node) if not self._checked_by(pod)]

    # ---- what is written

    async def _take(
        self, check: NodeCheck, rule: node_checks.CheckRule, node: Node, step: decide.Step, now: float
    ) -> float | None:
        marks = {**_marks((node.metadata.annotations or {}).get(NODE_CHECKS)), rule.name: step.mark}
        tries = f"{rule.tries} {'time' if rule.tries == 1 else 'times'}"
        if step.out:
            failed = f"NodeCheck {rule.name} failed {tries}, last at {rfc3339(now)}: {step.why}"
            why = f"faults were told of it: {step.why}" if step.faulty else failed
            patch = node_checks.taking_out(node, rule.name, why, now, marks)
        elif step.back:
            patch = node_checks.lifting(node, now, check=True)
        else:
            back = {QUARANTINE: None, NODE_FAULTS: begun_again(node.metadata.annotations, now)}
            notes = {
                NODE_CHECKS: node_checks.marks_text(marks),
                **(back if step.mark.state == node_checks.LIFTED else {}),
            }
            patch = {"metadata": {"resourceVersion": node.metadata.resource_version, "annotations": notes}}
        try:
            await self._client.patch(NODES, node.metadata.name, patch)
        except (Conflict, NotFound):
            return _SOON
        self._tell(check, rule, node, step, tries)
        return None

    def _tell(self, check: NodeCheck, rule: node_checks.CheckRule, node: Node, step: decide.Step, tries: str) -> None:
        name = node.metadata.name
        if step.out:
            failed = f"NodeCheck {rule.name} failed {tries}: {step.why}"
            cause = f"faults were told of it: {step.why} (NodeCheck {rule.name})" if step.faulty else failed
            words = f"{cause}; the node takes no jobs until"
            until = "its time is over" if rule.quarantine_seconds < float("inf") else f"'unisono node lift {name}'"
            self._recorder.event(node, "Warning", "NodeQuarantined", f"{words} {until}")
        elif step.mark.state == node_checks.KEPT:
            words = f"NodeCheck {rule.name} failed {tries}: {step.why}; as many nodes are out as may: it stays in use"
            self._recorder.event(node, "Warning", "NodeCheckFailed", words)
        elif step.mark.state == node_checks.CHECKING and step.why:
            words = f"NodeCheck {rule.name} failed: {step.why}; try {step.mark.attempt} of {rule.tries} begins"
            self._recorder.event(node, "Warning", "NodeCheckFailed", words)
        elif step.back or step.mark.state == node_checks.LIFTED:
            self._recorder.event(node, "Normal", "QuarantineLifted", f"of NodeCheck {rule.name}: {step.why}")

    async def _keep_pods(
        self, check: NodeCheck, rule: node_checks.CheckRule, node: Node, mark: node_checks.Mark | None, fresh: bool
    ) -> float | None:
        """The pod of the present try is there, and those of earlier ones are not; of a failure the last one stays."""
        name = node.metadata.name
        there = [pod for pod in self._pods.by_index(_CHECKING, name) if _is_owned(pod, check)]
        current_name = decide.pod_name(rule.name, name, node.metadata.uid or "", mark) if mark is not None else ""
        checking = mark is not None and mark.state == node_checks.CHECKING
        if mark is None or mark.state not in (node_checks.FAILED, node_checks.KEPT):
            for pod in there:
                own = checking and pod.metadata.name == current_name and self._checked_by(pod)
                if not own and not pod.metadata.deletion_timestamp:
                    await self._delete(pod)
        if (
            mark is None
            or not checking
            or any(pod.metadata.name == current_name and self._checked_by(pod) for pod in there)
        ):
            return None
        # The mark is read back before the pod is made: a write that was refused makes none.
        if fresh:
            return 0.0
        try:
            await self._client.create(PODS, decide.pod_of(check, rule, node, mark))
        except AlreadyExists:
            return None
        except ApiError as error:
            self._recorder.event(check, "Warning", "NodeCheckNotMade", f"node {name} cannot be checked: {error}")
            return _AGAIN
        return None

    async def _delete(self, pod: Pod) -> None:
        meta = pod.metadata
        try:
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return

    async def _forget(self, key: str, meant: Mapping[str, Node]) -> float | None:
        """Take the marks of nodes away that the check is not about any more; a quarantine stays until it is lifted."""
        again: float | None = None
        for node in self._nodes.items():
            marks = _marks((node.metadata.annotations or {}).get(NODE_CHECKS))
            if key not in marks or node.metadata.name in meant:
                continue
            left = {name: mark for name, mark in marks.items() if name != key}
            meta = {
                "resourceVersion": node.metadata.resource_version,
                "annotations": {NODE_CHECKS: node_checks.marks_text(left) or None},
            }
            try:
                await self._client.patch(NODES, node.metadata.name, {"metadata": meta})
            except NotFound:
                continue
            except Conflict:
                again = _SOON
        return again

    async def _write(self, check: NodeCheck, rule: node_checks.CheckRule, seen: list[decide.Seen], now: float) -> None:
        words = decide.suspicion(rule, seen)
        before = next((one for one in check.status.conditions or () if one.type == "Suspected"), None)
        state = "True" if words else "False"
        since = before.last_transition_time if before is not None and before.status == state else rfc3339(now)
        condition = Condition(
            type="Suspected",
            status=state,
            reason="TooManyFailed" if words else "WithinBounds",
            message=words or "no more nodes failed than may be out",
            last_transition_time=since,
        )
        status = NodeCheckStatus(**decide.counts(rule, seen), conditions=[condition])
        if words and (before is None or before.status != state):
            self._recorder.event(check, "Warning", "NodeCheckSuspected", words)
        try:
            self._written.keep(await write_status(self._client, CHECKS, check, status))
        except NotFound:
            return


def _after(rule: node_checks.CheckRule, seen: decide.Seen, planned: decide.Plan) -> decide.Seen:
    step = next((each for each in planned.steps if each.node == seen.name), None)
    if step is None:
        return seen
    out = rule.name if step.out else "" if step.back else seen.out
    return decide.Seen(seen.name, step.mark, out)


def _claimed(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(NODE_CHECK, "")


def _is_owned(pod: Pod, check: NodeCheck) -> bool:
    owned = any(each.uid == check.metadata.uid for each in pod.metadata.owner_references or ())
    return owned and _claimed(pod) == check.metadata.name


def _stands(pod: Pod) -> tuple[Any, ...]:
    return pod.spec.node_name, pod.status.phase


def _using(pod: Pod) -> list[str]:
    """Index function: the node of a pod that has extended resources there, or had."""
    node = pod.spec.node_name
    return [node] if node and any("/" in name for name in pod_requests(pod.spec)) else []


def _uses(rule: node_checks.CheckRule, pod: Pod) -> bool:
    return any(amount and rule.uses(name) for name, amount in pod_requests(pod.spec).items())


def _failed(pod: Pod) -> list[str]:
    """Index function: the node on which a pod of a job has failed."""
    failed = failed_on_its_node(pod) and not is_of_node(pod)
    return [pod.spec.node_name or ""] if failed else []


def _checking(pod: Pod) -> list[str]:
    """Index function: the node that a pod says it checks."""
    return [pod.spec.node_name] if _claimed(pod) and pod.spec.node_name else []


def _facts(node: Node) -> tuple[Any, ...]:
    ready = [each.status for each in node.status.conditions or () if each.type == "Ready"]
    notes = node.metadata.annotations or {}
    books = notes.get(NODE_CHECKS), notes.get(NODE_FAULTS)
    return books, node.metadata.labels, node.spec.taints, node.spec.unschedulable, ready
