"""``python -m benchmarks.hostile --objects 10000 --seed 1``: hostile objects of every kind, and a user beside them.

Starts ``unisono up`` in a folder of its own, on loopback, with simulated nodes and bounded memory, and ends with it.
A run is resumed by ``--start``: object N of a seed is always the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.hostile.attack import BATCH, Ceilings, Finding, Report, attacking
from benchmarks.hostile.forge import Offered


def _names(kind: Offered) -> set[str]:
    return {kind.kind.lower(), kind.group, kind.group.partition(".")[0]}


async def _run(options: argparse.Namespace, folder: Path) -> Report:
    config = options.scheduler_config.read_text() if options.scheduler_config else ""
    ceilings = Ceilings(options.wait, options.growth * 2**20, options.log * 1000)
    kinds = {kind.lower() for kind in options.kinds}
    without = {kind.lower() for kind in options.without}
    async with attacking(
        folder,
        options.seed,
        patience=options.patience,
        ceilings=ceilings,
        chosen=lambda one: (not kinds or bool(kinds & _names(one))) and not without & _names(one),
        config=config,
    ) as attack:
        first = options.start // BATCH
        told = 0
        for number in range(first, first + -(-options.objects // BATCH)):
            await attack.batch(number)
            report = attack.report
            print(
                f"object {(number + 1) * BATCH}: bystander {report.waits[-1]:.2f} s, own {report.own_waits[-1]:.2f} s, "
                f"MiB {[value >> 20 for value in report.memory[-1]]} history {report.history[-1] >> 20}"
                if report.waits
                else "",
                file=sys.stderr,
            )
            for finding in report.findings[told:]:
                print(finding, file=sys.stderr)
            told = len(report.findings)
        for what in report.over(ceilings):
            report.findings.append(Finding(options.seed, what))
            print(report.findings[-1], file=sys.stderr)
        return report


def main() -> int:
    """Attack, and report; 1 when something was harmed."""
    parser = argparse.ArgumentParser(prog="benchmarks.hostile", description=__doc__)
    parser.add_argument("--objects", type=int, default=1000, help="how many objects to try")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, metavar="OBJECT", help="go on from this object of the seed")
    parser.add_argument("--kinds", nargs="*", default=[], help="only these kinds or API groups")
    parser.add_argument("--without", nargs="*", default=[], help="leave these kinds or API groups out")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds that the bystander's job may take")
    parser.add_argument("--wait", type=float, default=5.0, help="seconds of its own that the control plane may take")
    parser.add_argument("--growth", type=int, default=32, help="MiB that a process may grow by for 1,000 objects")
    parser.add_argument("--log", type=int, default=200, help="kB of log for 1,000 objects")
    parser.add_argument("--shrink", action="store_true", help="find the objects of one batch (--start) that do it")
    parser.add_argument("--scheduler-config", type=Path)
    parser.add_argument(
        "--folder", type=Path, help="where the control plane keeps its data (removed at the end by default)"
    )
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unisono-hostile-") as folder:
        if options.shrink:
            for line in shrink(options.seed, options.start // BATCH, options.wait, options.patience, Path(folder)):
                print(line, flush=True)
            return 0
        report = asyncio.run(_run(options, options.folder or Path(folder)))
    summary = report.summary()
    if options.output == "json":
        print(json.dumps(summary, indent=2))
    else:
        for what, value in summary.items():
            print(f"{what}: {value}")
    return 1 if report.findings else 0


# Which objects of a batch keep the bystander waiting: the batch again, with fewer and fewer of its objects.


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


if __name__ == "__main__":
    raise SystemExit(main())
