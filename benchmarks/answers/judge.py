"""One case after the other: is it sound, does the answer name the cause, and does every offered fix start the job."""

from __future__ import annotations

import asyncio
import copy
import gc
import itertools
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.answers.case import Case, Step
from benchmarks.answers.fixes import Offer, carry_out, names, offers, touched
from benchmarks.answers.plane import Plane, plane
from unisono.api.documents import apply_json_patch
from unisono.cli.explaining import explanation_lines
from unisono.errors import UnisonoError
from unisono.standalone.shadow import VirtualLoop

_LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class Result:
    """What became of a case.

    Attributes:
        unsound: what is wrong with the case itself; nothing else counts then.
        lines: the answer for people.
        lacking: expressions of ``root`` that its first line does not match.
        false: expressions of ``never`` that the answer matches, and offers that it says.
        works, fails: offers by what they touch; of those that fail, why.
        offers: what the answer offers.
        words: offers in words only, which no program can try.
        missing: expected fixes that are not offered.
    """

    name: str
    unsound: str = ""
    lines: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    works: list[str] = field(default_factory=list)
    fails: list[str] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Nothing is wrong with the answer."""
        return not (self.unsound or self.lacking or self.false or self.fails or self.missing)


def judge(case: Case, folder: Path, *, soundness_only: bool = False) -> Result:
    """Judge a case; ``folder`` keeps certificates from one case to the next."""
    began, result = time.process_time(), Result(case.name)
    result.unsound = run(_asked(case, folder, result))
    if not result.unsound and not soundness_only:
        for offer in result.offers:
            what = "; ".join(touched(case, offer))
            if offer.fix is None or not (offer.fix.operations or is_outside(offer.change)):
                result.words.append(offer.text)
                continue
            why = run(tried(case, folder, offer))
            (result.fails if why else result.works).append(f"{what}: {why}" if why else what)
    result.seconds = time.process_time() - began
    return result


def is_outside(change: dict[str, Any]) -> bool:
    """Done by nodes that join, or by waiting."""
    return change["kind"] in ("AddNodes", "WaitFor") or any(map(is_outside, change.get("changes", ())))


_PLANES_KEPT = 16
_runs = itertools.count(1)


def run(work: Awaitable[str]) -> str:
    """Do the work in a loop of virtual time; answers what is wrong."""

    async def bounded() -> str:
        return await work

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        try:
            return runner.run(bounded())
        except (UnisonoError, ValueError, KeyError, OSError, ExceptionGroup) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            # A plane is a web of cycles of some 30 MB, made while the collector pauses: it would not look for it soon.
            if next(_runs) % _PLANES_KEPT == 0:
                gc.collect()


Work = Callable[[Plane], Awaitable[str]]


async def stuck(case: Case, folder: Path, work: Work) -> str:
    """Do the work on a plane where the job of the case is stuck."""
    async with plane(case, folder) as made:
        await play(made, case, case.steps)
        if case.wait:
            await asyncio.sleep(case.wait)
            await made.settle()
        return await work(made)


async def _asked(case: Case, folder: Path, result: Result) -> str:
    """Ask while the job is stuck; then see that it is, and that what is known to start it does."""

    async def work(made: Plane) -> str:
        if not await lacks(made, case, 0):
            return "the job is not stuck"
        await _ask(made, case, result)
        if not case.starts_with:  # nothing is known to start it
            return ""
        await play(made, case, case.starts_with)
        why = await lacks(made, case, 0)
        return f"starts_with does not start it: {why}" if why else ""

    return await stuck(case, folder, work)


async def _ask(made: Plane, case: Case, result: Result) -> None:
    try:
        answer = await made.explain(case.question)
    except UnisonoError as error:
        result.lines = [f"{type(error).__name__}: {error}"]
        result.lacking, result.missing = list(case.root), list(case.fixes)
        return
    result.lines, result.offers = explanation_lines(answer), offers(answer)
    first, whole = result.lines[0], "\n".join(result.lines)
    said = [what for offer in result.offers for what in touched(case, offer)]
    result.lacking = [one for one in case.root if not re.search(one, first, re.IGNORECASE)]
    result.false = [one for one in case.never if re.search(one, "\n".join([whole, *said]), re.IGNORECASE)]
    result.missing = [one for one in case.fixes if not any(names(case, offer, one) for offer in result.offers)]


def _nameless(text: str) -> str:
    """A text without the part of pods' names that is drawn at random."""
    return re.sub(r"-[a-z0-9]{9,10}-[a-z0-9]{5}\b|-[a-z0-9]{5}\b", "", text)


async def tried(case: Case, folder: Path, offer: Offer) -> str:
    """Carry an offer out where the job of the case is stuck, and see what the gang lacks then."""

    async def work(made: Plane) -> str:
        again = None
        for search in (False, True):  # most are offered without a copy of the plane, which takes longer
            told = offers(await made.explain(case.question, search=search))
            again = next((one for one in told if _nameless(one.text) == _nameless(offer.text)), None)
            if again is not None:
                break
        if again is None:
            return "it is not offered when the same is asked again"
        size = await carry_out(made, again)
        await asyncio.sleep(case.slow)
        await made.settle()
        lacking = await lacks(made, case, size)
        if lacking:  # controllers try again what was refused after a minute at the latest
            await asyncio.sleep(_LONGEST_PAUSE)
            await made.settle()
            lacking = await lacks(made, case, size)
        return lacking

    return await stuck(case, folder, work)


async def lacks(made: Plane, case: Case, size: int) -> str:
    """What the gang lacks of running whole; empty where it does not."""
    pods = await made.pods(case.question)
    placed = [pod for pod in pods if pod["spec"].get("nodeName")]
    wanted = 1 if case.question.startswith("pod/") else size or case.gang or len(pods)
    if pods and len(placed) >= wanted:
        return ""
    try:
        first = explanation_lines(await made.explain(case.question, search=False))[0]
    except UnisonoError as error:
        first = str(error)
    return f"{len(placed)} of {wanted or 'its'} pods have a node: {first}"


# What happens to a cluster, as written in cases.


BUS = "bus.volcano.sh/v1alpha1"


async def play(plane: Plane, case: Case, steps: Iterable[Step]) -> None:
    """Carry out the steps, one after the other, and wait until the cluster has settled."""
    for step in steps:
        await _play(plane, case, step)
    await plane.settle()


async def _play(plane: Plane, case: Case, step: Step) -> None:
    match step:
        case {"create": body}:
            await plane.create(body)
        case {"patch": title, "merge": patch}:
            await plane.patch(title, patch, subresource="status" if step.get("status") else "")
        case {"patch": title, "json": patch}:
            await plane.patch(title, patch, how="json", subresource="status" if step.get("status") else "")
        case {"delete": title}:
            await plane.delete(title, gone=step.get("gone", True))
        case {"recreate": title, "json": patch}:
            await plane.recreate(title, apply_json_patch(written(plane, case, title), patch))
        case {"nodes": specs}:
            await plane.add_nodes(specs)
        case {"command": action, "to": title}:
            await command(plane, action, title)
        case {"kill": name}:
            await plane.kill(name)
        case {"start": name}:
            plane.start(name)
        case {"wait": seconds}:
            await asyncio.sleep(seconds)
        case _:
            raise ValueError(f"unknown step {step}")


async def command(plane: Plane, action: str, title: str) -> None:
    """Send a command to a queue or a job, as the command line does."""
    found = await plane.get(title)
    meta = found["metadata"]
    target = {"apiVersion": found["apiVersion"], "kind": found["kind"], "name": meta["name"], "uid": meta["uid"]}
    metadata = {"name": f"{action}-{meta['name']}".lower(), "namespace": meta.get("namespace", "default")}
    body = {"apiVersion": BUS, "kind": "Command", "metadata": metadata, "action": action}
    await plane.create({**body, "target": {**target, "controller": True}})


def written(plane: Plane, case: Case, title: str) -> dict[str, Any]:
    """The object of the case that ``title`` names."""
    resource, name, _ = plane.target(title)
    made = [step["create"] for step in case.steps if "create" in step]
    for body in [*case.objects, *made]:
        if body["kind"] == resource.kind and body["metadata"]["name"] == name:
            return copy.deepcopy(body)
    raise ValueError(f"case {case.name} has no object {title}")
