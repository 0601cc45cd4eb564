"""What a checksum per row costs: CRC-32 against BLAKE2b with 8 bytes, by the size of an object.

Run: ``python benchmarks/store_checksums.py``
"""

from __future__ import annotations

import os
import time
from hashlib import blake2b

from unisono.apiserver.storage.rows import object_sum

KEY = ("jobs.batch.volcano.sh", "default", "job-12345")
ROUNDS = 50_000


def blake2(resource: str, namespace: str, name: str, revision: int, data: bytes) -> int:
    """As ``object_sum``, by BLAKE2b."""
    digest = blake2b(f"{resource}\0{namespace}\0{name}\0{revision}\0".encode(), digest_size=8)
    digest.update(data)
    return int.from_bytes(digest.digest(), "big")


def main() -> None:
    """Print microseconds per row."""
    for size in (700, 2_000, 20_000):
        data = os.urandom(size)
        for name, function in (("CRC-32", object_sum), ("BLAKE2b-8", blake2)):
            began = time.perf_counter()
            for revision in range(ROUNDS):
                function(*KEY, revision, data)
            print(f"{size:>6} bytes  {name:<9} {(time.perf_counter() - began) / ROUNDS * 1e6:6.2f} us")


if __name__ == "__main__":
    main()
