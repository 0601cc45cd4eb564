"""Metrics of this machine's NVIDIA cards, read by NVML at each scrape, as DCGM's exporter names and labels them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import Metric
from prometheus_client.registry import Collector

_MIB = 1 << 20
_LABELS = ("gpu", "UUID", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION")
Read = Callable[[Any, Any], float]

# Constants of nvml.h, which every version of the library keeps.
_TEMPERATURE_GPU, _CLOCK_SM, _CLOCK_MEMORY, _CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 2, 0, 1, 0

FIELDS: tuple[tuple[str, str, str, Read], ...] = (
    ("GPU_TEMP", "gauge", "GPU temperature (in C).", lambda n, h: n.nvmlDeviceGetTemperature(h, _TEMPERATURE_GPU)),
    ("GPU_UTIL", "gauge", "GPU utilization (in %).", lambda n, h: n.nvmlDeviceGetUtilizationRates(h).gpu),
    ("MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", lambda n, h: n.nvmlDeviceGetUtilizationRates(h).memory),
    ("FB_USED", "gauge", "Memory in use (in MiB).", lambda n, h: n.nvmlDeviceGetMemoryInfo(h).used // _MIB),
    ("FB_FREE", "gauge", "Memory that is free (in MiB).", lambda n, h: n.nvmlDeviceGetMemoryInfo(h).free // _MIB),
    ("POWER_USAGE", "gauge", "Power draw (in W).", lambda n, h: n.nvmlDeviceGetPowerUsage(h) / 1000),
    ("POWER_MGMT_LIMIT", "gauge", "Power limit (in W).", lambda n, h: n.nvmlDeviceGetPowerManagementLimit(h) / 1000),
    ("SM_CLOCK", "gauge", "SM clock (in MHz).", lambda n, h: n.nvmlDeviceGetClockInfo(h, _CLOCK_SM)),
    ("MEM_CLOCK", "gauge", "Memory clock (in MHz).", lambda n, h: n.nvmlDeviceGetClockInfo(h, _CLOCK_MEMORY)),
    (
        "ECC_SBE_VOL_TOTAL",
        "counter",
        "Corrected ECC errors since the driver was loaded.",
        lambda n, h: n.nvmlDeviceGetTotalEccErrors(h, _CORRECTED, _VOLATILE),
    ),
    (
        "ECC_DBE_VOL_TOTAL",
        "counter",
        "Uncorrected ECC errors since the driver was loaded.",
        lambda n, h: n.nvmlDeviceGetTotalEccErrors(h, _UNCORRECTED, _VOLATILE),
    ),
)
"""Name after ``DCGM_FI_DEV_``, type, help, and how NVML answers it."""


class GpuMetrics(Collector):
    """Shows nothing on a machine without cards, driver or ``nvidia-ml-py``, and leaves out what a card does not know.

    Args:
        load: answers the NVML library, or None where there is none; asked once.
        hostname: label of the machine.

    """

    def __init__(self, load: Callable[[], Any] | None = None, hostname: str = "") -> None:
        self._load, self._hostname = load or load_nvml, hostname or socket.gethostname()
        self._nvml: Any = None
        self._loaded = False
        # Scrapes may come at the same time.
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Nothing: what a card knows is seen when it is asked."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """One family for each field that a card knows."""
        with self._lock:
            if not self._loaded:
                self._nvml, self._loaded = self._load(), True
            return () if self._nvml is None else list(self._families(self._nvml))

    def _families(self, nvml: Any) -> Iterator[Metric]:
        try:
            driver = _text(nvml.nvmlSystemGetDriverVersion())
            cards = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            labels = [self._labels(nvml, index, card, driver) for index, card in enumerate(cards)]
        except nvml.NVMLError:
            # The driver was unloaded, or a card was lost: it is looked for again at the next scrape.
            self._loaded = False
            return
        for name, kind, text, read in FIELDS:
            family = Metric(f"DCGM_FI_DEV_{name}", text, "gauge" if kind == "gauge" else "unknown")
            for card, said in zip(cards, labels, strict=True):
                try:
                    family.add_sample(family.name, said, float(read(nvml, card)))
                except nvml.NVMLError:
                    continue
            if family.samples:
                yield family

    def _labels(self, nvml: Any, index: int, card: Any, driver: str) -> dict[str, str]:
        uuid, model = _text(nvml.nvmlDeviceGetUUID(card)), _text(nvml.nvmlDeviceGetName(card))
        return dict(zip(_LABELS, (str(index), uuid, f"nvidia{index}", model, self._hostname, driver), strict=True))


def load_nvml() -> Any:
    """The library with a connection to the driver, None where one of them is missing."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
