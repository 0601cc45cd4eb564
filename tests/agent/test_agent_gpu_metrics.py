"""Cards are shown under DCGM's names, and what a card does not know is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from unisono.agent.devices.nvidia import GpuMetrics


class NVMLError(Exception):
    """As NVML raises it."""


class Nvml:
    """NVML with values of an A100 80GB under load and of a T4, which counts no ECC errors while ECC is off."""

    NVMLError = NVMLError

    def __init__(self) -> None:
        self.lost = False

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"550.54.15"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        if self.lost:
            raise NVMLError("Driver Not Loaded")
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, card: int) -> str:  # noqa: N802
        return f"GPU-{card}"

    def nvmlDeviceGetName(self, card: int) -> bytes:  # noqa: N802
        return (b"NVIDIA A100-SXM4-80GB", b"Tesla T4")[card]

    def nvmlDeviceGetTemperature(self, card: int, sensor: int) -> int:  # noqa: N802
        assert sensor == 0
        return (66, 41)[card]

    def nvmlDeviceGetUtilizationRates(self, card: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=(97, 0)[card], memory=(54, 0)[card])

    def nvmlDeviceGetMemoryInfo(self, card: int) -> Any:  # noqa: N802
        used = (73_400_320_000, 3_145_728)[card]
        total = (85_899_345_920, 16_106_127_360)[card]
        return SimpleNamespace(used=used, free=total - used, total=total)

    def nvmlDeviceGetPowerUsage(self, card: int) -> int:  # noqa: N802
        return (391_237, 10_120)[card]

    def nvmlDeviceGetPowerManagementLimit(self, card: int) -> int:  # noqa: N802
        return (400_000, 70_000)[card]

    def nvmlDeviceGetClockInfo(self, card: int, which: int) -> int:  # noqa: N802
        return {1: (1410, 300), 2: (1593, 405)}[which][card]

    def nvmlDeviceGetTotalEccErrors(self, card: int, error: int, counter: int) -> int:  # noqa: N802
        assert counter == 0
        if card == 1:
            raise NVMLError("Not Supported")
        return (3, 0)[error]


def shown(nvml: Any) -> dict[str, float]:
    """Values by ``NAME gpu``."""
    registry = CollectorRegistry()
    registry.register(GpuMetrics(lambda: nvml, "box"))
    return {
        f"{sample.name} {sample.labels['gpu']}": sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_values_have_dcgms_names_and_units() -> None:
    found = shown(Nvml())
    first = {name.removesuffix(" 0"): value for name, value in found.items() if name.endswith(" 0")}
    assert first == {
        "DCGM_FI_DEV_GPU_TEMP": 66,
        "DCGM_FI_DEV_GPU_UTIL": 97,
        "DCGM_FI_DEV_MEM_COPY_UTIL": 54,
        "DCGM_FI_DEV_FB_USED": 70_000,
        "DCGM_FI_DEV_FB_FREE": 11_920,
        "DCGM_FI_DEV_POWER_USAGE": 391.237,
        "DCGM_FI_DEV_POWER_MGMT_LIMIT": 400,
        "DCGM_FI_DEV_SM_CLOCK": 1410,
        "DCGM_FI_DEV_MEM_CLOCK": 1593,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 3,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
    }
    assert found["DCGM_FI_DEV_POWER_USAGE 1"] == 10.12
    assert "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL 1" not in found


def test_the_text_is_what_prometheus_reads_from_dcgms_exporter() -> None:
    registry = CollectorRegistry()
    registry.register(GpuMetrics(Nvml, "box"))
    text = generate_latest(registry).decode()
    assert (
        'DCGM_FI_DEV_GPU_UTIL{DCGM_FI_DRIVER_VERSION="550.54.15",Hostname="box",UUID="GPU-0",device="nvidia0",'
        'gpu="0",modelName="NVIDIA A100-SXM4-80GB"} 97.0' in text
    )
    assert "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{" in text


def test_a_card_says_which_pod_has_it() -> None:
    metrics = GpuMetrics(Nvml, "box", lambda: {"GPU-1": ("team", "train-worker-0")})
    used = next(family for family in metrics.collect() if family.name == "DCGM_FI_DEV_GPU_UTIL")
    told = [(sample.labels["gpu"], sample.labels.get("namespace"), sample.labels.get("pod")) for sample in used.samples]
    assert told == [("0", None, None), ("1", "team", "train-worker-0")]


def test_a_machine_without_cards_shows_nothing_and_a_driver_that_is_lost_is_looked_for_again() -> None:
    assert shown(None) == {}
    nvml, loads = Nvml(), list[int]()

    def load() -> Nvml:
        loads.append(1)
        return nvml

    metrics = GpuMetrics(load, "box")
    nvml.lost = True
    assert list(metrics.collect()) == []
    nvml.lost = False
    assert len(list(metrics.collect())) == 11
    assert len(list(metrics.collect())) == 11
    assert len(loads) == 2
