"""Starting on a data file that holds many objects."""

from __future__ import annotations

from pathlib import Path

from benchmarks.api.load import PODS, checked, pod
from benchmarks.api.serving import api_alone
from benchmarks.measure import Row
from unisono.apiserver.storage.store import Change, Store

_BATCH = 1_000


async def row(folder: Path, objects: int) -> Row:
    """Seconds from starting the process to ``/readyz``, with ``objects`` pods in the file."""
    async with api_alone(folder) as server:
        empty = server.start_seconds
        await checked(server.client, "POST", PODS, body=pod("first"))
        stored = await checked(server.client, "GET", f"{PODS}/first")
    await _fill(folder / "state.db", stored, objects)
    async with api_alone(folder) as server:
        seconds = server.start_seconds
        resident = server.resident() / 1024**2
    note = f"{empty:.2f} s with an empty file; {resident:,.0f} MiB"
    return Row(f"start with {objects:,} objects", seconds, "s", 5, "less", note)


async def _fill(file: Path, stored: bytes, objects: int) -> None:
    """Copies of one pod, written by the store itself."""
    store = await Store.open(file)
    for begin in range(0, objects, _BATCH):
        changes = [_copy(stored, f"copy-{index:06}") for index in range(begin, min(begin + _BATCH, objects))]
        await store.write(changes)
    await store.close()


def _copy(stored: bytes, name: str) -> Change:
    data = stored.replace(b'"first"', b'"%s"' % name.encode())
    return Change(("pods", "default", name), 0, lambda _: data)
