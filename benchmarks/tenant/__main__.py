"""``python -m benchmarks.tenant [--only TEXT ...] [--write]``: attacks of a user with ``edit`` in one namespace.

Starts ``unisono up`` in a folder of its own, with simulated nodes, and with this machine as a node where run as root.
After each attack, while it goes on, another user's gang of two must start; all the time that user reads a small object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks import report, tenant
from benchmarks.api.load import percentile
from benchmarks.hostile import plane
from benchmarks.tenant.table import ATTACKS, ON_THE_MACHINE
from benchmarks.tenant.world import Bystander, Felt, attacker, bystander
from unisono.kube.listening import raise_open_files

# In the order of the list: numbers of attacks stay when modules are added at the end.
_MODULES = (
    *(
        tenant.expanding,
        tenant.machine,
        tenant.pages,
        tenant.scheduling,
        tenant.records,
        tenant.rights,
        tenant.taking,
        tenant.texts,
    ),
    *(tenant.selecting, tenant.storms, tenant.controlling, tenant.commanding, tenant.wires),
)
_NODES = """
- {name: node, count: 20, capacity: {cpu: 64, memory: 256Gi}, devices: {cards.example.com: 8}}
- name: quiet
  count: 2
  capacity: {cpu: 64, memory: 256Gi}
  labels: {for: bystander}
  taints: [{key: for, value: bystander, effect: NoSchedule}]
"""
_SETTLE_SECONDS = 3.0


@dataclass
class Row:
    """What came of one attack."""

    what: str
    felt: Felt
    faults: list[str]
    answers: Counter[int]


async def _attack(
    number: int, what: str, running: plane.Plane, other: Bystander, here: str, options: argparse.Namespace
) -> Row:
    before = other.memory()
    async with attacker(running, f"mallory-{number}", here, options.place) as world:

        async def act() -> None:
            try:
                await asyncio.wait_for(ATTACKS[what](world), options.seconds)
            except TimeoutError:
                world.answers.append(0)

        felt = await other.feels(act, options.patience)
        if not felt.started:
            world.fault(f"the bystander's job did not start: {felt.said}")
        elif felt.own > options.wait:
            world.fault(f"the bystander's job took {felt.own:.1f} s of the control plane's own time")
    await asyncio.sleep(_SETTLE_SECONDS)
    felt.kept = other.memory() - before
    return Row(what, felt, world.faults, Counter(world.answers))


async def _run(options: argparse.Namespace) -> list[Row]:
    rows = []
    agent = os.geteuid() == 0 and not options.no_agent
    async with plane.running(options.place, agent=agent, nodes_file=_NODES) as running:
        here = socket.gethostname().lower() if agent else ""
        async with bystander(running, here) as other:
            for number, what in enumerate(_listed(), 1):
                if not options.start <= number < options.start + options.count:
                    continue
                if options.only and not any(text in what for text in options.only):
                    continue
                if what in ON_THE_MACHINE and not here:
                    continue
                row = await _attack(number, what, running, other, here, options)
                rows.append(row)
                print(f"{number}. {_line(row)}", file=sys.stderr, flush=True)
                for fault in row.faults[:10]:
                    print(f"    FAULT: {fault[:1500]}", file=sys.stderr, flush=True)
    return rows


def _listed() -> list[str]:
    """The attacks in a fixed order."""
    places = {module.__name__: number for number, module in enumerate(_MODULES)}
    return sorted(ATTACKS, key=lambda what: places[ATTACKS[what].__module__])


def _line(row: Row) -> str:
    felt, answers = row.felt, ", ".join(f"{count} x {code}" for code, count in row.answers.most_common(4))
    half, most = (percentile(felt.reads, share) * 1000 for share in (0.5, 0.99))
    return (
        f"{row.what}: job {felt.waited:.1f} s (own {felt.own:.1f}, CPU {felt.cpu:.1f}), reads p50 {half:.0f} ms "
        f"p99 {most:.0f} ms max {max(felt.reads) * 1000:.0f} ms, "
        f"memory {felt.grown >> 20:+d} MiB, afterwards {felt.kept >> 20:+d} MiB; {answers}"
    )


def _table(rows: list[Row]) -> str:
    lines = [
        "| attack | gang starts | a read: 99 % | memory meanwhile | afterwards | harm |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        felt = row.felt
        lines.append(
            f"| {row.what} | {felt.waited:.1f} s | {percentile(felt.reads, 0.99) * 1000:.0f} ms "
            f"| {felt.grown >> 20:+d} MiB | {felt.kept >> 20:+d} MiB | {len(row.faults) or 'none'} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Attack, and report; 1 when something was harmed."""
    parser = argparse.ArgumentParser(prog="benchmarks.tenant", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="attacks whose description has one of these texts")
    parser.add_argument("--start", type=int, default=1, help="number of the first attack of the list")
    parser.add_argument("--count", type=int, default=10_000, help="how many attacks of the list")
    parser.add_argument("--seconds", type=float, default=90.0, help="how long an attack may go on")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds that the bystander's job may take")
    parser.add_argument("--wait", type=float, default=5.0, help="seconds of its own that the control plane may take")
    parser.add_argument("--no-agent", action="store_true", help="simulated nodes only")
    parser.add_argument("--folder", type=Path, help="where the control plane keeps its data")
    parser.add_argument("--list", action="store_true", help="print the attacks with their numbers, and end")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{number}. {what}" for number, what in enumerate(_listed(), 1)))
        return 0
    raise_open_files()
    with tempfile.TemporaryDirectory(prefix="unisono-tenant-") as folder:
        Path(folder).chmod(0o755)
        options.place = options.folder or Path(folder)
        rows = asyncio.run(_run(options))
    if options.output == "json":
        print(json.dumps([{"attack": row.what, "faults": row.faults} for row in rows], indent=2))
    else:
        print(_table(rows))
    if options.write:
        report.PAGE.write_text(report.put(report.PAGE.read_text(), "tenant", _table(rows)))
    return 1 if any(row.faults for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
