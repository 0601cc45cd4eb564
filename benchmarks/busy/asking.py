"""Why jobs of the busy cluster wait: some are drawn, asked, and what is offered as tried is carried out.

Nothing but the questions runs while they are asked, so that their CPU time is theirs. A fix is carried out on a copy of
the cluster with controllers and scheduler, in which no job ends: what starts there started by the fix.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from unisono.cli.explaining import explain
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.verdict import Asked
from unisono.errors import UnisonoError
from unisono.kube.discovery import request_json
from unisono.sdk.fixes.applying import apply_fix
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.mending.explanations import all_run
from unisono.sdk.reasons.explaining import Explanation
from unisono.standalone.shadow import opened

Objects = Sequence[Mapping[str, Any]]
_TAKING_EFFECT = 3.0
"""Before nodes join: controllers hand on what a request has changed."""
_LONGEST_SECONDS = 60
"""Of the time of the copy, until the job has to run."""


@dataclass(slots=True)
class Answer:
    """What was said of one job.

    Attributes:
        job: ``namespace/name``.
        seconds: CPU time of the answer.
        cause, message: of the verdict; empty where there is none.
        tried: fixes that are offered as tried.
        results: of each that was carried out, ``""`` where the job ran, else what happened.
    """

    job: str
    seconds: float
    cause: str
    message: str
    tried: list[Fix] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def text(self) -> str:
        """For people."""
        lines = [f"{self.job}  {self.seconds:.1f} s  {self.cause}: {self.message}"]
        for number, fix in enumerate(self.tried):
            told = (self.results[number] or "the job runs") if number < len(self.results) else "not carried out"
            lines.append(f"    {fix.text}: {told}")
        return "\n".join(lines if self.tried else [*lines, "    no tried fix"])


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster as it is read at one moment."""

    folder: Path
    objects: Objects
    config: SchedulerConfig
    now: float

    def drawn(self, number: int, seed: int) -> list[Mapping[str, Any]]:
        """Some of the jobs that wait."""
        jobs = [one for one in self.objects if one["kind"] == "Job" and "volcano" in one["apiVersion"]]
        waiting = [one for one in jobs if _phase(one) == "Pending"]
        return Random(seed).sample(waiting, min(number, len(waiting)))

    async def ask(self, jobs: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """The answers, one after the other."""
        found = []
        async with opened(self.folder, now=self.now, objects=self.objects) as shadow:
            await asyncio.sleep(0)
            for job in jobs:
                meta, began = job["metadata"], time.process_time()
                title = f"jobs.batch.volcano.sh/{meta['name']}"
                told = await explain(shadow.client, [title], meta["namespace"], search=True, config=self.config)
                found.append(_answer(f"{meta['namespace']}/{meta['name']}", time.process_time() - began, told))
        return found

    async def carry_out(self, job: Mapping[str, Any], fix: Fix) -> str:
        """Send the requests of a fix, let its nodes join, and say whether the job runs then."""
        async with opened(self.folder, now=self.now, objects=self.objects) as shadow:
            shadow.start("controllers")
            shadow.start("scheduler", self.config, Asked(lambda _: False))
            await asyncio.sleep(1)
            try:
                if fix.operations:
                    await apply_fix(shadow.client, fix)
                await asyncio.sleep(_TAKING_EFFECT)
                joining = (request_json(shadow.client, "POST", "/api/v1/nodes", body=one) for one in self._nodes(fix))
                await asyncio.gather(*joining)
            except UnisonoError as error:
                return f"refused: {error}"
            for _ in range(_LONGEST_SECONDS):
                if await all_run(shadow.client, dict(job)):
                    break
                await asyncio.sleep(1)
            return "" if await all_run(shadow.client, dict(job)) else "the job does not run"

    def _nodes(self, fix: Fix) -> list[dict[str, Any]]:
        nodes = {one["metadata"]["name"]: one for one in self.objects if one["kind"] == "Node"}
        changes = [fix.change, *fix.change.get("changes", ())]
        made = []
        for change in (one for one in changes if one["kind"] == "AddNodes"):
            for number in range(change["count"]):
                node = copy.deepcopy(dict(nodes[change["like"]]))
                name = f"{change['like']}-more-{number}"
                node["metadata"] = {
                    "name": name,
                    "labels": {**node["metadata"].get("labels", {}), "kubernetes.io/hostname": name},
                }
                made.append(node)
        return made


def _phase(job: Mapping[str, Any]) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase"))


def _answer(job: str, seconds: float, told: Explanation) -> Answer:
    verdict = told.verdicts[0] if told.verdicts else None
    tried = [fix for fix in told.fixes if fix.tried]
    return Answer(job, seconds, verdict.cause if verdict else "", verdict.message if verdict else "", tried)


def summary(answers: Sequence[Answer]) -> str:
    """How many have a tried fix, what the others are told, and how many fixes did start their job."""
    fixed = [one for one in answers if one.tried]
    nodes = [one for one in fixed if all(_adds_nodes(fix) for fix in one.tried)]
    held = [one for one in answers if not one.tried and (" hold" in one.message or "in use" in one.message)]
    results = [result for one in answers for result in one.results]
    seconds = sorted(one.seconds for one in answers)
    return "\n".join(
        (
            f"{len(answers)} jobs asked: {len(fixed)} with a tried fix ({len(nodes)} of them with nodes in each), "
            f"{len(held)} of the others are told who holds what they wait for",
            f"CPU s per answer: median {seconds[len(seconds) // 2]:.1f}, most {seconds[-1]:.1f}",
            f"{len(results)} tried fixes carried out: {results.count('')} started their job",
        )
    )


def _adds_nodes(fix: Fix) -> bool:
    return any(one["kind"] == "AddNodes" for one in (fix.change, *fix.change.get("changes", ())))
