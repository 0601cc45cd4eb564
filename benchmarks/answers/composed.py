"""Cases of several causes at once: are all of them named, and does the one fix that is offered first undo them all?"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.answers.case import Case
from benchmarks.answers.fixes import Offer, carry_out, offers
from benchmarks.answers.judge import is_outside, lacks, run, stuck, tried
from benchmarks.answers.plane import Plane
from unisono.cli.explaining import explanation_lines

NOTHING: Final = "nothing is offered as tried"


@dataclass(slots=True)
class Composed:
    """What became of a case.

    Attributes:
        sound: the job is stuck.
        named: the answer names every cause.
        why: why the job does not run after the first fix, which was offered as tried; empty where it does.
        seconds: CPU time of the answer.
        fails: all other offers after which it does not run, and why; `others` says whether they were looked at.
        untried: how many of them were offered as not tried.
    """

    name: str
    sound: bool = False
    named: bool = False
    why: str = NOTHING
    lines: list[str] = field(default_factory=list)
    seconds: float = 0.0
    others: list[Offer] = field(default_factory=list)
    fails: list[str] = field(default_factory=list)
    untried: int = 0

    def __str__(self) -> str:
        """One row."""
        if not self.sound:
            return f"{self.name:45} not stuck"
        row = f"{self.name:45} {'named' if self.named else 'NOT NAMED'}, {'fixed' if not self.why else 'NOT FIXED'}"
        row += f", {len(self.fails)} OTHER OFFERS FAIL" if self.fails else ""
        wrong = self.fails or self.why or not self.named
        return "\n    ".join((row, *self.lines, self.why, *self.fails)) if wrong else row


def judge_composed(case: Case, folder: Path, *, every: bool = False) -> Composed:
    """Ask, carry the first fix out, and look; with ``every``, do so with all others as well."""
    result = Composed(case.name)

    async def work(made: Plane) -> str:
        result.sound = bool(await lacks(made, case, 0))
        if not result.sound:
            return ""
        began = time.process_time()
        answer = await made.explain(case.question)
        result.seconds = time.process_time() - began
        result.lines = explanation_lines(answer)
        result.others = offers(answer)[1:]
        offer = next(iter(offers(answer)), None)
        if offer is None or offer.fix is None or not offer.fix.tried:
            return result.why
        await carry_out(made, offer)
        await asyncio.sleep(case.slow)
        await made.settle()
        return await lacks(made, case, 0)

    result.why = run(stuck(case, folder, work))
    result.named = all(re.search(one, "\n".join(result.lines), re.IGNORECASE) for one in case.root)
    for offer in result.others if every else ():
        if offer.fix is not None and (offer.fix.operations or is_outside(offer.change)):
            failed = run(tried(case, folder, offer))
            result.fails += [f"{'TRIED' if offer.fix.tried else 'not tried'}: {offer.text}: {failed}"] if failed else []
            result.untried += bool(failed) and not offer.fix.tried
    return result


def figures(results: Iterable[Composed]) -> dict[str, float]:
    """Counts, and CPU seconds of an answer: the median and the longest."""
    sound = [one for one in results if one.sound]
    seconds = sorted(one.seconds for one in sound)
    return {
        "stuck": len(sound),
        "all causes named": sum(one.named for one in sound),
        "fixed by the first offer": sum(not one.why for one in sound),
        "not fixed although tried": sum(bool(one.why) and one.why != NOTHING for one in sound),
        "others that fail, offered as tried": sum(len(one.fails) - one.untried for one in sound),
        "others that fail, offered as not tried": sum(one.untried for one in sound),
        "CPU seconds, median": round(seconds[len(seconds) // 2], 2) if seconds else 0.0,
        "CPU seconds, longest": round(seconds[-1], 2) if seconds else 0.0,
    }
