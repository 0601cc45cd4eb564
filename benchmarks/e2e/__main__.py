"""``python -m benchmarks.e2e [--kubeconfig FILE] [--shapes 200x8 500x20] [--setups definitions installed] ...``.

Runs of several setups are interleaved, and each round begins with another one, so that what else happens on the machine
meets all of them; their ratio holds where absolute figures do not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.e2e import admission, load, raw, report, volcano, volcano_webhooks
from benchmarks.e2e.accounts import COMPONENTS, Accounts
from benchmarks.e2e.processes import Process, Usage, component, cpu_seconds, served, usage_of
from unisono.api.annotations import CYCLES_LEASE
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load as read_kubeconfig

# Longest time for an embedded server to start, the making of its nodes and pods included.
_SERVER_SECONDS = 900.0
VOLCANO = frozenset((report.VOLCANO, report.VOLCANO_ASKED))


def main() -> int:
    """Measure, print, and on wish put the tables into docs/performance.md."""
    parser = argparse.ArgumentParser(prog="benchmarks.e2e", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="an API server with our kinds; without it an embedded one")
    parser.add_argument("--shapes", nargs="*", default=["200x8", "500x20"], help="JOBSxPODS ...")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument(
        "--setups",
        nargs="*",
        choices=report.SETUPS,
        default=["definitions"],
        help="definitions: our kinds and components alone; installed: policies and webhook besides; volcano: Volcano's "
        "scheduler and controllers on the same definitions and simulated nodes; volcano-webhooks: its webhooks besides",
    )
    parser.add_argument(
        "--volcano",
        type=Path,
        metavar="DIR",
        help="where vc-scheduler, vc-controller-manager and, for its webhooks, vc-webhook-manager are",
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often each setup runs, in turn")
    parser.add_argument(
        "--warm-up",
        metavar="JOBSxPODS",
        help="run the first setup once before, and tell nothing of it: the garbage collector of a fresh server has yet "
        "to meet our kinds, which spares the first run its reads",
    )
    parser.add_argument("--raw", type=int, default=0, metavar="PODS", help="also measure the server's own limits")
    parser.add_argument(
        "--pid", action="append", default=[], metavar="NAME=PID", help="also tell the CPU of a process, such as etcd"
    )
    parser.add_argument("--restart", action="store_true", help="also measure a restart with 5,000 nodes, 50,000 pods")
    parser.add_argument("--restart-size", nargs=2, type=int, default=(5000, 50_000), metavar=("NODES", "PODS"))
    parser.add_argument("--patience", type=float, default=600.0, help="seconds after which a shape counts as failed")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--write", action="store_true", help="put the results into docs/performance.md")
    options = parser.parse_args()
    if VOLCANO & set(options.setups) and (options.volcano is None or options.kubeconfig is None):
        parser.error("the setups of Volcano need --volcano DIR and --kubeconfig FILE of a Kubernetes API server")
    # Ended from outside, the processes that are measured must end as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="unisono-e2e-") as folder:
        runs, restart, limits = asyncio.run(_measure(options, Path(folder)))
    title = "embedded" if options.kubeconfig is None else "kube-apiserver"
    if options.write:
        report.write(title, runs, restart, options.nodes, limits)
    if options.output == "json":
        found = {"server": title, "runs": [report.plain(run) for run in runs], "restart": restart, "limits": limits}
        print(json.dumps(found))
    else:
        print("\n\n".join(report.tables(runs, restart, limits)))
    return 0


_Found = tuple[list[report.Run], dict[str, float] | None, dict[str, float] | None]


async def _measure(options: Any, folder: Path) -> _Found:
    async with _server(options.kubeconfig, folder) as kubeconfig:
        client = HttpClient(read_kubeconfig(kubeconfig))
        try:
            if not await load.has_our_kinds(client):
                raise SystemExit("the server lacks our kinds: unisono crds | kubectl apply --server-side -f -")
            limits = await raw.limits(client, options.raw) if options.raw else None
            if options.warm_up:
                await _run(client, kubeconfig, folder, load.parse_shape(options.warm_up), options.setups[0], options)
            runs = [
                await _run(client, kubeconfig, folder, load.parse_shape(shape), setup, options)
                for shape in options.shapes
                for number in range(options.rounds)
                for setup in report.turned(options.setups, number)
            ]
        finally:
            await client.close()
    return runs, await _restart_on_full_cluster(options, folder) if options.restart else None, limits


async def _restart_on_full_cluster(options: Any, folder: Path) -> dict[str, float]:
    """A restart on the server that is named, or on an embedded one of its own."""
    home = folder / "restart"
    home.mkdir()
    holds = () if options.kubeconfig is not None else options.restart_size
    async with _server(options.kubeconfig, home, *holds) as kubeconfig:
        client = HttpClient(read_kubeconfig(kubeconfig))
        try:
            if holds:
                return await _restart(client, kubeconfig, home, options)
            namespace = await load.new_namespace(client, "bench-restart-")
            try:
                await load.furnish(client, namespace, *options.restart_size)
                return await _restart(client, kubeconfig, home, options)
            finally:
                await load.remove(client, namespace)
                await load.remove_nodes(client, load.FURNISHED)
        finally:
            await client.close()


@asynccontextmanager
async def _server(kubeconfig: Path | None, folder: Path, *holds: int) -> AsyncIterator[Path]:
    """The API server that is named, or an embedded one that ``holds`` so many nodes and pods."""
    if kubeconfig is not None:
        yield kubeconfig
        return
    words = [sys.executable, "-m", "benchmarks.e2e.server", str(folder), *map(str, holds)]
    process = Process("API server", words, folder / "server.log")
    try:
        deadline = time.monotonic() + _SERVER_SECONDS
        while not (folder / "kubeconfig").exists():
            if time.monotonic() > deadline:
                raise SystemExit((folder / "server.log").read_text())
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        yield folder / "kubeconfig"
    finally:
        process.stop()


@asynccontextmanager
async def _identities(
    client: HttpClient, kubeconfig: Path, folder: Path, options: Any, setup: str = report.SETUPS[0]
) -> AsyncIterator[tuple[Accounts, dict[str, Path]]]:
    """Kubeconfig of each component: with accounts of their own on a server that is named, or for a webhook."""
    accounts = Accounts(client)
    if options.kubeconfig is None and setup != report.INSTALLED:
        yield accounts, dict.fromkeys(COMPONENTS, kubeconfig)
        return
    try:
        yield accounts, await accounts.make(folder)
    finally:
        await accounts.remove()


async def _run(
    client: HttpClient, kubeconfig: Path, folder: Path, shape: load.Shape, setup: str, options: Any
) -> report.Run:
    """One shape on fresh components."""
    async with _identities(client, kubeconfig, folder, options, setup) as (accounts, identities):
        return await _run_as(client, accounts, identities, folder, shape, setup, options)


async def _run_as(
    client: HttpClient,
    accounts: Accounts,
    identities: dict[str, Path],
    folder: Path,
    shape: load.Shape,
    setup: str,
    options: Any,
) -> report.Run:
    # As its Deployment says; the account may write no other.
    heartbeat = [f"--heartbeat-lease={accounts.namespace}/{CYCLES_LEASE}"] if accounts.namespace else []
    parts = [component("agent", identities["agent"], folder, "--simulate", str(options.nodes))]
    if setup in VOLCANO:
        parts += volcano.components(options.volcano, options.kubeconfig, folder)
    else:
        parts.append(component("controllers", identities["controllers"], folder))
        parts.append(component("scheduler", identities["scheduler"], folder, *heartbeat))
    namespace = await load.new_namespace(client, "bench-")
    others = {name: int(pid) for name, _, pid in (text.partition("=") for text in options.pid)}
    try:
        for part in parts:
            await part.ready()
        if setup == report.INSTALLED:
            parts.append(await admission.installed(accounts, identities["webhook"], folder, namespace))
        if setup == report.VOLCANO_ASKED:
            parts.append(await volcano_webhooks.started(client, options.volcano, options.kubeconfig, folder, namespace))
        text = await _server_metrics(client)
        before = {part.name: part.usage() for part in parts} | {"API server": usage_of(text)}
        asked, spent = served(text), {name: cpu_seconds(pid) for name, pid in others.items()}
        times = await load.submit(client, namespace, shape, options.patience)
        # What follows the last start (status of jobs, PodGroups and queues) belongs to the jobs as well.
        await asyncio.sleep(5)
        usage = {part.name: part.usage().since(before[part.name]) for part in parts}
        text = await _server_metrics(client)
        usage["API server"] = usage_of(text).since(before["API server"])
        usage |= {name: Usage(cpu_seconds(pid) - spent[name], 0) for name, pid in others.items()}
        answered = served(text)
        answered.subtract(asked)
    finally:
        for part in reversed(parts):
            if isinstance(part, volcano_webhooks.VolcanoWebhooks):
                await volcano_webhooks.removed(client, part.made)
            part.stop()
        if options.kubeconfig is not None:
            await load.remove(client, namespace)
            await load.remove_nodes(client, load.SIMULATED)
    return report.Run(str(shape), shape.total, times, usage, setup, +answered)


async def _server_metrics(client: HttpClient) -> str:
    """Of the API server itself; etcd and Kubernetes' own controllers are not in it."""
    _, _, body = await client.request("GET", "/metrics", accept="text/plain")
    return body.decode()


async def _restart(client: HttpClient, kubeconfig: Path, folder: Path, options: Any) -> dict[str, float]:
    """Seconds from the scheduler's start to its first bind, in a cluster that is full of nodes and pods."""
    async with _identities(client, kubeconfig, folder, options) as (_, identities):
        return await _restart_as(client, identities, folder, options)


async def _restart_as(client: HttpClient, identities: dict[str, Path], folder: Path, options: Any) -> dict[str, float]:
    nodes, pods = options.restart_size
    controllers = component("controllers", identities["controllers"], folder)
    scheduler = None
    fresh = await load.new_namespace(client, "bench-restart-new-")
    follower = load.Follower(client, fresh, 8)
    watching = asyncio.create_task(follower.pods.run())
    try:
        await controllers.ready()
        await follower.pods.synced.wait()
        await client.create(load.JOBS, load.job("first", fresh, 8))
        await asyncio.sleep(5)
        started = time.monotonic()
        scheduler = component("scheduler", identities["scheduler"], folder)
        async with asyncio.timeout(options.patience):
            await follower.any_bound.wait()
        usage = scheduler.usage()
        return {
            "nodes": nodes,
            "pods": pods,
            "seconds": follower.first_bound_at - started,
            "cpu_seconds": usage.cpu_seconds,
            "rss_bytes": usage.rss_bytes,
        }
    finally:
        watching.cancel()
        for part in (controllers, scheduler):
            if part is not None:
                part.stop()
        if options.kubeconfig is not None:
            await load.remove(client, fresh)


if __name__ == "__main__":
    raise SystemExit(main())
