"""Which objects of a batch keep the bystander waiting: the batch again, with fewer and fewer of its objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.hostile.attack import BATCH, Ceilings, attacking


def shrink(seed: int, batch: int, wait: float, patience: float, folder: Path) -> Iterator[str]:
    """Lines that tell what was tried and which objects remain.

    Each trial has a control plane of its own, so that nothing is left of the one before.

    Args:
        seed: of the objects.
        batch: number of the batch.
        wait: seconds of the control plane's own time from which on the bystander is harmed.
        patience: seconds that a trial waits at most.
        folder: for the control planes' data.
    """
    left: list[int] = list(range(batch * BATCH, (batch + 1) * BATCH))
    trial = 0

    def harmful(numbers: Sequence[int]) -> float:
        nonlocal trial
        trial += 1
        return asyncio.run(_waited(seed, batch, numbers, patience, folder / str(trial)))

    if (took := harmful(left)) <= wait:
        yield f"the batch by itself: {took:.1f} s, which is soon enough: the wait needs earlier batches"
        return
    pieces = 2
    while len(left) > 1:
        size = -(-len(left) // pieces)
        parts = [left[at : at + size] for at in range(0, len(left), size)]
        candidates = [*parts, *([one for one in left if one not in part] for part in parts)] if pieces > 2 else parts
        for part in candidates:
            took = harmful(part)
            yield f"objects {part[0]} to {part[-1]}, {len(part)}: {took:.1f} s"
            if took > wait:
                left, pieces = part, 2
                break
        else:
            if size == 1:
                break
            pieces = min(len(left), pieces * 2)
    yield f"needed: {left}"


async def _waited(seed: int, batch: int, numbers: Sequence[int], patience: float, folder: Path) -> float:
    async with attacking(folder, seed, patience=patience, ceilings=Ceilings(wait=patience)) as attack:
        await attack.batch(batch, only=frozenset(numbers))
        for number in numbers if len(numbers) <= 2 else ():
            attempt = attack.forge.attempt(number)
            print(json.dumps(attempt.body)[:2000], [(step, str(what)[:500]) for step, what in attempt.then])
        return attack.report.own_waits[-1]
