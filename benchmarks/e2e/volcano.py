"""Volcano's own scheduler and controllers, from binaries that are named, as its default installation starts them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.e2e.processes import Process, free_port

_CONTROLLERS = "--controllers=*,-sharding-controller,-colocation-config-controller"
"""Without those whose definitions are Volcano's alone; neither has a part in what is measured."""
_FLAGS = {
    "controllers": (
        "vc-controller-manager",
        "--kube-api-qps=50",
        "--kube-api-burst=100",
        "--worker-threads=3",
        _CONTROLLERS,
    ),
    "scheduler": ("vc-scheduler", "--kube-api-qps=2000", "--kube-api-burst=2000", "--schedule-period=1s"),
}
"""The limits and periods of Volcano's Helm chart."""
_CONFIGURATION = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


class _Component(Process):
    """Ready when it answers its metrics: what it watches it lists before it works."""

    def _works(self) -> bool:
        return bool(self.get("/metrics"))


def components(binaries: Path, kubeconfig: Path, folder: Path) -> list[Process]:
    """Start both against a server that has our definitions, which hold all fields of Volcano's.

    Args:
        binaries: folder of ``vc-scheduler`` and ``vc-controller-manager``.
        kubeconfig: of an administrator.
        folder: for the configuration and logs.
    """
    configuration = folder / "volcano-scheduler.conf"
    configuration.write_text(_CONFIGURATION)
    found: list[Process] = []
    for name, (program, *flags) in _FLAGS.items():
        listen = f"127.0.0.1:{free_port()}"
        words = [str(binaries / program), f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--enable-metrics=true"]
        words += [f"--listen-address={listen}", *flags]
        if name == "scheduler":
            words.append(f"--scheduler-conf={configuration}")
        found.append(_Component(name, words, folder / f"{program}.log", f"http://{listen}"))
    return found
