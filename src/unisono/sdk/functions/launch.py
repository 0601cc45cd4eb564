"""Results of functions, read back from the logs of pods; the counterpart of ``worker.frames``."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import inspect
import io
import json
import os
import pickle
import re
import secrets
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from unisono.api.annotations import WORKING_DIRECTORY
from unisono.errors import ApiError, NotFound
from unisono.sdk.clients.aio import AsyncClient, Tell
from unisono.sdk.errors import CannotShip, JobFailed, RemoteError
from unisono.sdk.functions import pod_entrypoint
from unisono.sdk.functions.pod_entrypoint import MAIN
from unisono.sdk.functions.serialization import describe, dump, search_path
from unisono.sdk.jobs.builders import DEFAULT_IMAGE, Amount, Job
from unisono.sdk.state.views import JobView, failure_text


class Frames:
    """Collects the lines of one pod's log that carry its result."""

    def __init__(self, token: str) -> None:
        self._token = f"{token} "
        self._pieces: dict[int, bytes] = {}
        self._kind, self._count, self._total = "", 0, ""

    def feed(self, line: str) -> bool:
        """Whether the line belongs to the result."""
        if not line.startswith(self._token):
            return False
        try:
            _, kind, number, count, total, text = line.split(" ")
            if total != self._total:
                self._pieces.clear()
            self._kind, self._count, self._total = kind, int(count), total
            self._pieces[int(number)] = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            self._pieces.clear()
        return True

    def value(self, rank: int, folder: Path | None = None) -> Any:
        """The result of the function.

        Args:
            rank: number of the worker, for errors.
            folder: where large results are, as files.

        Raises:
            RemoteError: the function raised.
            CannotShip: the log has no whole result, or its file is not what the log says.
        """
        packed = b"".join(self._pieces.get(number, b"") for number in range(self._count))
        if not self._count or hashlib.sha256(packed).hexdigest()[:16] != self._total:
            raise CannotShip(
                f"The result of rank {rank} is not in its pod's log: the process was killed, or the log was cut off. "
                "Print less, or write the result to a file on shared storage and return its path."
            )
        data = zlib.decompress(packed)
        if self._kind == "error":
            outcome = json.loads(data)
            raise RemoteError(f"Rank {rank} raised {outcome['message']}", rank=rank, traceback=outcome["traceback"])
        if self._kind == "file":
            data = _from_file(json.loads(data), folder, rank)
        try:
            return _Unpickler(io.BytesIO(data)).load()
        except Exception as error:  # unpickling runs code of any class
            raise CannotShip(f"The result of rank {rank} cannot be unpickled here: {error}.") from error


def _from_file(told: dict[str, Any], folder: Path | None, rank: int) -> bytes:
    """A large result; the log, which only the pod's node writes, says what must be in its file."""
    try:
        if folder is None:
            raise FileNotFoundError(2, "there is no folder for results")
        path = folder / Path(str(told["path"])).name
        data = path.read_bytes()
        path.unlink()
    except OSError as error:
        raise CannotShip(f"The result of rank {rank} cannot be read from its file: {error.strerror}.") from None
    if len(data) != told["size"] or hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise CannotShip(f"The result of rank {rank} is not what was written: its file {path} has changed.")
    return data


class _Unpickler(pickle.Unpickler):  # the bytes come from the caller's own function
    """Finds the classes of a script where this process has them."""

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class("__main__" if module == MAIN else module, name)


# Runs a function as a job: a ConfigMap with function and arguments, a gang of pods, results from their logs.

FOLDER = "/unisono/gang"
TASK = "worker"
MAX_PAYLOAD = 900_000
"""Bytes of a ConfigMap that the function and its arguments may take; etcd allows 1 MiB in all."""
KEEP_SECONDS = 3600
"""A job whose caller has exited, or that failed, is deleted this many seconds after its end."""
READS = 16


@dataclass(frozen=True, slots=True)
class GangOptions:
    """How the pods of a function look.

    Attributes:
        workers: number of pods; all of them start together.
        cpu, memory, gpus, resources: per pod; see `Job.task`.
        image: with Python and what the function imports; a node that runs pods as processes does not read it.
        queue: where the job waits.
        priority_class: name of a PriorityClass.
        env: further environment variables.
        name: beginning of the job's name; None for the function's.
        max_retry: how often the gang starts again after an eviction.
        timeout: seconds for everything, waiting for a place included.
        echo: print what the pods print.
        results_dir: folder for results above 4 MiB, on storage that pods and caller share under this path; on this
            machine one is made.
        pod, container: further fields of pod and container.
    """

    workers: int = 1
    cpu: Amount | None = None
    memory: Amount | None = None
    gpus: int | None = None
    resources: Mapping[str, Amount] | None = None
    image: str = DEFAULT_IMAGE
    queue: str = "default"
    priority_class: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    max_retry: int = 3
    timeout: float | None = None
    echo: bool = True
    results_dir: str | os.PathLike[str] | None = None
    pod: Mapping[str, Any] | None = None
    container: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """A function that runs.

    Attributes:
        view: its job, as submitted.
        token: how lines begin that carry results.
        options: as given.
        results: folder of large results; None where there is none.
    """

    view: JobView
    token: str
    options: GangOptions
    results: Path | None = None

    def is_frame(self, line: str) -> bool:
        """The log line carries a result and is nothing to show."""
        return not line or line.startswith(f"{self.token} ")


async def launch(
    client: AsyncClient,
    function: Callable[..., Any],
    call: object,
    options: GangOptions,
    *,
    mode: Literal["gang", "map"] = "gang",
) -> Launched:
    """Submit the job of a function.

    Args:
        client: where.
        function: what every pod calls.
        call: arguments and keyword arguments, or for ``map`` the list of items.
        options: how the pods look.
        mode: every pod makes the same call, or each its part of the items.

    Raises:
        CannotShip: the function or an argument cannot be sent.
        ApiError: the server refuses the job.
    """
    local = (await client.endpoint()).local
    token = f"unisono-result-{secrets.token_hex(8)}"
    results = _results_folder(options, local=local)
    try:
        return await _launch(client, function, call, options, mode, token, results, local=local)
    except BaseException:
        _remove(results, options)
        raise


async def _launch(
    client: AsyncClient,
    function: Callable[..., Any],
    call: object,
    options: GangOptions,
    mode: Literal["gang", "map"],
    token: str,
    results: Path | None,
    *,
    local: bool,
) -> Launched:
    files = {
        "worker.py": inspect.getsource(pod_entrypoint),
        "task.json": _payload(function, call, mode, token, str(results or ""), local=local),
    }
    name = f"{_dns(options.name or str(getattr(function, '__name__', '')))}-{secrets.token_hex(4)}"
    job = _job(name, options, mode, local=local)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": files}
    await client.apply(config)
    try:
        view = await client.submit(job)
    except BaseException:
        with suppress(ApiError):
            await client.delete_config(name)
        raise
    await client.adopt_config(name, view)
    return Launched(view, token, options, results)


def _results_folder(options: GangOptions, *, local: bool) -> Path | None:
    """Where pods write large results: the given folder, or one of this machine that they may write and not list."""
    if options.results_dir is not None:
        return Path(options.results_dir)
    if not local:
        return None
    folder = Path(tempfile.mkdtemp(prefix="unisono-results-"))
    folder.chmod(0o1733)  # pods may be users of their own
    return folder


def _remove(results: Path | None, options: GangOptions) -> None:
    """Take away a folder that was made for one call."""
    if results is not None and options.results_dir is None:
        shutil.rmtree(results, ignore_errors=True)


async def collect(client: AsyncClient, launched: Launched, *, tell: Tell | None = None) -> list[Any]:
    """Wait for the end, and answer the results by rank. The job stays, for its logs: `forget` deletes it.

    Args:
        client: where the function runs.
        launched: the function that runs.
        tell: hears of the job's views, to show what it waits for.

    Raises:
        RemoteError: the function raised; the lowest rank's error.
        JobFailed: the job ended otherwise without success.
        WaitTimeout: ``options.timeout`` is over; the job is deleted.
        CannotShip: a result did not arrive.
    """
    try:
        return await _collect(client, launched, tell)
    finally:
        _remove(launched.results, launched.options)


async def _collect(client: AsyncClient, launched: Launched, tell: Tell | None) -> list[Any]:
    try:
        view = await client.wait(launched.view, timeout=launched.options.timeout, tell=tell)
    except (TimeoutError, asyncio.CancelledError):
        with suppress(ApiError):
            await client.delete(launched.view)
        raise
    limit = asyncio.Semaphore(READS)
    ranks = range(launched.options.workers)
    frames = await asyncio.gather(*(_read(client, view, rank, launched.token, limit) for rank in ranks))
    values: list[Any] = []
    lost: CannotShip | None = None
    for rank, each in enumerate(frames):
        try:
            values.append(each.value(rank, launched.results))
        except RemoteError as error:
            error.add_note(error.traceback)
            raise
        except CannotShip as error:
            lost = lost or error
    if not view.succeeded:
        raise JobFailed(failure_text(view), view)
    if lost is not None:
        raise lost
    return values


async def forget(client: AsyncClient, launched: Launched) -> None:
    """Delete the job of a function; one that was deleted already is fine."""
    with suppress(NotFound):
        await client.delete(launched.view)


async def _read(client: AsyncClient, view: JobView, rank: int, token: str, limit: asyncio.Semaphore) -> Frames:
    frames = Frames(token)
    tail = pod_entrypoint.MAX_RESULT * 4 // (3 * pod_entrypoint.CHUNK) * 2 + 100
    pod = f"{view.name}-{TASK}-{rank}"
    async with limit, aclosing(client.pod_log(view.namespace, pod, tail=tail)) as lines:
        async for line in lines:
            frames.feed(line)
    return frames


def _payload(function: Callable[..., Any], call: object, mode: str, token: str, results: str, *, local: bool) -> str:
    try:
        pickled, classes = dump(call)
    except Exception as error:  # pickling runs code of any class
        raise CannotShip(f"The arguments cannot be pickled: {error}.") from error
    task = {
        "token": token,
        "results": results,
        "mode": mode,
        "function": describe(function, classes),
        "path": search_path() if local else [],
        "call": base64.b64encode(pickled).decode(),
    }
    text = json.dumps(task)
    if len(text) > MAX_PAYLOAD:
        raise CannotShip(
            f"The function and its arguments take {len(text)} bytes, and {MAX_PAYLOAD} fit: put large data on shared "
            "storage and give its path."
        )
    return text


def _job(name: str, options: GangOptions, mode: str, *, local: bool) -> Job:
    size = options.workers
    together = size if mode == "gang" else 1
    job = Job(
        name,
        options.queue,
        min_available=together,
        priority_class=options.priority_class,
        max_retry=options.max_retry,
        ttl_seconds=KEEP_SECONDS,
    )
    environment = {"WORLD_SIZE": str(size), "PYTHONUNBUFFERED": "1", **options.env}
    if mode == "gang":
        # A port of its own: where pods share the machine's ports, two gangs must not meet on one.
        port = str(20_000 + secrets.randbelow(10_000))
        environment = {"MASTER_ADDR": f"{name}-{TASK}-0.{name}", "MASTER_PORT": port, **environment}
        job.plugin("svc")
    container = dict(options.container or {})
    mounts = [*container.pop("volumeMounts", ()), {"name": "unisono-gang", "mountPath": FOLDER, "readOnly": True}]
    pod = dict(options.pod or {})
    volumes = [*pod.pop("volumes", ()), {"name": "unisono-gang", "configMap": {"name": name}}]
    job.plugin("env").task(
        TASK,
        replicas=size,
        min_available=together,
        command=[sys.executable if local else "python3", f"{FOLDER}/worker.py", FOLDER],
        image=options.image,
        cpu=options.cpu,
        memory=options.memory,
        gpus=options.gpus,
        resources=options.resources,
        env=environment,
        annotations={WORKING_DIRECTORY: str(Path.cwd())} if local else None,
        pod={"volumes": volumes, **pod},
        container={"volumeMounts": mounts, **container},
    )
    # Ranks wait for each other: when one has failed, the others must not wait for ever.
    return job.policy("TerminateJob", event="PodFailed").policy("RestartJob", event="PodEvicted")


def _dns(name: str) -> str:
    """A name that the names of pods may begin with."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "function"


def shares(results: Sequence[Mapping[int, Any]], count: int) -> list[Any]:
    """The results of ``map`` in the order of the items."""
    merged = {index: value for share in results for index, value in share.items()}
    return [merged[index] for index in range(count)]
