"""``kubectl unisono``: the same commands, on the cluster that kubectl talks to."""

from __future__ import annotations

from unisono.cli.main import main as run

PROGRAM = "kubectl unisono"


def main() -> None:
    """Run the command line as kubectl's plug-in: without options the cluster is kubectl's, not this machine's."""
    run(program=PROGRAM, kubectl=True)
