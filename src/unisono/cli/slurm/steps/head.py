"""The first node of a batch: runs the script once, and hands the steps of its ``srun`` to all nodes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from unisono.cli.slurm.steps.link import CHUNK, LONGEST, MOUNTED, PASSED, PATIENCE, Link, Place, stream_of
from unisono.cli.slurm.steps.mounts import lacking, mounts_of
from unisono.cli.slurm.steps.node import Node
from unisono.cli.slurm.steps.words import BadOption, Part, Shape, filled, in_short, joined_shape


class Step:
    """A step that runs: whose it is, and how its tasks ended."""

    def __init__(self, number: int, client: Link, shape: Shape, parts: Sequence[Part]) -> None:
        self.number, self.client, self.shape = number, client, shape
        # Of each of its nodes.
        self.parts = parts
        options = parts[0].options
        self.exclusive = "exclusive" in options or "exact" in options
        # Ranks wait for each other: when one has failed, the others must not wait for ever.
        self.kills = options.get("kill-on-bad-exit") != "0"
        self.codes: dict[int, int] = {}
        self.started: set[int] = set()
        self.pending: list[dict[str, Any]] = []
        self.done = asyncio.Event()
        self.ending, self.first = False, 0


class Head:
    """The first node: runs the script, and hands its steps to the nodes."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.nodes: dict[int, Link] = {}
        self.steps: dict[int, Step] = {}
        self.files: dict[int, Any] = {}
        self.shell: asyncio.subprocess.Process | None = None
        self.verdict: int | None = None
        self._changed = asyncio.Condition()
        self._used = [0] * len(place.counts)
        self._number = 0
        self._routes: dict[str, str] = {}
        self._began = time.time()
        self._warned = False

    async def _change(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def serve_node(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A node that logs in, and what it says of its tasks."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._serve_node(reader, writer)

    async def _serve_node(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer, self.place.key)
        try:
            await link.greet(first=True)
        except OSError:
            return link.close()
        message = await link.receive()
        if message is None or message.get("do") != "login":
            return link.close()
        number = int(message["node"])
        await link.send(do="welcome")
        self.nodes[number] = link
        await self._change()
        while True:
            message = await link.receive()
            if message is None:
                break
            if message["do"] == "notice":
                await self._warn()
                continue
            step = self.steps.get(message["step"])
            if step is not None:
                await self._heard(step, message)
        await self._lost(number)
        return link.close()

    async def _lost(self, number: int) -> None:
        self.nodes.pop(number, None)
        for step in list(self.steps.values()):
            for place, node in enumerate(step.shape.nodes):
                for rank in step.shape.ranks[place] if node == number else ():
                    if rank not in step.codes:
                        await self._heard(step, {"do": "ended", "rank": rank, "code": 1, "failed": True, "lost": True})
        await self._change()

    async def _heard(self, step: Step, message: dict[str, Any]) -> None:
        rank, do = message["rank"], message["do"]
        if do == "started":
            step.started.add(rank)
            if len(step.started) == step.shape.tasks:
                waiting, step.pending = step.pending, []
                for each in waiting:
                    await self._to_nodes(step, **each)
            return
        if do == "output" and message.get("file"):
            self.files[message["to"]].write(base64.b64decode(message["data"]))
            return
        if do == "ended" and rank in step.codes:
            return
        with contextlib.suppress(ConnectionError):
            await step.client.send(**message, quiet=step.ending)
        if do == "output":
            return
        step.codes[rank] = message["code"]
        if message["code"] and step.kills and not step.ending and len(step.codes) < step.shape.tasks:
            step.ending, step.first = True, message["code"]
            asyncio.ensure_future(self._kill(step))  # noqa: RUF006
        if len(step.codes) == step.shape.tasks:
            step.done.set()

    async def _kill(self, step: Step) -> None:
        await self._to_nodes(step, do="signal", signal=int(signal.SIGTERM))
        await asyncio.sleep(5)
        await self._to_nodes(step, do="signal", signal=int(signal.SIGKILL))

    async def _to_nodes(self, step: Step, **message: Any) -> None:
        if message["do"] == "input" and len(step.started | set(step.codes)) < step.shape.tasks:
            step.pending.append(message)
            return
        for node in step.shape.nodes:
            if node in self.nodes:
                with contextlib.suppress(ConnectionError):
                    await self.nodes[node].send(step=step.number, **message)

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """An ``srun``, or another of the small programs."""
        link = Link(reader, writer)
        try:
            await link.greet(first=True)
            message = await link.receive()
            if message is not None and message["do"] == "step":
                await self._step(link, message)
            elif message is not None and message["do"] == "signal":
                self.signal(message["signal"], message["whole"])
                await link.send(do="done")
            elif message is not None and message["do"] == "end":
                self.verdict = message["code"]
                await link.send(do="done")
                self.signal(signal.SIGTERM, whole=True)
        except OSError:
            pass
        finally:
            link.close()

    async def _step(self, client: Link, asked: dict[str, Any]) -> None:
        place = self.place
        try:
            shape, parts = joined_shape(
                [Part(at, each) for at, each in enumerate(asked["parts"])], place.groups, place.hosts, place.counts
            )
            for at, part in enumerate(parts):
                if "multi-prog" in part.options and "*" not in part.commands:
                    for rank in (rank for rank in shape.ranks[at] if str(rank) not in part.commands):
                        raise BadOption(f"--multi-prog: no line of {part.command[0]} names task {rank}")
        except BadOption as error:
            await client.send(do="refused", text=str(error))
            return
        step = Step(self._number, client, shape, parts)
        self._number += 1
        async with self._changed:
            await self._changed.wait_for(lambda: all(node in self.nodes for node in shape.nodes))
            if step.exclusive:
                await self._changed.wait_for(lambda: self._has_room(shape))
            for at, node in enumerate(shape.nodes):
                self._used[node] += len(shape.ranks[at])
        self.steps[step.number] = step
        await client.send(
            do="shape",
            step=step.number,
            tasks=shape.tasks,
            nodes=[place.hosts[n] for n in shape.nodes],
            owners=[[rank, part.number] for at, part in enumerate(parts) for rank in shape.ranks[at]],
        )
        listener = asyncio.ensure_future(self._listen(step))
        try:
            await self._start(step, asked)
            await step.done.wait()
            with contextlib.suppress(ConnectionError):
                await client.send(do="exit", code=step.first or max(step.codes.values(), default=0))
        finally:
            listener.cancel()
            del self.steps[step.number]
            for at, node in enumerate(shape.nodes):
                self._used[node] -= len(shape.ranks[at])
            await self._change()

    def _has_room(self, shape: Shape) -> bool:
        return all(
            self._used[node] == 0 or self._used[node] + len(shape.ranks[place]) <= self.place.counts[node]
            for place, node in enumerate(shape.nodes)
        )

    async def _start(self, step: Step, asked: dict[str, Any]) -> None:
        given: dict[str, str] = asked["environment"]
        common = self.place.environment
        changed = {name: value for name, value in given.items() if common.get(name) != value}
        unset = [name for name in common if name not in given]
        hosts = [self.place.hosts[node] for node in step.shape.nodes]
        counts = [len(ranks) for ranks in step.shape.ranks]
        shared = {
            "SLURM_STEP_ID": str(step.number),
            "SLURM_STEPID": str(step.number),
            "SLURM_STEP_NODELIST": ",".join(hosts),
            "SLURM_STEP_NUM_NODES": str(len(hosts)),
            "SLURM_STEP_NUM_TASKS": str(step.shape.tasks),
            "SLURM_STEP_TASKS_PER_NODE": in_short(counts),
            "SLURM_NTASKS": str(step.shape.tasks),
            "SLURM_NPROCS": str(step.shape.tasks),
            "SLURM_NNODES": str(len(hosts)),
            "SLURM_TASKS_PER_NODE": in_short(counts),
            "SLURM_DISTRIBUTION": step.parts[0].options.get("distribution", "block"),
            "SLURM_SRUN_COMM_HOST": self.place.hosts[0],
            "SLURM_UMASK": "0022",
            "SLURM_CPU_BIND": "none",
        }
        routes = [self._routes.get(stream, "send") for stream in asked["streams"]]
        for place, node in enumerate(step.shape.nodes):
            ranks, part = step.shape.ranks[place], step.parts[place]
            of_part = {}
            if "cpus-per-task" in part.options:
                of_part["SLURM_CPUS_PER_TASK"] = part.options["cpus-per-task"]
            group = next(at for at, nodes in enumerate(self.place.groups) if node in nodes)
            cards = self.place.spec["gpus_per_task"][group]
            if each := part.options.get("gpus-per-task", ""):
                count = each.rpartition(":")[2]
                cards = int(count) if count.isdecimal() else 1
            tasks = []
            for local, rank in enumerate(ranks):
                own = {
                    "SLURM_PROCID": str(rank),
                    "SLURM_LOCALID": str(local),
                    "SLURM_NODEID": str(place),
                    "SLURM_GTIDS": ",".join(map(str, ranks)),
                    # As under torchrun, for programs that look for no Slurm; what the script sets comes first.
                    "RANK": str(rank),
                    "WORLD_SIZE": str(step.shape.tasks),
                    "LOCAL_RANK": str(local),
                    "LOCAL_WORLD_SIZE": str(len(ranks)),
                }
                own = {name: value for name, value in own.items() if name not in changed or name.startswith("SLURM_")}
                command = part.commands.get(str(rank)) or [
                    filled(word, {"t": rank, "o": rank}) for word in part.commands.get("*", [])
                ]
                tasks.append(
                    {
                        "rank": rank,
                        "set": {**shared, **of_part, **own},
                        "command": command or part.command,
                    }
                )
            await self.nodes[node].send(
                do="start",
                step=step.number,
                tasks=tasks,
                set=changed,
                unset=unset,
                folder=asked["folder"],
                mounts=part.options.get("container-mounts") or common.get("UNISONO_BATCH_MOUNTS", ""),
                input=asked["input"],
                label="label" in step.parts[0].options,
                routes=routes,
                cards=cards,
            )

    async def _listen(self, step: Step) -> None:
        """What ``srun`` says while its step runs; when it goes away, so does the step."""
        while True:
            message = await step.client.receive()
            if message is None:
                await self._kill(step)
                return
            await self._to_nodes(step, **message)

    def signal(self, number: int, whole: bool) -> None:
        """Send a signal to the script, or to the steps; ``whole`` for both."""
        for step in list(self.steps.values()) if whole else ():
            asyncio.ensure_future(self._to_nodes(step, do="signal", signal=number))  # noqa: RUF006
        if self.shell is not None and self.shell.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.shell.send_signal(number)

    async def run(self, interpreter: Sequence[str], script: str, arguments: Sequence[str]) -> int:
        """Run the script to its end; answers its exit code."""
        spec = self.place.spec
        path = self.place.write("slurm_script", script, 0o700)
        environment = dict(self.place.environment, SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NODEID="0")
        environment["SLURM_JOB_START_TIME"] = str(int(self._began))
        if spec.get("seconds"):
            environment["SLURM_JOB_END_TIME"] = str(int(self._began) + spec["seconds"])
        self._open(spec)
        copies, outputs = [], []
        for to in (1, 2):
            if self.files[to] is None:
                outputs.append(to)
                self._routes[stream_of(to)] = "log"
            elif to == 2 and self.files[1] is self.files[2]:
                outputs.append(outputs[0])
            else:
                reading, writing = os.pipe()
                outputs.append(writing)
                self._routes[stream_of(writing)] = "both"
                copies.append(self._copy(await _reader_of(reading), self.files[to], to))
        words = [*interpreter, path]
        if interpreter[0] == "bash" and set(interpreter[1:]) & {"-l", "--login"}:
            # What a login shell reads may set the PATH anew.
            words = [*interpreter, "-c", 'PATH="$0:$PATH" exec bash "$@"', self.place.folder, path]
        mounts = environment.get("UNISONO_BATCH_MOUNTS", "")
        if lacking(mounts_of(mounts)):
            words = [os.path.join(self.place.folder, MOUNTED), mounts, os.getcwd(), *words]
        self.shell = await asyncio.create_subprocess_exec(
            *words,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            env=environment,
            start_new_session=True,
        )
        for output in set(outputs) - {1, 2}:
            os.close(output)
        if spec.get("signal") and spec.get("seconds"):
            asyncio.ensure_future(self._warn_in_time())  # noqa: RUF006
        copying = asyncio.gather(*copies)
        code = await self.shell.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.shell.pid, signal.SIGKILL)  # what a script leaves behind ends with its job, as in Slurm
        if copies:
            with contextlib.suppress(asyncio.TimeoutError):
                # A program in a session of its own may hold the output open.
                await asyncio.wait_for(copying, 2)
        code = 128 - code if code < 0 else code
        return code if self.verdict is None else self.verdict

    def _open(self, spec: dict[str, Any]) -> None:
        """The files of --output and --error; None where the log is all."""
        names = [spec.get("output") or "", spec.get("error") or ""]
        marks = dict(spec["marks"], N=self.place.own.partition(".")[0], n=0, t=0, s="batch", J=spec["marks"]["j"])
        outputs: list[Any] = []
        for name in names:
            path = os.path.abspath(filled(name, marks)) if name else ""
            if not path:
                outputs.append(None)
                continue
            if outputs and outputs[0] is not None and outputs[0].name == path:
                outputs.append(outputs[0])
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            append = spec.get("append") or os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")
            outputs.append(open(path, "ab" if append else "wb", buffering=0))  # noqa: SIM115
        if names[0] and not names[1]:
            outputs[1] = outputs[0]
        self.files = {1: outputs[0], 2: outputs[1]}

    async def _copy(self, stream: asyncio.StreamReader, file: Any, to: int) -> None:
        while True:
            chunk = await stream.read(CHUNK)
            if not chunk:
                return
            file.write(chunk)
            os.write(to, chunk)

    async def _warn_in_time(self) -> None:
        spec = self.place.spec
        await asyncio.sleep(max(0.0, self._began + spec["seconds"] - spec["signal"][1] - time.time()))
        await self._warn()

    async def _warn(self) -> None:
        """Send the signal of --signal, once: the time limit comes, or a pod is to be evicted."""
        number, _, shell = self.place.spec["signal"]
        if self._warned:
            return
        self._warned = True
        if shell:
            self.signal(number, whole=False)
            return
        for step in list(self.steps.values()):
            await self._to_nodes(step, do="signal", signal=number)

    async def end(self, code: int) -> None:
        """Tell all nodes, also those that have not come yet, that the job is over."""
        with contextlib.suppress(asyncio.TimeoutError):
            # Of a job that has failed, who has not come is ended with it.
            await asyncio.wait_for(self._all_here(), 5 if code else PATIENCE)
        for link in list(self.nodes.values()):
            with contextlib.suppress(ConnectionError):
                await link.send(do="end", code=code)
        # They end first: whose task failed is found by who failed first.
        async with self._changed:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(lambda: set(self.nodes) <= {0}), 8)

    async def _all_here(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.nodes) == len(self.place.counts))


async def _reader_of(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def serve(spec: dict[str, Any], program: str, script: str, words: Sequence[str]) -> int:
    """Be one pod of a batch; answers its exit code.

    Args:
        spec: of the batch: its job, tasks of each node, interpreter, port, files and marks.
        program: this program's own text.
        script: text of the script.
        words: its arguments.

    """
    place = Place(spec, os.environ)
    place.make_folder(program)
    node, head = Node(place), Head(place) if not place.node else None
    loop = asyncio.get_running_loop()
    for number in PASSED:
        if head is not None:
            loop.add_signal_handler(number, head.signal, number, True)
        else:
            loop.add_signal_handler(number, node.pass_on, number)
    try:
        if head is None:
            return await node.serve(place.hosts[0], spec["port"])
        return await _lead(place, head, node, script, words)
    finally:
        shutil.rmtree(place.folder, ignore_errors=True)


async def _lead(place: Place, head: Head, node: Node, script: str, words: Sequence[str]) -> int:
    spec = place.spec
    address = os.environ.get("UNISONO_POD_IP") or place.own
    listening = await asyncio.start_server(head.serve_node, address, spec["port"], limit=LONGEST)
    path = place.environment["UNISONO_BATCH_SOCKET"]
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    asking = await asyncio.start_unix_server(head.serve_client, path, limit=LONGEST)
    own = asyncio.ensure_future(node.serve(address, spec["port"]))
    try:
        code = await head.run(spec["interpreter"], script, words)
    except OSError as error:
        way = f": the pod runs as user {os.geteuid()}, who must be let in" if isinstance(error, PermissionError) else ""
        print(f"sbatch: error: {error.filename}: {error.strerror}{way}", file=sys.stderr, flush=True)
        code = 1
    await head.end(code)
    listening.close()
    asking.close()
    await own
    return code
