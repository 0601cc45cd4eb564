"""A node of a batch: runs the tasks that the first node sends."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any

from unisono.cli.slurm.steps.link import CHUNK, LONGEST, MOUNTED, PATIENCE, Link, Place, packed
from unisono.cli.slurm.steps.mounts import lacking, mounts_of


class Node:
    """Runs the tasks of this node."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.tasks: dict[tuple[int, int], asyncio.subprocess.Process] = {}
        self.code = 0
        self.stopped: set[int] = set()
        self._background: set[asyncio.Task[None]] = set()

    async def serve(self, address: str, port: int) -> int:
        """Take steps until the job ends; answers the exit code of this pod."""
        link = await self._login(address, port)
        if self.place.notice:
            self._start(self._tell_of_notice(link))
        while True:
            message = await link.receive()
            if message is None or message["do"] == "end":
                await self.stop()
                # Whose failure the script passes on has failed itself, so that it is found by the exit codes of pods.
                return (self.code if message["code"] == self.code else 0) if message else 1
            if message["do"] == "start":
                for task in message["tasks"]:
                    self._start(self._run(link, message, task))
            elif message["do"] == "signal":
                self.pass_on(message["signal"], message["step"])
            elif message["do"] == "input":
                await self._feed(message)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        started = asyncio.ensure_future(work)
        self._background.add(started)
        started.add_done_callback(self._background.discard)

    async def _tell_of_notice(self, link: Link) -> None:
        """Tell the first node once that this pod is to be evicted, or that its machine goes."""
        while True:
            with contextlib.suppress(OSError), open(self.place.notice) as file:
                if file.read().strip():
                    break
            await asyncio.sleep(1)
        with contextlib.suppress(ConnectionError):
            await link.send(do="notice")

    async def _login(self, address: str, port: int) -> Link:
        deadline, announced = time.monotonic() + PATIENCE, False
        while True:
            try:
                reader, writer = await asyncio.open_connection(address, port, limit=LONGEST)
                link = Link(reader, writer, self.place.key)
                await link.greet(first=False)
                await link.send(do="login", node=self.place.node)
                if (await link.receive() or {}).get("do") != "welcome":
                    raise ConnectionError("the first node does not know this job's key")
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ConnectionError(f"the first node, {address}, does not answer: {error}") from None
                if not announced and time.monotonic() > deadline - PATIENCE + 20:
                    announced = True
                    print(f"still looking for the first node, {address}: {error}", file=sys.stderr, flush=True)
                await asyncio.sleep(0.1)
            else:
                return link

    async def _run(self, link: Link, step: dict[str, Any], task: dict[str, Any]) -> None:
        key = (step["step"], task["rank"])
        environment = dict(self.place.environment)
        for name in step["unset"]:
            environment.pop(name, None)
        environment.update(step["set"])
        environment.update(task["set"])
        if self.place.folder not in environment.get("PATH", "").split(":"):
            environment["PATH"] = f"{self.place.folder}:{environment.get('PATH', os.defpath)}"
        self._share_cards(environment, step["cards"], int(task["set"]["SLURM_LOCALID"]))
        folder, command = step["folder"], task["command"]
        if lacking(mounts_of(step["mounts"])):
            command = [os.path.join(self.place.folder, MOUNTED), step["mounts"], folder, *command]
            folder = "/"
        if not os.path.isdir(folder):
            warning = f"srun: warning: {self.place.own}: there is no folder {folder}: the task starts in /tmp\n"
            await link.send(do="output", step=key[0], rank=key[1], to=2, data=packed(warning.encode()))
            folder = "/tmp"  # noqa: S108 # nosec B108 # only to stand in, as Slurm does
        piped = asyncio.subprocess.PIPE
        streams = [None if route == "log" and not step["label"] else piped for route in step["routes"]]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=piped if step["input"] else asyncio.subprocess.DEVNULL,
                stdout=streams[0],
                stderr=streams[1],
                env=environment,
                cwd=folder,
                start_new_session=True,
                limit=CHUNK,
            )
        except OSError as error:
            say = f"srun: error: {task['command'][0]}: {error.strerror or error}\n".encode()
            await link.send(do="output", step=key[0], rank=key[1], to=2, data=packed(say))
            self.code = 127 if isinstance(error, FileNotFoundError) else 126
            await link.send(do="ended", step=key[0], rank=key[1], code=self.code, failed=True)
            return
        self.tasks[key] = process
        await link.send(do="started", step=key[0], rank=key[1])
        label = f"{task['rank']}: ".encode() if step["label"] else b""
        pumps = [
            self._pump(link, stream, key, number, step["routes"][number - 1], label)
            for number, stream in ((1, process.stdout), (2, process.stderr))
            if stream is not None
        ]
        await asyncio.gather(*pumps)
        code = await process.wait()
        self.tasks.pop(key, None)
        code = 128 - code if code < 0 else code
        if code and key[0] not in self.stopped:
            self.code = code
        await link.send(do="ended", step=key[0], rank=key[1], code=code, failed=bool(code))

    @staticmethod
    def _share_cards(environment: dict[str, str], each: int, local: int) -> None:
        """With so many cards for each task it sees its own alone."""
        for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
            cards = [card for card in environment.get(name, "").split(",") if card]
            if each and len(cards) >= each * (local + 1):
                environment[name] = ",".join(cards[local * each : (local + 1) * each])
                environment["SLURM_STEP_GPUS"] = environment[name]
                environment.update(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")

    async def _pump(
        self, link: Link, stream: asyncio.StreamReader, key: tuple[int, int], to: int, route: str, label: bytes
    ) -> None:
        rest = b""
        while True:
            chunk = await stream.read(CHUNK)
            if label:
                *lines, rest = (rest + chunk).split(b"\n")
                data = b"".join(label + line + b"\n" for line in lines)
                if not chunk and rest:
                    data, rest = label + rest + b"\n", b""
            else:
                data = chunk
            if data and route in ("log", "both"):
                os.write(to, data)
            if data and route in ("both", "send"):
                file = route == "both"
                await link.send(do="output", step=key[0], rank=key[1], to=to, data=packed(data), file=file)
            if not chunk:
                return

    async def _feed(self, message: dict[str, Any]) -> None:
        for (step, _), process in list(self.tasks.items()):
            if step != message["step"] or process.stdin is None:
                continue
            with contextlib.suppress(OSError, RuntimeError):
                if message["data"]:
                    process.stdin.write(base64.b64decode(message["data"]))
                    await process.stdin.drain()
                else:
                    process.stdin.close()

    def pass_on(self, number: int, step: int | None = None) -> None:
        """Send a signal to the tasks of a step, or to all."""
        if step is not None and number in (signal.SIGTERM, signal.SIGKILL):
            # How they end now says nothing of why the job ends.
            self.stopped.add(step)
        for (of, _), process in list(self.tasks.items()):
            if step is None or of == step:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)

    async def stop(self) -> None:
        """End what still runs."""
        left = list(self.tasks.values())
        self.stopped |= {step for step, _ in self.tasks}
        self.pass_on(signal.SIGTERM)
        if left:
            await asyncio.wait([asyncio.ensure_future(each.wait()) for each in left], timeout=5)
        self.pass_on(signal.SIGKILL)
