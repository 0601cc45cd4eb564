"""Records the transcripts again: ``UNISONO_TEST_KUBECONFIG=FILE PYTHONPATH=tests python -m support.transcript.record``.

The server should be an empty cluster without nodes, with Kubernetes' own controllers for garbage, namespaces, service
accounts and quotas, and with no controllers for workloads. Names of scenes as arguments record only those.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from support.transcript import files
from support.transcript.playing import Player
from support.transcript.proxy import recording
from support.transcript.script import TRANSCRIPTS, scenes
from unisono.kube import kubeconfig


async def record(wanted: list[str]) -> None:
    config = kubeconfig.load(Path(os.environ["UNISONO_TEST_KUBECONFIG"]))
    binary = shutil.which("kubectl")
    if binary is None:
        raise SystemExit("kubectl is not on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        async with recording(config) as recorder:
            player = Player(recorder, Path(folder), binary)
            await player.whoami()
            versions = json.loads((await player.kubectl("version", "-o", "json"))[1])
            client, server = (versions[key]["gitVersion"] for key in ("clientVersion", "serverVersion"))
            for scene in scenes():
                if wanted and scene.name not in wanted:
                    continue
                steps = await player.play(scene)
                files.write(TRANSCRIPTS / f"{scene.name}.jsonl", client, server, steps)
                print(f"{scene.name}: {len(steps)} commands, {sum(len(one['exchanges']) for one in steps)} exchanges")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:]))
