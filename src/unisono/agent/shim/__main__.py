"""Entry point; see the package's docstring. Run as a file, so that nothing else of Unisono is imported."""

# pathlib would cost milliseconds at every start of a container; the spec is a file of the agent's own, mode 0600.
# ruff: noqa: PTH100, PTH120, PTH123, S302

from __future__ import annotations

import marshal
import os
import sys


def main() -> int:
    """Do what the arguments say; the answer is the exit code."""
    mode, path = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else ("", sys.argv[1])
    if mode == "--probe":
        from unisono.agent.shim.enter import probe

        probe(path)
        return 0
    with open(path, "rb") as file:
        spec = marshal.load(file)  # nosec B302 # written by the agent, mode 0600
    from unisono.agent.shim.run import supervise

    return supervise(spec)


if __name__ == "__main__":
    # The folder that holds the package ``unisono``, behind the standard library.
    folder = os.path.abspath(__file__)
    for _ in range(4):
        folder = os.path.dirname(folder)
    sys.path.append(folder)
    sys.exit(main())
