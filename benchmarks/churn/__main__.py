"""``python -m benchmarks.churn [--live] [--pods N]``: 24 hours of short jobs, and what stays of them.

By default scheduler, controllers, simulated nodes and the embedded API live in this process on a virtual clock. With
``--live`` a real ``unisono up`` is given jobs as fast as it takes them. Both end by themselves after ``--minutes``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.churn import live, simulated
from benchmarks.churn.fit import Sample, growing, growth
from unisono.standalone.logs import configure_logs

_SHOWN = ("rss", "store", "write-ahead log", "log", "tasks", "threads", "files")
_MIB = 1 << 20


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.churn", description=__doc__)
    parser.add_argument("--live", action="store_true", help="a real `unisono up` in processes of its own")
    parser.add_argument("--pods", type=int, default=1_000_000, help="pods in all (%(default)s)")
    parser.add_argument("--hours", type=float, default=24.0, help="virtual hours that they come in (%(default)s)")
    parser.add_argument("--size", type=int, default=10, help="pods of a job (%(default)s)")
    parser.add_argument("--per-second", type=float, default=500.0, help="with --live: pods that begin in a second")
    parser.add_argument("--window", type=int, default=2000, help="pods that exist at once, at most (%(default)s)")
    parser.add_argument("--every", type=int, default=5000, help="pods between two samples (%(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="real minutes, at most (%(default)s)")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("--samples", type=Path, help="write every sample to this file, as lines of JSON")
    options = parser.parse_args()
    configure_logs(level="error")
    samples: list[Sample] = []

    def report(sample: Sample) -> None:
        samples.append(sample)
        if options.samples is not None:
            with options.samples.open("a") as lines:
                lines.write(json.dumps(asdict(sample)) + "\n")
        if options.output == "text":
            print(_line(sample), flush=True)

    with tempfile.TemporaryDirectory(prefix="unisono-churn-") as folder:
        (live if options.live else simulated).run(Path(folder), options, report)
    if options.output == "json":
        found = {"pods": samples[-1].pods, "seconds": samples[-1].seconds, "growth": growth(samples)}
        print(json.dumps({**found, "growing": growing(samples)}))
    else:
        _tell(samples)
    return 0


def _line(sample: Sample) -> str:
    figures = [
        f"{name} {value / _MIB:.1f} MiB" if value >= 100_000 else f"{name} {value:,.0f}"
        for name, value in sample.figures.items()
        if name.split(": ")[-1] in (*_SHOWN, "cpu")
    ]
    return f"{sample.pods:>9,} pods, {sample.seconds / 3600:.2f} h: {', '.join(figures)}"


def _tell(samples: list[Sample]) -> None:
    print("\ngrowth per 100,000 pods after the warm-up:")
    for name, one in growth(samples).items():
        if name.split(": ")[-1] in _SHOWN:
            large = one["last"] >= 100_000
            slope = f"{one['per_100000'] / _MIB:+.2f} MiB" if large else f"{one['per_100000']:+.1f}"
            print(f"  {name:<28} {slope}")
    print("\nrose in each third:")
    for name, slope in growing(samples)[:60]:
        print(f"  {slope:>12,.0f}  {name}")


if __name__ == "__main__":
    raise SystemExit(main())
