"""``make world SEEDS=A-B``: lives of worlds, and for each that fails the shortest story that still does.

Prints the seed, what was found, and the deeds that are needed for it; ``--history`` writes everything that happened.
Each run adds a line to ``searched.tsv``: when, which tree, which seeds, steps, and seeds with findings.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from world_plane import Outcome, lived
from world_profiles import story
from world_story import Deed, Story

_SEARCHED = Path(__file__).with_name("searched.tsv")
_WIDTH = 240
_DIGITS = str.maketrans("0123456789", "##########")


def kind_of(finding: str) -> str:
    """A finding without its numbers: the same one in another world."""
    return finding.translate(_DIGITS)


def shortest(failing: Story, finding: str, most: int = 60) -> tuple[Story, Outcome]:
    """Leave out deeds, many at first, for as long as a finding of the same kind is made."""
    wanted, tries = kind_of(finding), 0

    def is_wanted(one: str) -> bool:
        return kind_of(one) == wanted

    best, outcome = failing, lived(failing, until=is_wanted)
    size = max(len(best.deeds) // 2, 1)
    while size and tries < most:
        at, shrunk = 0, False
        while at < len(best.deeds) and tries < most:
            deeds: tuple[Deed, ...] = best.deeds[:at] + best.deeds[at + size :]
            tries += 1
            tried = lived(best.with_deeds(deeds), until=is_wanted)
            if any(map(is_wanted, tried.found)):
                best, outcome, shrunk = best.with_deeds(deeds), tried, True
            else:
                at += size
        if not shrunk or size > 1:
            size //= 2
    return best, outcome


def told(seed: int, failing: Story, outcome: Outcome) -> str:
    """A finding for people."""
    deeds = [f"    {str(deed)[:_WIDTH]}" for deed in failing.deeds]
    return "\n".join([f"seed {seed}", *(f"  {finding}" for finding in outcome.found), "  happens when:", *deeds])


def search(seeds: Sequence[int], *, short: bool, shrinks: bool, seconds: float, history: Path | None) -> int:
    """Live the worlds; answers how many had findings."""
    begun, steps, failed, done = time.process_time(), 0, [], []
    for seed in seeds:
        if time.process_time() - begun > seconds:
            break
        one = story(seed, short=short)
        outcome = lived(one)
        steps += outcome.steps
        done.append(seed)
        if history is not None:
            history.write_text("\n".join(outcome.history) + "\n")
        if outcome.found:
            failed.append(seed)
            if shrinks:
                one, outcome = shortest(one, outcome.found[0])
            print(told(seed, one, outcome), flush=True)
    spent = time.process_time() - begun
    print(
        f"{len(done)} worlds, {steps} steps in {spent:.0f} CPU seconds, {steps / max(spent, 1e-9):.0f} each;", end=" "
    )
    print(f"{len(failed)} with findings {failed or ''}")
    _note(done, steps, failed, short=short)
    return len(failed)


def _note(done: Sequence[int], steps: int, failed: Sequence[int], *, short: bool) -> None:
    if not done:
        return
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    tree = subprocess.run(words, capture_output=True, text=True, check=False, cwd=_SEARCHED.parent).stdout.strip()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
    seeds = f"{done[0]}-{done[-1]}{' short' if short else ''}"
    found = ",".join(map(str, failed)) or "-"
    with _SEARCHED.open("a") as file:
        file.write(f"{now}\t{tree or 'unknown'}\t{seeds}\t{len(done)}\t{steps}\t{found}\n")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-99", help="A-B, both included")
    parser.add_argument("--short", action="store_true", help="stories of a third of the time")
    parser.add_argument("--no-shrink", action="store_true", help="print all deeds of a story that fails")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no world after so many CPU seconds")
    parser.add_argument("--history", type=Path, help="write the history of the last world to this file")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    found = search(seeds, short=given.short, shrinks=not given.no_shrink, seconds=given.seconds, history=given.history)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
