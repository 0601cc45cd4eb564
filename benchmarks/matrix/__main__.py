"""``python -m benchmarks.matrix [--draws N] [--first SEED]``: pairs and triples of features on live control planes."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.matrix.features import made
from benchmarks.matrix.judge import judge
from unisono.standalone.logs import configure_logs

_EVERY = 50


def main() -> int:
    """Draw, judge and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.matrix", description=__doc__)
    parser.add_argument("--draws", type=int, default=2000, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="first seed (%(default)s)")
    options = parser.parse_args()
    configure_logs(level="error")
    wrong, began = 0, time.process_time()
    with tempfile.TemporaryDirectory(prefix="unisono-matrix-") as folder:
        for done, seed in enumerate(range(options.first, options.first + options.draws), 1):
            found = judge(seed, Path(folder))
            if found:
                wrong += 1
                print(f"seed {seed}, {' + '.join(made(seed).features)}:", flush=True)
                for text in found:
                    print(f"  {text}", flush=True)
            if done % _EVERY == 0:
                each = (time.process_time() - began) / done
                print(f"{done} of {options.draws} draws, {wrong} findings, {each:.1f} s each", file=sys.stderr)
    print(f"seeds {options.first} to {options.first + options.draws - 1}: {wrong} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
