"""Runs of a sweep as pods: of a cluster, or of the control plane of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unisono import __version__
from unisono.simulator.studies.sweep import Point, ship, simulate, simulate_shipped

if TYPE_CHECKING:
    from unisono.sdk.clients.client import Client

_RUNS_PER_POD = 16
"""Runs that a pod of one job makes; the results of a job that has ended are kept when the sweep is stopped."""


THIS_MACHINE = "this-machine"


def client_of(where: str) -> Client:
    """The client of a kubeconfig, of the data directory of a control plane, or of the one that runs on this machine."""
    from unisono.sdk.clients.client import Client

    if where == THIS_MACHINE:
        return Client(quiet=True)
    if Path(where).is_dir():
        return Client(data_dir=where, quiet=True)
    return Client(kubeconfig=where, quiet=True)


def on_pods(
    client: Client, todo: Sequence[Point], *, workers: int, image: str | None, queue: str
) -> Iterator[tuple[int, bytes]]:
    """Run points in so many pods at a time; yields the number of each with its line, job by job.

    On this machine the pods read the files where they are; elsewhere the files travel with the runs.
    """
    from unisono.sdk import map as spread

    local = client.endpoint().local
    for first in range(0, len(todo), workers * _RUNS_PER_POD):
        some = todo[first : first + workers * _RUNS_PER_POD]
        pods = min(workers, len(some))
        if local:
            lines = spread(simulate, some, workers=pods, cpu=1, name="sweep", queue=queue, client=client)
        else:
            wanted = image or f"unisono:{__version__}"
            lines = spread(
                simulate_shipped,
                ship(some),
                workers=pods,
                cpu=1,
                name="sweep",
                queue=queue,
                image=wanted,
                client=client,
            )
        yield from enumerate(lines, start=first)
