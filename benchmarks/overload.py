"""``python -m benchmarks.overload [--only PART ...] [--write]``: slow clients, many watchers, and an idle server.

Everything runs on this machine, over loopback, and ends after a few minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks import report
from benchmarks.api.load import checked, percentile
from benchmarks.api.serving import Server, api_alone, whole_plane
from unisono.kube.listening import raise_open_files

_MAPS = "/api/v1/namespaces/default/configmaps"
_PODS = "/api/v1/pods"
_MIB = 1 << 20
Row = tuple[str, str]


async def idle(folder: Path, seconds: int = 60) -> AsyncIterator[Row]:
    """CPU of ``unisono up`` with three simulated nodes and nothing to do."""
    nodes = folder / "nodes.yaml"
    nodes.write_text("- {name: node, count: 3, capacity: {cpu: 8, memory: 32Gi}}\n")
    async with whole_plane(folder / "idle", nodes) as server:
        await asyncio.sleep(20)
        before = server.cpu_seconds()
        await asyncio.sleep(seconds)
        shares = [100 * (after - then) / seconds for after, then in zip(server.cpu_seconds(), before, strict=True)]
        told = " + ".join(f"{share:.2f} %" for share in shares)
        yield f"CPU of an idle `unisono up` over {seconds} s, of one core", f"{told} (API, scheduler and controllers)"


async def trickle(folder: Path, connections: int = 900, seconds: int = 20) -> AsyncIterator[Row]:
    """Clients that send a byte of their headers a second."""
    async with api_alone(folder / "trickle") as server:
        before = server.resident()
        # They come over ten seconds: their handshakes would otherwise be measured, which take this process's time.
        attack = [asyncio.create_task(_trickle(server, 10 * n / connections)) for n in range(connections)]
        try:
            await asyncio.sleep(12)
            began, cpu = time.perf_counter(), server.cpu_seconds()[0]
            waits = []
            while time.perf_counter() - began < seconds:
                sent = time.perf_counter()
                async with _connected(server, "/readyz") as reader:
                    assert b"200" in await reader.readline()
                waits.append(time.perf_counter() - sent)
                await asyncio.sleep(0.1)
            cpu = (server.cpu_seconds()[0] - cpu) / (time.perf_counter() - began)
            grown = (server.resident() - before) / _MIB
        finally:
            await _end(attack)
        what = f"{connections} connections that trickle their headers and come again when they are dropped"
        yield f"{what}: CPU, memory", f"{100 * cpu:.0f} % of a core, +{grown:.0f} MiB"
        told = f"{percentile(waits, 0.5) * 1000:.0f} ms, 99 % within {percentile(waits, 0.99) * 1000:.0f} ms"
        yield "an answer to a new client meanwhile", told


async def unread(folder: Path, lists: int = 200) -> AsyncIterator[Row]:
    """Lists of fifty megabytes that are not read."""
    async with api_alone(folder / "unread") as server:
        for number in range(50):
            body = {"metadata": {"name": f"c{number}"}, "data": {"x": "y" * 1_000_000}}
            await checked(server.client, "POST", _MAPS, body=json.dumps(body).encode())
        before = server.resident()
        attack = [asyncio.create_task(_hold(server, _MAPS)) for _ in range(lists)]
        try:
            await asyncio.sleep(8)
            grown = (server.resident() - before) / _MIB
            waits = []
            for _ in range(50):
                sent = time.perf_counter()
                await checked(server.client, "GET", "/readyz")
                waits.append(time.perf_counter() - sent)
        finally:
            await _end(attack)
        yield f"{lists} lists of 50 MB that are not read: memory", f"+{grown:.0f} MiB"
        yield "an answer to another client meanwhile", f"{percentile(waits, 0.5) * 1000:.1f} ms"


async def watchers(folder: Path, count: int = 2000, nodes: int = 1000, pods: int = 50_000) -> AsyncIterator[Row]:
    """Watchers of all pods, of two users."""
    async with api_alone(folder / "watchers", nodes, pods) as server:
        listed = json.loads(await checked(server.client, "GET", f"{_PODS}?limit=1"))
        version, first = listed["metadata"]["resourceVersion"], listed["items"][0]["metadata"]
        name = f"/api/v1/namespaces/{first['namespace']}/pods/{first['name']}"
        before, heard, changes = server.resident(), 0, 20
        news = asyncio.Event()

        def hear() -> None:
            nonlocal heard
            heard += 1
            news.set()

        path = f"{_PODS}?watch=1&resourceVersion={version}"
        opened = asyncio.Semaphore(64)
        ready: list[bool] = []
        tasks = [asyncio.create_task(_watch(server, path, n % 2, hear, opened, ready)) for n in range(count)]
        try:
            while len(ready) < count:
                await asyncio.sleep(0.1)
                for task in tasks:
                    if task.done():
                        task.result()
            grown = (server.resident() - before) / _MIB
            latencies, began, cpu = [], time.perf_counter(), server.cpu_seconds()[0]
            for number in range(changes):
                sent, wanted = time.perf_counter(), heard + count
                patch = json.dumps({"metadata": {"annotations": {"bench": str(number)}}}).encode()
                await checked(server.client, "PATCH", name, body=patch, content_type="application/merge-patch+json")
                while heard < wanted:
                    news.clear()
                    await news.wait()
                latencies.append(time.perf_counter() - sent)
            seconds = time.perf_counter() - began
            cpu = server.cpu_seconds()[0] - cpu
        finally:
            await _end(tasks)
        yield f"{count:,} watchers of {pods:,} pods: memory", f"+{grown:.0f} MiB ({1024 * grown / count:.0f} KiB each)"
        told = (
            f"{percentile(latencies, 0.5) * 1000:.0f} ms, {1e6 * cpu / changes / count:.0f} µs of the server's CPU each"
        )
        yield f"a change reaches all of them, {changes * count / seconds:,.0f} events/s", told


PARTS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "idle": idle,
    "trickle": trickle,
    "unread": unread,
    "watchers": watchers,
}


@asynccontextmanager
async def _connected(server: Server, path: str, user: str = "") -> AsyncIterator[asyncio.StreamReader]:
    """The answer to a GET on a connection of its own."""
    config = server.client.config
    context = ssl.create_default_context(cadata=config.ca.decode() if config.ca else None)
    host, _, port = config.server.removeprefix("https://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context, limit=1024)
    try:
        head = [f"GET {path} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {config.token}"]
        if user:
            head += [f"Impersonate-User: {user}", "Impersonate-Group: system:masters"]
        writer.write("\r\n".join([*head, "", ""]).encode())
        yield reader
    finally:
        writer.transport.abort()


async def _trickle(server: Server, delay: float) -> None:
    await asyncio.sleep(delay)
    config = server.client.config
    context = ssl.create_default_context(cadata=config.ca.decode() if config.ca else None)
    host, _, port = config.server.removeprefix("https://").rpartition(":")
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        except OSError:
            await asyncio.sleep(1)
            continue
        try:
            writer.write(b"GET /readyz HTTP/1.1\r\nX-Slow: ")
            while not reader.at_eof() and not writer.transport.is_closing():
                writer.write(b"x")
                await asyncio.sleep(1)
        except OSError:
            pass
        finally:
            writer.transport.abort()


async def _hold(server: Server, path: str) -> None:
    async with _connected(server, path) as reader:
        await reader.readline()
        await asyncio.sleep(3600)


async def _watch(
    server: Server, path: str, user: int, hear: Callable[[], None], opened: asyncio.Semaphore, ready: list[bool]
) -> None:
    async with opened:
        entered = _connected(server, path, "second" if user else "")
        reader = await entered.__aenter__()
        status = await reader.readline()
        if b"200" not in status:
            raise RuntimeError(f"a watch was refused: {status.decode().strip()}")
        await reader.readuntil(b"\r\n\r\n")
        ready.append(True)
    try:
        while data := await reader.read(1 << 16):
            for _ in range(data.count(b'{"type":"')):
                hear()
    finally:
        await entered.__aexit__(None, None, None)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _measure(parts: list[str]) -> list[Row]:
    found = []
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="unisono-overload-") as folder:
            async for row in PARTS[part](Path(folder)):
                print(": ".join(row), flush=True)
                found.append(row)
    return found


def main() -> int:
    """Measure, print, and on wish put the table into docs/performance.md."""
    parser = argparse.ArgumentParser(prog="benchmarks.overload", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, help="measure these parts (all by default)")
    parser.add_argument("--write", action="store_true", help="put the results into docs/performance.md")
    options = parser.parse_args()
    raise_open_files()
    found = asyncio.run(_measure(options.only or list(PARTS)))
    if options.write:
        table = ["| what | measured |", "|---|---|", *(f"| {what} | {value} |" for what, value in found)]
        report.PAGE.write_text(report.put(report.PAGE.read_text(), "overload", "\n".join(table)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
