"""What checksums cost: CRC-32 against BLAKE2b with 8 bytes by the size of an object, and the start of a closed store.

Run: ``python benchmarks/store_checksums.py``
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from unisono.apiserver.storage.database import Database
from unisono.apiserver.storage.schema import object_sum
from unisono.apiserver.storage.store import Change, Store

KEY = ("jobs.batch.volcano.sh", "default", "job-12345")
ROUNDS = 50_000
OBJECTS, BATCH = 52_000, 2_000


def blake2(resource: str, namespace: str, name: str, revision: int, data: bytes) -> int:
    """As ``object_sum``, by BLAKE2b."""
    digest = blake2b(f"{resource}\0{namespace}\0{name}\0{revision}\0".encode(), digest_size=8)
    digest.update(data)
    return int.from_bytes(digest.digest(), "big")


def _encoder(name: str) -> Callable[[int], bytes]:
    metadata = {"name": name, "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n" * 1_850}}

    def encode(revision: int) -> bytes:
        return json.dumps({**pod, "metadata": {**metadata, "resourceVersion": str(revision)}}).encode()

    return encode


async def _fill(path: Path) -> None:
    store = await Store.open(path)
    for first in range(0, OBJECTS, BATCH):
        names = [f"p{number}" for number in range(first, first + BATCH)]
        await store.write([Change(("pods", "default", name), 0, _encoder(name)) for name in names])
    await store.close()


def start_seconds() -> float:
    """CPU seconds to open a closed store of ``OBJECTS`` objects of 2 kB; the least of five."""
    found = []
    with tempfile.TemporaryDirectory(prefix="unisono-checksums-") as folder:
        path = Path(folder, "state.db")
        asyncio.run(_fill(path))
        for _ in range(5):
            database = Database(path)
            began = time.process_time()
            database.open()
            database.load()
            found.append(time.process_time() - began)
            database.close()
    return min(found)


def main() -> None:
    """Print microseconds per row, and CPU seconds of a start."""
    for size in (700, 2_000, 20_000):
        data = os.urandom(size)
        for name, function in (("CRC-32", object_sum), ("BLAKE2b-8", blake2)):
            began = time.perf_counter()
            for revision in range(ROUNDS):
                function(*KEY, revision, data)
            print(f"{size:>6} bytes  {name:<9} {(time.perf_counter() - began) / ROUNDS * 1e6:6.2f} us")
    print(f"start of a closed store of {OBJECTS:,} objects of 2 kB: {start_seconds():.2f} s")


if __name__ == "__main__":
    main()
