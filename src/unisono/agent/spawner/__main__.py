"""Entry point; run as a file with nothing but the standard library, like the shim's."""

# ruff: noqa: PTH100, PTH120

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # The folder that holds the package ``unisono``, behind the standard library.
    folder = os.path.abspath(__file__)
    for _ in range(4):
        folder = os.path.dirname(folder)
    sys.path.append(folder)

    from unisono.agent.spawner.loop import serve

    serve(3)
