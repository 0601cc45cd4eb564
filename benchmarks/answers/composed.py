"""Cases of several causes at once: are all of them named, and does the one fix that is offered first undo them all?"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.answers.case import Case
from benchmarks.answers.fixes import carry_out, offers
from benchmarks.answers.judge import lacks, run, stuck
from benchmarks.answers.plane import Plane
from unisono.cli.explaining import explanation_lines


@dataclass(slots=True)
class Composed:
    """What became of a case.

    Attributes:
        sound: the job is stuck.
        named: the answer names every cause.
        why: why the job does not run after the first fix, which was offered as tried; empty where it does.
        seconds: CPU time of the answer.

    """

    name: str
    sound: bool = False
    named: bool = False
    why: str = "nothing is offered as tried"
    lines: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        """One row."""
        if not self.sound:
            return f"{self.name:45} not stuck"
        row = f"{self.name:45} {'named' if self.named else 'NOT NAMED'}, {'fixed' if not self.why else 'NOT FIXED'}"
        return row if self.named and not self.why else "\n    ".join((row, *self.lines, self.why))


def judge_composed(case: Case, folder: Path) -> Composed:
    """Ask, carry the first fix out, and look."""
    result = Composed(case.name)

    async def work(made: Plane) -> str:
        result.sound = bool(await lacks(made, case, 0))
        if not result.sound:
            return ""
        began = time.process_time()
        answer = await made.explain(case.question)
        result.seconds = time.process_time() - began
        result.lines = explanation_lines(answer)
        offer = next(iter(offers(answer)), None)
        if offer is None or offer.fix is None or not offer.fix.tried:
            return result.why
        await carry_out(made, offer)
        await asyncio.sleep(case.slow)
        await made.settle()
        return await lacks(made, case, 0)

    result.why = run(stuck(case, folder, work))
    result.named = all(re.search(one, "\n".join(result.lines), re.IGNORECASE) for one in case.root)
    return result


def figures(results: Iterable[Composed]) -> dict[str, float]:
    """Counts, and CPU seconds of an answer: the median and the longest."""
    sound = [one for one in results if one.sound]
    seconds = sorted(one.seconds for one in sound)
    return {
        "stuck": len(sound),
        "all causes named": sum(one.named for one in sound),
        "fixed by the first offer": sum(not one.why for one in sound),
        "CPU seconds, median": round(seconds[len(seconds) // 2], 2) if seconds else 0.0,
        "CPU seconds, longest": round(seconds[-1], 2) if seconds else 0.0,
    }
