"""``python -m benchmarks.check [--clusters N] [--first SEED]``: lets random clusters live and checks every decision.

A range of seeds can be taken up again where it stopped; a finding is printed with its seed and a shrunk case.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmarks.check.life import CYCLES, Finding, examine, shrink

_EVERY = 250


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.check", description="Checks decisions about random clusters.")
    parser.add_argument("--clusters", type=int, default=20_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--most", type=int, default=10, help="findings after which to stop")
    parser.add_argument("--shrink", action="store_true", help="print the objects that a finding needs")
    options = parser.parse_args()
    found: list[Finding] = []
    begun = time.monotonic()
    for done, seed in enumerate(range(options.first, options.first + options.clusters), 1):
        finding = examine(seed)
        if finding is not None:
            found.append(finding)
            _print(finding, shrinks=options.shrink)
            if len(found) >= options.most:
                break
        if done % _EVERY == 0:
            rate = done / (time.monotonic() - begun)
            print(f"{done} of {options.clusters} clusters, {len(found)} findings, {rate:.0f}/s", file=sys.stderr)
    print(f"seeds {options.first} to {seed}, up to {CYCLES} cycles each: {len(found)} findings")
    return 1 if found else 0


def _print(finding: Finding, *, shrinks: bool) -> None:
    objects = None
    if shrinks:
        objects, finding = shrink(finding)
    print(f"seed {finding.seed}, configuration {finding.config}, cycle {finding.cycle}:", flush=True)
    for text in finding.texts:
        print(f"  {text}")
    if objects is not None:
        for obj in objects:
            print(f"    {json.dumps(obj)}")


if __name__ == "__main__":
    raise SystemExit(main())
