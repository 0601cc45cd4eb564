"""Plays scenes with a real kubectl through the recording proxy."""

from __future__ import annotations

import asyncio
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.transcript import normal
from support.transcript.proxy import Recorder
from support.transcript.script import Scene, Step

PATIENCE = 600.0
ATTEMPTS = 60
SCHEMA = re.compile(r"\b[A-Z]\w+")
FIELD = re.compile(r"^( +\S+)\t(<[^>]+>.*)$")


@dataclass
class Player:
    """kubectl with a home of its own, and the proxy that it talks to."""

    recorder: Recorder
    home: Path
    binary: str
    user: str = ""

    async def play(self, scene: Scene) -> list[dict[str, Any]]:
        """Each step's exit code and exchanges."""
        await self.clean(scene)
        namespace = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {scene.namespace}}}"
        await self._must("create", "-f", "-", stdin=namespace)
        for _ in range(ATTEMPTS):
            if (await self.kubectl("get", "serviceaccount", "default", "-n", scene.namespace))[0] == 0:
                break
            await asyncio.sleep(0.2)
        self._settings(scene.namespace)
        played = [await self._step(step) for step in scene.steps]
        await self.clean(scene)
        return played

    async def clean(self, scene: Scene) -> None:
        """Remove what the scene makes."""
        self._settings("default")
        for what in scene.leaves:
            await self._must("delete", *what.split(), "--ignore-not-found", "--wait=true", "--timeout=300s")
        # Pods on nodes wait for a node agent that is not there.
        await self.kubectl("delete", "pods", "--all", "--force", "-n", scene.namespace)
        await self._must("delete", "ns", scene.namespace, "--ignore-not-found", "--wait=true", "--timeout=300s")

    async def whoami(self) -> None:
        """Learn the name of the user, which may differ from server to server."""
        self._settings("default")
        found = json.loads(await self._must("auth", "whoami", "-o", "json"))
        self.user = found["status"]["userInfo"]["username"]

    async def _step(self, step: Step) -> dict[str, Any]:
        for _ in range(ATTEMPTS if step.until_ok else 1):
            self.recorder.take()
            code, out, err = await self.kubectl(*step.words, stdin=step.stdin, edit=step.edit)
            if code == 0:
                break
            if step.until_ok:
                await asyncio.sleep(0.25)
        found = [one for raw in self.recorder.take() if (one := normal.exchange(raw, self.user))]
        if step.quiet:
            found = [one for one in found if not one["request"].startswith("GET ")]
        played: dict[str, Any] = {"run": step.name, "exit": code}
        # What the server has refused is in its answer.
        told = any(one["status"] >= 400 for one in found)
        problems = [
            normal.text(line, self.user) for line in err.splitlines() if not line.startswith("WARNING: version")
        ]
        if code and not step.quiet and not told:
            played["stderr"] = problems
        if step.fields:
            played["fields"] = _fields(out)
        played["exchanges"] = _once(found)
        return played

    async def kubectl(self, *words: str, stdin: str = "", edit: str = "") -> tuple[int, str, str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECACHEDIR": str(self.home / "cache"),
            "KUBECONFIG": str(self.home / "config"),
            "KUBE_EDITOR": f"sed -i {edit}" if edit else "false",
            "TZ": "UTC",
        }
        process = await asyncio.create_subprocess_exec(
            self.binary,
            *words,
            env=environment,
            cwd=self.home,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate(stdin.encode())
        return process.returncode or 0, out.decode(), err.decode()

    async def _must(self, *words: str, stdin: str = "") -> str:
        code, out, err = await self.kubectl(*words, stdin=stdin)
        if code:
            raise RuntimeError(f"kubectl {' '.join(words)}: {err}")
        return out

    def _settings(self, namespace: str) -> None:
        context = {"cluster": "here", "user": "here", "namespace": namespace}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.recorder.url}}],
            "contexts": [{"name": "here", "context": context}],
            "users": [{"name": "here", "user": {}}],
        }
        (self.home / "config").write_text(yaml.safe_dump(content))


def _fields(out: str) -> list[str]:
    """Names and types that ``explain`` prints, without the prose."""
    matches = [match for line in out.splitlines() if (match := FIELD.match(line))]
    # The names of schemas say nothing that clients use.
    return [f"{match[1].strip()} {SCHEMA.sub('Object', match[2])}".strip() for match in matches]


def _once(found: list[normal.Exchange]) -> list[normal.Exchange]:
    """Repeated questions with the same answer count once: how often kubectl asks depends on the moment."""
    kept: list[normal.Exchange] = []
    for one in found:
        if not kept or kept[-1] != one:
            kept.append(one)
    return kept
