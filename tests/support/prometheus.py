"""A real Prometheus with samples of the past, where the machine has one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support.plane import wait_until

_PATH = "/usr/local/bin:/usr/bin:/bin"


class Sample(NamedTuple):
    """One value of a series; the time in seconds since 1970."""

    metric: str
    labels: Mapping[str, str]
    at: int
    value: float


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_PATH)


def missing() -> str:
    """Why there is no Prometheus to ask; empty where there is one."""
    found = _program("prometheus") and _program("promtool")
    return "" if found else "needs Prometheus: apt-get install prometheus"


def _open_metrics(samples: Iterable[Sample]) -> str:
    """As ``promtool`` imports them: all samples of a metric together."""
    lines: dict[str, list[str]] = {}
    for each in samples:
        labels = ",".join(f'{name}="{value}"' for name, value in each.labels.items())
        lines.setdefault(each.metric, []).append(f"{each.metric}{{{labels}}} {each.value!r} {each.at}")
    text = []
    for metric, found in lines.items():
        text += [
            f"# TYPE {metric.removesuffix('_total')} {'counter' if metric.endswith('_total') else 'gauge'}",
            *found,
        ]
    return "\n".join([*text, "# EOF", ""])


@contextmanager
def serving(folder: Path, samples: Iterable[Sample]) -> Iterator[str]:
    """The address of a Prometheus that knows these."""
    (folder / "samples").write_text(_open_metrics(samples))
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 1m}\n")
    data = folder / "data"
    promtool, prometheus = _program("promtool"), _program("prometheus")
    assert promtool
    assert prometheus
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "samples"), str(data)],
        check=True,
        capture_output=True,
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([prometheus, *arguments], stdout=log, stderr=log, cwd=folder)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    try:
        wait_until("Prometheus is ready", ready)
        yield url
    finally:
        process.terminate()
        process.wait()
