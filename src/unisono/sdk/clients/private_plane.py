"""``python -m unisono.sdk.clients.private_plane FOLDER OPTIONS``: a control plane that lives as long as its input.

The process that started it holds the other end. When that process ends, however it ends, standard input ends too, and
the plane goes with its pods and its folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from unisono.errors import UnisonoError
from unisono.standalone.logs import configure_logs
from unisono.standalone.paths import DataDir
from unisono.standalone.plane import Plane, PlaneOptions


async def serve(data: DataDir, options: PlaneOptions, leash: int) -> None:
    """Run a plane until the file descriptor ``leash`` ends, or SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(leash, 4096):
            loop.remove_reader(leash)
            stopped.set()

    plane = Plane(data, options)
    loop.add_reader(leash, read)
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    await plane.start()
    try:
        await stopped.wait()
    finally:
        await plane.stop(kill_pods=True)


def main() -> None:
    """Read the arguments and serve."""
    folder, text = Path(sys.argv[1]), sys.argv[2]
    given: dict[str, Any] = json.loads(text)
    data = DataDir(folder)
    configure_logs(data.log)
    options = PlaneOptions(local_node=given["local_node"], simulated_nodes=given["simulated_nodes"])
    try:
        asyncio.run(serve(data, options, sys.stdin.fileno()))
    except UnisonoError as error:
        # The last line is what the parent tells its user; the folder is the parent's to take away.
        sys.exit(str(error))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
