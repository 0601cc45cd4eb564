"""A fix that lasts until the job runs: changes are made in a copy of the cluster, and asked again after each.

The copy has the door (admission), the controllers and the scheduler, so that what one of them would refuse or undo is
seen. What is offered as tried was carried out as a whole, from the cluster as it is, until all wanted pods ran.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from unisono.api.annotations import QUARANTINE, VERDICT
from unisono.api.decode import decode
from unisono.api.documents import apply_json_patch, apply_merge_patch, json_diff
from unisono.api.extended_devices import on_node
from unisono.api.keys import HOSTNAME, NODE_UNSCHEDULABLE
from unisono.api.kinds import NODE_CHECKS, NODES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES
from unisono.api.node_checks import of_new_one
from unisono.errors import UnisonoError
from unisono.sdk.fixes.applying import apply_fix
from unisono.sdk.fixes.change_texts import change_text
from unisono.sdk.fixes.fix import Fix, Operation, Verb

if TYPE_CHECKING:
    from unisono.api.verdict import Verdict
    from unisono.engine.config.model import SchedulerConfig
    from unisono.kube.http import HttpClient
    from unisono.standalone.shadow import Shadow

CPU_SECONDS = 8.0
"""Within which another change is tried."""
_OTHERS_SECONDS = 2.0
"""Within which, once a fix is found, the others that are offered are tried: no longer than people like to wait."""
_DOUBTED_SECONDS = 1.5
"""The same for what the engine has tried, where that has turned out not to be all that is in the way."""
_LONGEST_CHAIN = 6
_ADDED = "-added-"
_MOST_TRIED = 4
"""Changes of one explanation that are tried."""
_SAME_LIMIT = 3
"""How often one limit is raised in a chain: pods that start one by one ask for more of it one after the other."""
_SLOW = (30.0, 90.0)
"""Virtual seconds after which it is looked whether the job runs: controllers rest before they try again."""
_GIVES_UP = ("LowerMinAvailable", "RequestAtMost", "EvictPods", "ReleasePort")
"""Changes that take something from the job or from others: tried after all that do not."""
_IN_ANY_CASE = (
    *("AllowNamespace", "KeepReplicas", "LimitAtMost", "LowerMinimum", "OpenQueue", "RaiseQuota", "RemoveGates"),
    *("RequestAtLeast", "Resume", "ResumeScaling", "SetField", "SetPodField", "StateAmounts", "UseClaim", "UseQueue"),
    "UseStorageClass",
)
"""Changes without which there are no pods, or none that may be placed, wherever there is room; creating is another."""

_UNFIT = (UnisonoError, KeyError, IndexError, TypeError, ValueError)
"""What applying a patch raises that the object does not fit."""

T = TypeVar("T")
Ask = Callable[["HttpClient"], Awaitable["Told"]]
Runs = Callable[["HttpClient", int], Awaitable[bool]]
Against = Callable[["HttpClient", str], Awaitable[list[Fix]]]

Words = tuple[str, ...]


class Told(Protocol):
    """What an explanation says: in one line and in verdicts, its fixes, and changes that may be part of one."""

    @property
    def headline(self) -> str: ...  # noqa: D102

    verdicts: list[Verdict]
    fixes: list[Fix]
    candidates: list[Fix]


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is copied, and of which jobs the copy's scheduler says why they wait.

    Attributes:
        objects: all of it.
        config: the scheduler's; None: the default one.
        now: seconds since the epoch.
        namespace: where the job is that is asked for. Nothing is said of jobs of other namespaces, but of those that
            come while changes are made.
        groups: PodGroups of the job that are there; where this is not None, of no other one anything is said.
    """

    objects: Sequence[Mapping[str, Any]]
    config: SchedulerConfig | None
    now: float
    namespace: str = ""
    groups: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """A fix, what was said when it was offered, and with it all that was offered."""

    fix: Fix
    cause: str
    words: Words


_Chains = list[list[_Step]]


@dataclass(frozen=True, slots=True)
class Found:
    """The best that was found.

    Attributes:
        fix: all changes as one, after which the job runs; None where there is none.
        causes: why it waits, and after each change why it waits then.
        failed: texts of fixes after which alone it does not run.
        works: texts of other fixes after which alone it runs.
        part: where there is none, what was found of it: after these changes it waits for something else.
    """

    fix: Fix | None
    causes: tuple[str, ...]
    failed: tuple[str, ...]
    works: tuple[str, ...] = ()
    part: Fix | None = None


def until_it_runs(
    cluster: Cluster, ask: Ask, runs: Runs, against: Against, known: Told | None = None, *, seconds: float = CPU_SECONDS
) -> Found:
    """Look for changes after which the job runs.

    Blocks for about as long as ``seconds`` of CPU at most, in a loop of its own: call it in a thread.

    Args:
        cluster: what is copied.
        ask: explains the job, on whatever server; the fixes are those that one answer offers.
        runs: whether all pods that it wants run there, or so many of them; 0: all.
        against: what would let the server accept a change that it has refused with a message.
        known: an explanation whose fixes that were tried are carried out before anything is asked in a copy.
        seconds: CPU time.
    """
    folder = Path(tempfile.mkdtemp(prefix="unisono-"))
    try:
        search = _Search(cluster, ask, runs, against, folder, time.thread_time() + seconds)
        return search.best(known)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _TimeIsUp(Exception):
    """The CPU time of a search has been used up."""


class _Search:
    """Depth first, and the change that is offered first comes first."""

    def __init__(self, cluster: Cluster, ask: Ask, runs: Runs, against: Against, folder: Path, until: float) -> None:
        self._cluster, self._ask, self._runs, self._folder, self._until = cluster, ask, runs, folder, until
        self._others_until = time.thread_time() + _OTHERS_SECONDS
        self._against = against
        self._known = {_key(one) for one in cluster.objects}
        self._others = {f"{key[2]}/{key[3]}" for key in self._known if key[1] == "PodGroup"}
        own = cluster.groups
        is_own = own.__contains__ if own is not None else lambda key: _is_in(key, cluster.namespace)
        self._others = {key for key in self._others if not is_own(key)}
        self._objects = [self._without_verdict(one) for one in cluster.objects]
        self._longest: list[_Step] = []
        self._then = ""
        self._failed: dict[str, None] = {}
        self._offered: list[Fix] = []

    def best(self, known: Told | None) -> Found:
        """A chain that works, else what is known of the longest one that was found."""
        todo: _Chains = [[]]
        if known is not None:
            self._offered = [fix for fix in self._usable((), known) if fix.tried]
            todo += [[_Step(fix, known.headline, _words(known))] for fix in reversed(self._offered)]
        while todo and time.thread_time() < self._until:
            begun = todo.pop()
            try:
                chain, runs, others = self._in_copy(self._climb(begun), [step.fix for step in begun])
                if runs and not chain:  # in the copy it runs as it is
                    return Found(None, (), ())
                solution = self._proved(chain) if runs else None
            except _TimeIsUp:
                break
            if solution is not None:
                return replace(solution, works=self._others_that_work(solution), failed=tuple(self._failed))
            todo += others
        causes = [*(one.cause for one in self._longest), *([self._then] if self._longest else [])]
        limits = [limit_of(one.fix) for one in self._longest]
        # After more and more of the same it waits for the same.
        news = [at for at in range(len(causes)) if at < 2 or not limits[at - 1] or limits[at - 1] != limits[at - 2]]
        # Nor is what nodes would be in vain against of interest: they are not offered.
        news = [at for at in news if not at or not adds_nodes(self._longest[at - 1].fix)]
        return Found(None, tuple(causes[at] for at in news), tuple(self._failed), part=self._part())

    def _part(self) -> Fix | None:
        """The longest chain as one fix that is not enough, as far as its changes are needed in any case."""

        def is_needed(step: _Step) -> bool:
            made = [one["kind"] for one in parts(step.fix.change)]
            return bool(step.fix.operations) and all(one in _IN_ANY_CASE or one.startswith("Create") for one in made)

        chain = list(takewhile(is_needed, self._longest))
        if not chain:
            return None
        fix = joined(chain, {_key(one): one for one in self._cluster.objects})
        return replace(fix, tried=False, change={**fix.change, "enough": False})

    def _others_that_work(self, found: Found) -> tuple[str, ...]:
        """Texts of what was offered besides and starts the job, too; what does not has failed."""
        works: list[str] = []
        doubted = found.causes[1:] and any(fix.tried for fix in self._offered)
        self._until = max(self._others_until, time.thread_time() + _DOUBTED_SECONDS if doubted else 0.0)
        for fix in self._offered:
            if fix.text in self._failed or (found.fix is not None and same(fix, found.fix)):
                continue
            if fix.tried and not found.causes[1:]:  # the engine sees all that is in the way
                continue
            try:
                runs = time.thread_time() < self._until and self._in_copy(self._carried_out(fix, _gang_of(fix)), [fix])
            except _TimeIsUp:
                break
            if runs:
                works.append(fix.text)
            elif time.thread_time() < self._until:
                self._failed[fix.text] = None
        return tuple(works)

    def _carried_out(self, fix: Fix, least: int = 0) -> Callable[[Shadow], Awaitable[bool]]:
        """Whether the job runs with it; ``least``: so many of its pods."""

        async def work(shadow: Shadow) -> bool:
            return not await self._made(shadow, fix) and await self._runs(shadow.client, least)

        return work

    def _in_copy(self, work: Callable[[Shadow], Awaitable[T]], fixes: Sequence[Fix]) -> T:
        """Work in a new copy, which has the nodes that these fixes add from the beginning."""
        from unisono.engine.verdict import Asked
        from unisono.standalone.shadow import VirtualLoop, opened

        async def inside() -> T:
            objects = [*self._objects, *_added_nodes(fixes, self._cluster.objects, self._cluster.now)]
            async with opened(self._folder, now=self._cluster.now, objects=objects) as shadow:
                shadow.start("controllers")
                shadow.start("scheduler", self._cluster.config, Asked(lambda key: key not in self._others))
                return await self._in_time(self._settled(shadow, work))

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(inside())

    async def _settled(self, shadow: Shadow, work: Callable[[Shadow], Awaitable[T]]) -> T:
        await shadow.settle()
        return await work(shadow)

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result, where it comes before the time is up; it is looked at after each second of the copy's time."""
        task = asyncio.create_task(work)
        while not (await asyncio.wait({task}, timeout=1.0))[0]:
            if time.thread_time() >= self._until:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise _TimeIsUp
        return task.result()

    def _without_verdict(self, one: Mapping[str, Any]) -> Mapping[str, Any]:
        """A PodGroup of which nothing will be said has no verdict that would have to be taken back."""
        meta = one["metadata"]
        notes = meta.get("annotations") or {}
        if VERDICT not in notes or f"{meta.get('namespace')}/{meta['name']}" not in self._others:
            return one
        return {**one, "metadata": {**meta, "annotations": {key: notes[key] for key in notes if key != VERDICT}}}

    def _climb(self, begun: Sequence[_Step]) -> Callable[[Shadow], Awaitable[tuple[list[_Step], bool, _Chains]]]:
        """Make these changes and go on; the chain, whether it runs after it, and chains to begin otherwise."""

        async def work(shadow: Shadow) -> tuple[list[_Step], bool, _Chains]:
            chain: list[_Step] = []
            others: _Chains = []
            said = [*(one.words for one in begun)]
            for step in begun:
                if await self._made(shadow, step.fix):
                    return chain, False, []
                chain.append(step)
            while True:
                if await self._runs(shadow.client, 0):
                    return chain, True, others
                if len(chain) == 1:
                    self._failed[chain[0].fix.text] = None
                explanation = await self._ask(shadow.client)
                now = _words(explanation)
                if now in said and (now == said[-1] or said.count(now) > 1 or not any(map(_makes_anew, chain))):
                    return chain, False, others  # it made no difference
                if not said and not self._offered:
                    self._offered = self._usable((), explanation, _LONGEST_CHAIN)
                said.append(now)
                if len(chain) > len(self._longest):
                    self._longest, self._then = list(chain), explanation.headline
                steps = [_Step(fix, explanation.headline, now) for fix in self._usable(chain, explanation)]
                if not steps or len(chain) == _LONGEST_CHAIN or time.thread_time() >= self._until:
                    return chain, False, others
                others = [*others, *([*chain, one] for one in reversed(steps[1:]))]
                if adds_nodes(steps[0].fix):  # nobody can do that by the API: another copy has them
                    return chain, False, [*others, [*chain, steps[0]]]
                refusal = await self._made(shadow, steps[0].fix)
                if refusal:  # perhaps not once another change is made
                    before = [
                        _Step(fix, explanation.headline, now) for fix in await self._against(shadow.client, refusal)
                    ]
                    then = replace(steps[0], cause=f"{steps[0].fix.text} is refused: {refusal}")
                    return chain, False, [*others, *([*chain, one, then] for one in reversed(before))]
                chain.append(steps[0])

        return work

    def _usable(self, chain: Sequence[_Step], told: Told, most: int = _MOST_TRIED) -> list[Fix]:
        """Fixes that can be sent to the cluster as it is, and once what is in the chain was sent."""
        made = {_target(one) for step in chain for one in step.fix.operations if one.verb == "create"}
        done = [limit_of(step.fix) for step in chain]
        offered = [_like_one_there(fix) for fix in (*told.fixes, *told.candidates)]
        if chain:  # pods that a change of their owner makes anew
            offered = [replace(fix, operations=fix.lasting or fix.operations) for fix in offered]
        usable = [
            fix
            for number, fix in enumerate(offered)
            if (fix.operations or (adds_nodes(fix) and (chain or not fix.tried)))  # else the engine has tried them
            and not any(same(fix, other) for other in offered[:number])
            and not (limit_of(fix) and done.count(limit_of(fix)) == _SAME_LIMIT)
            and _is_of_known(fix, self._known | made)
        ]
        usable.sort(key=lambda fix: (adds_nodes(fix), any(one["kind"] in _GIVES_UP for one in parts(fix.change))))
        return usable[:most]

    async def _made(self, shadow: Shadow, fix: Fix) -> str:
        """Carry it out and wait for what follows; the refusal, empty where there was none."""
        try:
            if fix.operations:
                await apply_fix(shadow.client, fix)
        except UnisonoError as error:
            return str(error) or type(error).__name__
        await shadow.settle()
        for seconds in _SLOW:
            if await self._runs(shadow.client, 0):
                break
            await asyncio.sleep(seconds)
            await shadow.settle()
        return ""

    def _proved(self, chain: Sequence[_Step]) -> Found | None:
        """The chain as one fix, carried out from the cluster as it is, without steps that later ones make needless."""
        self._until = max(self._until, time.thread_time() + CPU_SECONDS / 2)  # what was found is not lost for that
        combined = self._as_one(chain)
        needed = list(chain)
        for step in chain[:-1] if combined is not None else ():
            rest = [one for one in needed if one is not step]
            try:
                shorter = self._as_one(rest, proved=False)
            except _TimeIsUp:
                break
            if shorter is not None:
                combined, needed = shorter, rest
        return None if combined is None else Found(combined, tuple(one.cause for one in chain), tuple(self._failed))

    def _as_one(self, chain: Sequence[_Step], *, proved: bool = True) -> Fix | None:
        """One fix, which starts the job; ``proved``: that the steps do, one after the other, is known."""
        live = {_key(one): one for one in self._cluster.objects}
        for fix in (joined(chain, live), joined(chain, live, merged=False)) if proved else (joined(chain, live),):
            if (proved and len(chain) == 1) or self._in_copy(self._carried_out(fix), [fix]):
                return fix
        return None


def _is_in(key: str, namespace: str) -> bool:
    return key.startswith(f"{namespace}/")


def joined(chain: Sequence[_Step], live: Mapping[tuple[str, ...], Mapping[str, Any]], *, merged: bool = True) -> Fix:
    """The fixes of a chain as one; where ``merged`` what they do to one object that ``live`` has is one request."""
    fixes = [step.fix for step in chain]
    if len(fixes) == 1:
        change = {key: value for key, value in fixes[0].change.items() if key != "tried"}
        return replace(fixes[0], tried=True, change=change)
    operations = [one for fix in fixes for one in fix.operations if not _is_needless(one, live)]
    for target in dict.fromkeys(map(_target, operations)):
        mine = [one for one in operations if _target(one) == target]
        one = _merged(mine, live.get(target)) if merged and len(mine) > 1 else None
        if one is not None:
            at = operations.index(mine[-1])
            operations = [*(each for each in operations[:at] if each not in mine), one, *operations[at + 1 :]]
    operations.sort(key=_step_of)
    summed = _summed(fixes)
    text = " and ".join(dict.fromkeys(text for _, text in summed))
    changes = [one for change, _ in summed for one in parts(change)]
    why_not = next((fix.why_not for fix in fixes if not fix.operations), "")
    return Fix(text, True, {"kind": "Together", "changes": changes}, tuple(operations), why_not)


def _is_of_known(fix: Fix, there: Collection[tuple[str, ...]]) -> bool:
    """Whether what it changes is there; what it deletes may have come in the copy alone, and is made anew later."""
    named = [one for one in fix.operations if one.verb != "create" and _target(one) not in there]
    return all(one.verb == "delete" for one in named) and (not named or len(named) < len(fix.operations))


def _is_needless(operation: Operation, live: Mapping[tuple[str, ...], Mapping[str, Any]]) -> bool:
    return operation.verb == "delete" and _target(operation) not in live


def _step_of(operation: Operation) -> int:
    """What pods are made with comes first, and the job itself last, after all that it needs."""
    return 0 if operation.kind is RESOURCE_CLAIM_TEMPLATES else 2 if operation.verb == "replace" else 1


def _summed(fixes: Sequence[Fix]) -> list[tuple[dict[str, Any], str]]:
    """The changes with their texts; of one limit that is raised again and again, and of nodes of one kind, the sum."""
    sums: dict[Any, tuple[dict[str, Any], str]] = {}
    for number, fix in enumerate(fixes):
        change = fix.change
        nodes = change["kind"] == "AddNodes"
        key: Any = ("AddNodes", change["like"]) if nodes else limit_of(fix)
        last = change["kind"].endswith("AtMost") or change["kind"] == "RaiseMaximum"
        key = number if last else key or number  # each states the amount itself
        before = sums.get(key)
        if before is None:
            sums[key] = change, fix.text
            continue
        change = {**change, "count": before[0]["count"] + change["count"]} if nodes else dict(change)
        if not nodes:
            amounts = change["amounts"]
            change["amounts"] = {name: before[0]["amounts"][name] + amount for name, amount in amounts.items()}
        sums[key] = change, change_text(change)
    return list(sums.values())


def _words(told: Told) -> Words:
    """What was said and offered."""
    return told.headline, *sorted({fix.text for fix in (*told.fixes, *told.candidates)})


def _gang_of(fix: Fix) -> int:
    """The size to which it makes the gang; 0 where it leaves it as it is."""
    return max((int(one["to"]) for one in parts(fix.change) if one["kind"] == "LowerMinAvailable"), default=0)


def _makes_anew(step: _Step) -> bool:
    """Whether it creates an object again, and with it what earlier steps have changed of its pods."""
    return any(one.verb == "replace" for one in step.fix.operations)


def adds_nodes(fix: Fix) -> bool:
    """Whether somebody has to add nodes to the cluster, which the API cannot."""
    return any(one["kind"] == "AddNodes" for one in parts(fix.change))


def _like_one_there(fix: Fix) -> Fix:
    """More nodes like one that was added are like the one that it is like."""
    if fix.change["kind"] != "AddNodes" or _ADDED not in fix.change["like"]:
        return fix
    change = {**fix.change, "like": fix.change["like"].partition(_ADDED)[0]}
    return replace(fix, change=change, text=change_text(change))


def _added_nodes(fixes: Sequence[Fix], objects: Sequence[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
    """Nodes as fixes add them: like one that is there as the fixes leave it, with names of their own.

    They are not cordoned, and have passed their checks.
    """
    checks = [one["metadata"]["name"] for one in objects if one["kind"] == NODE_CHECKS.kind]
    nodes = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Node"}
    for one in (one for fix in fixes for one in fix.operations if one.kind is NODES and one.verb == "patch"):
        if one.name in nodes and one.patch_type == "merge":
            nodes[one.name] = apply_merge_patch(nodes[one.name], one.body)
    slices = [one for one in objects if one["kind"] == RESOURCE_SLICES.kind]
    added, devices = list[dict[str, Any]](), list[dict[str, Any]]()
    for change in (one for fix in fixes for one in parts(fix.change) if one["kind"] == "AddNodes"):
        like = nodes.get(change["like"])
        for _ in range(change["count"] if like is not None else 0):
            node = deepcopy(dict(like or {}))
            name = f"{change['like']}{_ADDED}{len(added)}"
            labels = {**(node["metadata"].get("labels") or {}), HOSTNAME: name}
            notes = of_new_one(node["metadata"].get("annotations"), checks, now)
            node["metadata"] = {**node["metadata"], "name": name, "uid": name, "labels": labels, "annotations": notes}
            closing = (NODE_UNSCHEDULABLE, QUARANTINE)
            taints = [one for one in node["spec"].get("taints") or () if one["key"] not in closing]
            node["spec"] = {**node["spec"], "unschedulable": None, "taints": taints}
            added.append(node)
            mine = [one for one in slices if one["spec"].get("nodeName") == change["like"]]
            theirs = [on_node(decode(RESOURCE_SLICES, one).obj, name) for one in mine]
            devices += [{**one, **msgspec.to_builtins(new)} for one, new in zip(mine, theirs, strict=True)]
    return [*added, *devices]


def parts(change: Mapping[str, Any]) -> list[Any]:
    """The changes that one consists of."""
    return list(change["changes"]) if change.get("kind") == "Together" else [change]


def _merged(mine: Sequence[Operation], live: Mapping[str, Any] | None) -> Operation | None:
    """One request in place of several patches of one object; None where that cannot be said."""
    if live is None or any(one.verb not in ("patch", "replace") or one.subresource for one in mine):
        return None
    body: Any = live
    try:
        for one in mine:
            body = _with(body, one) if one.patch_type == "json" else apply_merge_patch(body, one.body)
    except _UNFIT:
        return None
    verb: Verb = "replace" if any(one.verb == "replace" for one in mine) else "patch"
    return replace(mine[-1], verb=verb, patch_type="json", body=json_diff(live, body))


def _with(body: Any, one: Operation) -> Any:
    """The object after a JSON patch; what another object takes the place of has lost what controllers wrote before."""
    for step in one.body:
        try:
            body = apply_json_patch(body, [step])
        except _UNFIT:
            if one.verb != "replace" or step["op"] != "remove":
                raise
    return body


def same(fix: Fix, other: Fix) -> bool:
    """Whether two fixes do the same; where nothing can be sent, whether they say the same.

    How much of a budget was used has moved between two looks at it, and so has the amount to which it is raised; so
    has the time that is left until a window begins.
    """
    if fix.change["kind"] == other.change["kind"] == "RaiseBudget":
        return limit_of(fix) == limit_of(other)
    if fix.change["kind"] == other.change["kind"] == "AddAnnotation":
        return bool(fix.change["key"] == other.change["key"])
    return fix.operations == other.operations and (bool(fix.operations) or fix.text == other.text)


def limit_of(fix: Fix) -> tuple[Any, ...]:
    """What a fix raises or lowers, whatever by; empty where it does anything else.

    Where that was not enough again and again, the same once more leads nowhere, one small step after another. Nodes
    are such a limit as well.
    """
    if fix.change["kind"] == "AddNodes":
        return "AddNodes", fix.change["like"]
    if fix.change["kind"] == "RaiseMaximum":
        return "RaiseMaximum", fix.change["group"]
    amounts = fix.change.get("amounts")
    rest = {key: value for key, value in fix.change.items() if key not in ("amounts", "tried")}
    return (*sorted(rest.items()), *sorted(amounts)) if amounts else ()


def _target(operation: Operation) -> tuple[str, ...]:
    return operation.kind.api_version, operation.kind.kind, operation.namespace, operation.name


def _key(item: Mapping[str, Any]) -> tuple[str, ...]:
    meta = item["metadata"]
    return item["apiVersion"], item["kind"], meta.get("namespace") or "", meta["name"]
