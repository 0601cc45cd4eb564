"""NVIDIA cards of this machine by NVML, and which pod holds which card."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.api.keys import GPU_COMPUTE_MAJOR, GPU_COMPUTE_MINOR, GPU_MEMORY, GPU_PRODUCT, NVIDIA_GPU
from unisono.errors import AgentError

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card; ``memory`` in bytes."""

    uuid: str
    product: str
    memory: int
    driver: str = ""
    compute: tuple[int, int] = (0, 0)


def find_gpus() -> tuple[Gpu, ...]:
    """The cards that the driver answers for; none without driver or without ``nvidia-ml-py``."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(_read(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _read(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        product=_text(nvml.nvmlDeviceGetName(handle)),
        memory=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
        compute=(int(major), int(minor)),
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def gpu_labels(gpus: Iterable[Gpu]) -> dict[str, str]:
    """Node labels as NVIDIA's GPU feature discovery names them; empty without cards."""
    cards = list(gpus)
    if not cards:
        return {}
    first = cards[0]
    driver = [*first.driver.split("."), "", "", ""][:3]
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(len(cards)),
        GPU_PRODUCT: "-".join(first.product.split()),
        GPU_MEMORY: str(first.memory // _MIB),
        GPU_COMPUTE_MAJOR: str(first.compute[0]),
        GPU_COMPUTE_MINOR: str(first.compute[1]),
        "nvidia.com/cuda.driver.major": driver[0],
        "nvidia.com/cuda.driver.minor": driver[1],
        "nvidia.com/cuda.driver.rev": driver[2],
    }


def choose(gpus: Iterable[Gpu], wanted: Mapping[str, int], taken: Iterable[str]) -> dict[str, list[str]]:
    """Cards for the containers of a pod, in the machine's order.

    Args:
        gpus: the machine's cards.
        wanted: how many each container needs.
        taken: ids of cards that other pods hold.

    Raises:
        AgentError: not enough are free.
    """
    held = set(taken)
    free = [gpu.uuid for gpu in gpus if gpu.uuid not in held]
    need = sum(wanted.values())
    if need > len(free):
        raise AgentError(f"The pod needs {need} {NVIDIA_GPU}, and {len(free)} are free on this node.")
    chosen: dict[str, list[str]] = {}
    for name, count in wanted.items():
        if count:
            chosen[name], free = free[:count], free[count:]
    return chosen


def visible_devices(devices: list[str], machine_has_cards: bool) -> dict[str, str]:
    """Variables that show a container its cards only; on a machine without cards nothing is set."""
    if not machine_has_cards:
        return {}
    shown = ",".join(devices)
    return {"CUDA_VISIBLE_DEVICES": shown, "NVIDIA_VISIBLE_DEVICES": shown or "void"}
