"""One ``unisono run`` from the first line to the last: where, what, following it, the end, and what Ctrl-C does."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono.api.conditions import SUCCEEDED
from unisono.cli.options import Where, where_arguments
from unisono.cli.running.submitting import Naming, copy_logs, marked
from unisono.sdk.state.views import JobView, end_text

if TYPE_CHECKING:
    from unisono.cli.manifests import Manifest
    from unisono.cli.running.place import Place
    from unisono.cli.running.report import Reporter
    from unisono.kube.http import HttpClient
    from unisono.sdk.follow.events import Target
    from unisono.sdk.jobs.program import Program
    from unisono.sdk.reasons.failures import Failure


# How the jobs of ``unisono run`` ended: one line each, with the cause, and the result for programs.


def ending_line(view: JobView, seconds: float, failure: Failure | None, *, stopped: bool = False) -> str:
    """The last line of a run, coloured; ``stopped`` where the control plane of a job that has not ended is gone."""
    good = view.phase == SUCCEEDED
    if good:
        text = f"{view.title} {view.phase.lower()} in {seconds:.1f} s"
    elif not view.ended:
        why = view.message or view.waiting
        state = f"did not end, it was {view.phase.lower()}" if stopped else f"has not ended, it is {view.phase.lower()}"
        text = f"{view.title} {state}" + (f": {why}" if why else "")
    elif failure is not None:
        text = f"{view.title} failed: {failure.text}"
    else:
        reasons = [view.message] if view.message else []
        reasons += [f"{end.name}: {end_text(end)}" for end in view.ends if end.phase == "Failed"][:3]
        text = f"{view.title} {view.phase.lower()}" + (f": {'; '.join(reasons)}" if reasons else "")
    return click.style(text, fg="green" if good else "red", bold=True)


def results(
    views: Mapping[Target, JobView], failures: Mapping[Target, Failure], seconds: float, *, succeeded: bool
) -> dict[str, Any]:
    """What ``--output json`` prints."""
    from unisono.cli.running.report import result_of

    jobs = []
    for target, view in views.items():
        failure = failures.get(target)
        cause = {"process": failure.who, "cause": failure.cause, "others": failure.others} if failure else None
        jobs.append({**result_of(view, seconds), "failure": cause})
    return {"succeeded": succeeded, "seconds": round(seconds, 3), "jobs": jobs}


_ANSWERS = ("s", "stop", "l", "leave")


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asked ``unisono run`` for.

    Attributes:
        where: which control plane.
        files: manifests; empty where a program is given.
        program: the command after ``--``.
        logs: copy the logs of the containers.
        timeout: seconds after which following ends.
        nodes_file: simulated nodes of a private control plane.
        output: ``text`` or ``json``.
        replace: delete an earlier run of the same name.
        detach: return when the jobs are created.
        called: the program under another name, for jobs whose own name may be taken; None where it must be free.
        tell: gets each job that is created and not followed.
        silent: nothing is printed of such jobs.
        fleet: the Fleet of a hub to whose members the jobs go; empty for no such bound.
        heard: what was told of the namespace already, by an earlier element of the same array.
        watch: show what the processes use.
    """

    where: Where
    files: tuple[str, ...] = ()
    program: Program | None = None
    logs: bool = True
    timeout: float | None = None
    nodes_file: str | None = None
    output: str = "text"
    replace: bool = False
    detach: bool = False
    called: Callable[[str], Program] | None = None
    tell: Callable[[Target], None] | None = None
    silent: bool = False
    fleet: str = ""
    heard: set[str] = field(default_factory=set)
    watch: bool = False


@dataclass(slots=True)
class _State:
    """What is known of a run, also after an interruption."""

    targets: list[Target] = field(default_factory=list)
    views: dict[Target, JobView] = field(default_factory=dict)
    failures: dict[Target, Failure] = field(default_factory=dict)
    received: list[signal.Signals] = field(default_factory=list)
    timed_out: bool = False
    silence: list[str] = field(default_factory=list)
    private: bool = False


def run(request: Request) -> int:
    """Run to the end; answers the exit code."""
    from unisono.cli.running.submitting import of_files

    manifests = of_files(request.files) if request.files else []
    _check(request)
    state = _State()
    code = asyncio.run(_interruptible(_session(request, manifests, state), state))
    if state.received and state.targets and not state.private:
        _stop_or_leave(request.where, state)
    return code


def _check(request: Request) -> None:
    """Complain of what can be known before a control plane is started.

    Raises:
        UsageError: nothing stays that a detached job could run on.
        BadWork: there is no such program, or it needs an image.
    """
    from unisono.cli.running.place import is_cluster, is_private

    if request.fleet and is_private(request.where):
        raise click.UsageError("--fleet needs a hub: start one with 'unisono up --fleet', or name it.")
    if request.detach and is_private(request.where):
        raise click.UsageError("--detach needs a control plane that stays: start one with 'unisono up --detach'.")
    if request.program is not None:
        from unisono.sdk.jobs.submission import job_of

        job_of(request.program, local=not is_cluster(request.where))


async def _interruptible(work: Any, state: _State) -> int:
    """Run to the end, or until Ctrl-C or SIGTERM; either way a private control plane and its pods are taken away."""
    task = asyncio.ensure_future(work)

    def interrupt(name: signal.Signals) -> None:
        state.received.append(name)
        task.cancel()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, interrupt, name)
    try:
        code: int = await task
        return code
    except asyncio.CancelledError:
        if not state.received:
            raise
        return 128 + state.received[0]


async def _session(request: Request, manifests: Sequence[Manifest], state: _State) -> int:
    from unisono.cli.running.place import control_plane
    from unisono.cli.running.report import reporter

    report = reporter(json_output=request.output == "json" or request.silent)
    started = time.monotonic()
    try:
        async with control_plane(request.where, report, request.nodes_file) as place:
            state.private = place.private
            await _in_time(request, place, manifests, report, state)
    finally:
        report.close()
    return _tell(request, state, time.monotonic() - started)


async def _in_time(
    request: Request, place: Place, manifests: Sequence[Manifest], report: Reporter, state: _State
) -> None:
    rest = "their processes are ended" if place.private else "the jobs go on"
    try:
        async with asyncio.timeout(request.timeout):
            await _submit_and_follow(request, place, manifests, report, state)
    except TimeoutError:
        state.timed_out = True
        report.line("run", f"gave up after {request.timeout:g} s; {rest}")
        for text in state.silence:
            report.line("run", text)
    except asyncio.CancelledError:
        report.line("run", f"interrupted; {rest if place.private or not _asks(state) else 'the jobs still run'}")
        raise


async def _submit_and_follow(
    request: Request, place: Place, manifests: Sequence[Manifest], report: Reporter, state: _State
) -> None:
    """Create everything and follow the jobs."""
    from unisono.cli.connection import connect
    from unisono.cli.running.report import Progress
    from unisono.cli.running.submitting import submit

    naming = Naming(request.replace, _asker(report, request), heard=request.heard)
    if request.program is not None:
        manifest, naming = _of_program(request, request.program, place, naming)
        manifests = [manifest]
    async with connect(place.where) as client:
        report.step("submitting", 0, 0)
        manifests = marked(manifests, request.fleet)
        state.targets += await submit(client, place, manifests, report, naming)
        if request.detach:
            return
        progress = Progress(state.targets, report)
        try:
            await progress.follow(client, logs=request.logs, watch=request.watch)
            if request.fleet and request.logs:
                await copy_logs(client, state.targets, report)
            await _find_causes(client, request, place, progress, state)
        finally:
            state.views.update(progress.seen)
            state.silence = progress.silence.lately(progress.observations) if request.logs else []


def _of_program(request: Request, program: Program, place: Place, naming: Naming) -> tuple[Manifest, Naming]:
    from unisono.cli.running.submitting import of_program

    folders: tuple[Path, ...] = ()
    if place.local:
        from unisono.sdk.jobs.submission import program_folders

        folders = program_folders(program)
    numbered = None
    called = request.called or (None if program.name else lambda name: replace(program, name=name))
    if called is not None and not request.replace:

        def numbered(name: str) -> Manifest:
            return marked([of_program(called(name), local=place.local)], request.fleet)[0]

    naming = replace(naming, numbered=numbered, folders=folders)
    return of_program(program, local=place.local), naming


async def _find_causes(client: HttpClient, request: Request, place: Place, progress: Any, state: _State) -> None:
    from unisono.api.conditions import SUCCEEDED
    from unisono.sdk.reasons.failures import failure_of

    options = "" if place.private else where_arguments(request.where)
    for target, seen in progress.observations.items():
        if seen.view.ended and seen.view.phase != SUCCEEDED:
            view = seen.view
            where = f" --namespace {view.namespace}" if view.namespace != "default" else ""
            read_on = "" if place.private else f"unisono logs {view.title}{options}{where}"
            failure = await failure_of(client, seen, read_on)
            if failure is not None:
                state.failures[target] = failure


def _asker(report: Reporter, request: Request) -> Any:
    """Asks questions on a terminal; None where there is none."""
    if request.output == "json" or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None

    def ask(question: str) -> bool:
        report.pause()
        try:
            return click.confirm(question, default=False)
        finally:
            report.resume()

    return ask


def _tell(request: Request, state: _State, seconds: float) -> int:
    """Say how the jobs ended; answers the exit code."""
    from unisono.api.conditions import SUCCEEDED

    if request.detach:
        for target in state.targets:
            if request.tell is not None:
                request.tell(target)
            if not request.silent:
                _tell_detached(request, target)
        return 0
    succeeded = not state.timed_out and all(view.phase == SUCCEEDED for view in state.views.values())
    if request.output == "json":
        from unisono.cli.printing import print_json

        print_json(results(state.views, state.failures, seconds, succeeded=succeeded))
    else:
        for target, view in state.views.items():
            click.echo(ending_line(view, seconds, state.failures.get(target), stopped=state.private))
    return 0 if succeeded else 124 if state.timed_out else 1


def _tell_detached(request: Request, target: Target) -> None:
    if request.output == "json":
        from unisono.cli.printing import print_json

        print_json({"kind": target.kind.kind, "namespace": target.namespace, "name": target.name})
        return
    title = f"{target.kind.kind.lower()}/{target.name}"
    click.echo(f"{title} is submitted; follow it with: {_follow_command(request.where, target)}")


def _follow_command(where: Where, target: Target) -> str:
    place = f" --namespace {target.namespace}" if target.namespace != "default" else ""
    return f"unisono logs -f {target.kind.kind.lower()}/{target.name}{where_arguments(where)}{place}"


def _asks(state: _State) -> bool:
    """Whether Ctrl-C on a terminal leads to a question."""
    return state.received[:1] == [signal.SIGINT] and sys.stdin.isatty() and sys.stdout.isatty()


def _stop_or_leave(where: Where, state: _State) -> None:
    """After an interruption: stop the jobs if the user says so, else say how to follow them again."""
    stop = False
    if _asks(state):
        question = "Stop the jobs, or leave them running? [s/L]"
        try:
            answer = ""
            # What was meant by another word is not for us to guess.
            while answer not in _ANSWERS:
                answer = click.prompt(question, default="l", show_default=False, prompt_suffix=" ").strip().lower()
            stop = answer in ("s", "stop")
        except (click.Abort, KeyboardInterrupt):
            click.echo("")
    if stop:
        asyncio.run(_stop(where, state))
        return
    for target in state.targets:
        click.echo(f"It goes on; follow it again with: {_follow_command(where, target)}")


async def _stop(where: Where, state: _State) -> None:
    from unisono.api.kinds import PODS
    from unisono.cli.connection import connect
    from unisono.errors import NotFound
    from unisono.sdk.jobs.control import send_action

    async with connect(where) as client:
        for target in state.targets:
            try:
                if target.kind is PODS:
                    await client.delete(target.kind, target.name, target.namespace)
                else:
                    await send_action(client, target.kind, target.namespace, target.name, "TerminateJob")
            except NotFound:
                continue
            click.echo(f"Stopped {target.kind.kind.lower()}/{target.name}.")
