"""``python -m benchmarks.api.reading KUBECONFIG``: one client that reads every 10 ms, until SIGTERM.

It has a process of its own, as kubectl has: the times are the server's, not those of a busy client. It
prints the seconds of all reads as JSON.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

from benchmarks.api.load import checked
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load

PATH = "/api/v1/namespaces/default/configmaps/read"
_PAUSE_SECONDS = 0.01


async def read(kubeconfig: Path) -> list[float]:
    """Seconds of each read."""
    stopped, latencies = asyncio.Event(), list[float]()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    client = HttpClient(load(kubeconfig))
    try:
        while not stopped.is_set():
            sent = time.perf_counter()
            await checked(client, "GET", PATH)
            latencies.append(time.perf_counter() - sent)
            await asyncio.sleep(_PAUSE_SECONDS)
    finally:
        await client.close()
    return latencies


if __name__ == "__main__":
    print(json.dumps(asyncio.run(read(Path(sys.argv[1])))))
