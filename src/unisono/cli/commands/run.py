"""``unisono run``."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Where, output_option, where_options

if TYPE_CHECKING:
    from pathlib import Path

    from unisono.cli.manifests import Manifest
    from unisono.cli.report import Reporter
    from unisono.cli.views import JobView


@click.command("run")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--logs/--no-logs", default=True, show_default=True, help="Copy the logs of the jobs' containers.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Give up after so many seconds.")
@click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Add simulated nodes (see 'unisono up').",
)
@output_option("text", "json")
@where_options
def command(
    where: Where,
    files: tuple[str, ...],
    logs: bool,
    timeout: float | None,
    nodes_file: str | None,
    output: str,
) -> None:
    """Submit the objects of the files, follow their jobs to the end and say how they ended.

    Where no control plane is running and none is named, a private one is started for this command and taken away
    afterwards. The exit code is 0 only if every job completed, 124 after --timeout.
    """
    from unisono.cli.manifests import read
    from unisono.cli.workloads import is_workload, nothing_to_run
    from unisono.errors import UnisonoError

    manifests = read(files)
    if not any(is_workload(manifest) for manifest in manifests):
        raise UnisonoError(nothing_to_run(manifests))
    raise SystemExit(asyncio.run(_interruptible(_run(where, manifests, logs, timeout, nodes_file, output))))


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Run to the end, or until Ctrl-C or SIGTERM; either way a private control plane and its pods are taken away."""
    task = asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def interrupt(name: signal.Signals) -> None:
        received.append(name)
        task.cancel()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, interrupt, name)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]


async def _run(
    where: Where,
    manifests: list[Manifest],
    logs: bool,
    timeout: float | None,
    nodes_file: str | None,
    output: str,
) -> int:
    from unisono.cli.printing import print_json
    from unisono.cli.report import reporter
    from unisono.cli.views import SUCCEEDED

    report = reporter(json_output=output == "json")
    started = time.monotonic()
    views: list[JobView] = []
    timed_out = False
    try:
        async with _control_plane(where, report, nodes_file) as place:
            rest = "their processes are ended" if place.private else "the jobs go on"
            try:
                async with asyncio.timeout(timeout):
                    await _submit_and_follow(place, manifests, report, logs, views)
            except TimeoutError:
                timed_out = True
                report.line("run", f"gave up after {timeout:g} s; {rest}")
            except asyncio.CancelledError:
                report.line("run", f"interrupted; {rest}")
                raise
    finally:
        report.close()
    seconds = time.monotonic() - started
    succeeded = not timed_out and all(view.phase == SUCCEEDED for view in views)
    if output == "json":
        from unisono.cli.following import result_of

        print_json(
            {
                "succeeded": succeeded,
                "seconds": round(seconds, 3),
                "jobs": [result_of(v, seconds) for v in views],
            }
        )
    else:
        for view in views:
            click.echo(_verdict(view, seconds))
    return 0 if succeeded else 124 if timed_out else 1


async def _submit_and_follow(
    place: _Place, manifests: list[Manifest], report: Reporter, logs: bool, views: list[JobView]
) -> None:
    """Create everything and follow the jobs; ``views`` holds what is known of them, also after an interruption."""
    from unisono.api.decode import decode
    from unisono.api.kinds import JOBS, PODS
    from unisono.cli import applying
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.following import Progress
    from unisono.cli.resources import discover
    from unisono.cli.workloads import is_workload, mark_working_directory, target_kind
    from unisono.errors import AlreadyExists, UnisonoError
    from unisono.sdk.events import Target
    from unisono.sdk.sharing import share_folder

    targets = []
    async with connect(place.where) as client:
        resources = await discover(client)
        namespace = namespace_of(place.where)

        async def local_folder(manifest: Manifest) -> None:
            mark_working_directory(manifest)
            own = manifest.metadata.get("namespace") or namespace
            if not place.private and await share_folder(client, own, manifest.folder):
                report.line(f"namespace/{own}", f"its pods may read {manifest.folder} from now on")

        if place.private:
            for extra in _prerequisites(manifests, place.where.namespace):
                result = await applying.create(client, resources, extra, namespace)
                report.line(f"{result.resource.singular}/{result.name}", "created, because the files name it")
        for manifest in manifests:
            if not is_workload(manifest):
                if place.local and manifest.kind == "JobTemplate":
                    await local_folder(manifest)
                result = await applying.apply(client, resources, manifest, namespace)
                report.line(f"{result.resource.singular}/{result.name}", result.action)
                continue
            kind = target_kind(manifest)
            if place.local:
                await local_folder(manifest)
            try:
                result = await applying.create(client, resources, manifest, namespace)
            except AlreadyExists:
                name = manifest.kind.lower()
                typed = name if kind in (JOBS, PODS) else kind.resource
                raise UnisonoError(
                    f"{manifest.where}: the {name} {manifest.name} exists already: delete it with "
                    f"'unisono delete {typed}/{manifest.name}', or give this one another name or a generateName."
                ) from None
            created = decode(kind, result.object).obj
            targets.append(Target(kind, created.metadata.namespace or namespace, result.name, created))
        progress = Progress(targets, report)
        try:
            await progress.follow(client, logs=logs)
        finally:
            views += progress.views


def _prerequisites(manifests: list[Manifest], namespace: str | None) -> list[Manifest]:
    from pathlib import Path

    from unisono.cli.manifests import Manifest
    from unisono.cli.prerequisites import missing_prerequisites

    return [Manifest(value, manifests[0].file, 1, Path()) for value in missing_prerequisites(manifests, namespace)]


@dataclass(frozen=True, slots=True)
class _Place:
    """The control plane to use: the one that is named or runs, else a private one.

    Attributes:
        where: how to reach it.
        local: its pods are processes of this machine.
        private: it ends with this command.
    """

    where: Where
    local: bool = True
    private: bool = False


@asynccontextmanager
async def _control_plane(where: Where, report: Reporter, nodes_file: str | None) -> AsyncIterator[_Place]:
    from unisono.cli.connection import find
    from unisono.standalone.paths import DataDir

    running = DataDir.at(where.data_dir).running_pid() is not None
    if where.named or running:
        find(where)  # complains now, before anything is started
        if nodes_file:
            raise click.UsageError("--nodes adds nodes to a private control plane, and here one is named or running.")
        yield _Place(where, local=where.kubeconfig is None and not where.kubectl)
        return
    async with _private(nodes_file) as folder:
        report.line("control plane", "private, for this command alone")
        yield _Place(Where(data_dir=folder, namespace=where.namespace), private=True)


@asynccontextmanager
async def _private(nodes_file: str | None) -> AsyncIterator[Path]:
    import tempfile
    from pathlib import Path

    from unisono.standalone.logs import configure_logs
    from unisono.standalone.nodes_file import read_nodes
    from unisono.standalone.paths import DataDir
    from unisono.standalone.plane import Plane, PlaneOptions

    with tempfile.TemporaryDirectory(prefix="unisono-", ignore_cleanup_errors=True) as folder:
        data = DataDir(Path(folder))
        configure_logs(data.log)
        nodes = read_nodes(Path(nodes_file)) if nodes_file else ()
        plane = Plane(data, PlaneOptions(simulated_nodes=nodes))
        await plane.start()
        try:
            yield data.root
        finally:
            await plane.stop(kill_pods=True)


def _verdict(view: JobView, seconds: float) -> str:
    from unisono.cli.views import SUCCEEDED, end_text

    good = view.phase == SUCCEEDED
    if good:
        text = f"{view.title} {view.phase.lower()} in {seconds:.1f} s"
    elif view.ended:
        text = f"{view.title} {view.phase.lower()}"
    else:
        text = f"{view.title} has not ended, it is {view.phase.lower()}"
    if not good:
        failed = [end for end in view.ends if end.phase == "Failed"]
        reasons = [message] if (message := view.message or view.waiting) else []
        reasons += [f"{end.name}: {end_text(end)}" for end in failed[:3]]
        text += f": {'; '.join(reasons)}" if reasons else ""
    return click.style(text, fg="green" if good else "red", bold=True)
