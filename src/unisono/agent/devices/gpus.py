"""NVIDIA cards of this machine by NVML: whole, or divided into MIG instances."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.agent.devices.inventory import Accelerator, Inventory
from unisono.agent.devices.vendors.files import numa_node, pci_root
from unisono.api.keys import GPU_COMPUTE_MAJOR, GPU_COMPUTE_MINOR, GPU_MEMORY, GPU_PRODUCT, NVIDIA_GPU, NVIDIA_MIG

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A part of a card that works as one; ``profile`` such as ``1g.10gb``."""

    uuid: str
    profile: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card.

    Attributes:
        memory: bytes.
        driver: its version.
        compute: major and minor number of its compute capability.
        divided: it is used by MIG instances, and not whole.
        instances: those that were made.
        healthy: the driver reports no failure of its memory.
        numa, root: see `Accelerator`.
    """

    uuid: str
    product: str
    memory: int
    driver: str = ""
    compute: tuple[int, int] = (0, 0)
    divided: bool = False
    instances: tuple[MigInstance, ...] = ()
    healthy: bool = True
    numa: int | None = None
    root: str = ""


def find_gpus(sys: Path = Path("/sys")) -> tuple[Gpu, ...]:
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
        return tuple(_read(pynvml, index, sys) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _read(nvml: Any, index: int, sys: Path) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    device = sys / "bus" / "pci" / "devices" / _address(nvml, handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    divided = _divided(nvml, handle)
    return Gpu(
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        product=_text(nvml.nvmlDeviceGetName(handle)),
        memory=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
        compute=(int(major), int(minor)),
        divided=divided,
        instances=tuple(_instances(nvml, handle)) if divided else (),
        healthy=_healthy(nvml, handle),
        numa=numa_node(device),
        root=pci_root(device),
    )


def _address(nvml: Any, handle: Any) -> str:
    """Its PCI address as the kernel writes it: NVML says ``00000000:17:00.0``, or nothing."""
    try:
        domain, _, rest = _text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower().partition(":")
    except nvml.NVMLError:
        return "unknown"
    return f"{domain[-4:]}:{rest}"


def _divided(nvml: Any, handle: Any) -> bool:
    """Whether MIG is in force; cards that do not know it say that it is not supported."""
    try:
        return int(nvml.nvmlDeviceGetMigMode(handle)[0]) == 1
    except nvml.NVMLError:
        return False


def _instances(nvml: Any, handle: Any) -> Iterator[MigInstance]:
    for number in range(int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            uuid, found = _text(nvml.nvmlDeviceGetUUID(part)), nvml.nvmlDeviceGetAttributes(part)
        except nvml.NVMLError:
            # Numbers without an instance.
            continue
        slices, parts = int(found.gpuInstanceSliceCount), int(found.computeInstanceSliceCount)
        compute = "" if parts == slices else f"{parts}c."
        yield MigInstance(uuid, f"{compute}{slices}g.{_gigabytes(int(found.memorySizeMB))}gb")


def _gigabytes(mebibytes: int) -> int:
    """As profiles count: 9,728 MiB are 10gb."""
    return -(-mebibytes // 1024)


def _healthy(nvml: Any, handle: Any) -> bool:
    """Whether rows of its memory failed for which there is no replacement; older cards do not tell."""
    try:
        return not int(nvml.nvmlDeviceGetRemappedRows(handle)[3])
    except nvml.NVMLError:
        return True


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def gpu_labels(gpus: Iterable[Gpu]) -> dict[str, str]:
    """Node labels as NVIDIA's GPU feature discovery names them; empty without cards."""
    cards = list(gpus)
    if not cards:
        return {}
    first = cards[0]
    whole = [card for card in cards if not card.divided]
    parts: dict[str, int] = {}
    for card in cards:
        for each in card.instances:
            parts[each.profile] = parts.get(each.profile, 0) + 1
    divided = {f"{NVIDIA_MIG}{profile}.count": str(count) for profile, count in sorted(parts.items())}
    if len(whole) < len(cards):
        divided["nvidia.com/mig.strategy"] = "mixed"
    driver = [*first.driver.split("."), "", "", ""][:3]
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(len(whole)),
        GPU_PRODUCT: "-".join(first.product.split()),
        GPU_MEMORY: str(first.memory // _MIB),
        GPU_COMPUTE_MAJOR: str(first.compute[0]),
        GPU_COMPUTE_MINOR: str(first.compute[1]),
        "nvidia.com/cuda.driver.major": driver[0],
        "nvidia.com/cuda.driver.minor": driver[1],
        "nvidia.com/cuda.driver.rev": driver[2],
        **divided,
    }


def inventory(gpus: Iterable[Gpu]) -> Inventory:
    """What the node offers: MIG instances of cards that are divided, and all other cards whole."""
    cards = tuple(gpus)
    devices: list[Accelerator] = []
    for gpu in cards:
        if gpu.divided:
            devices += [
                Accelerator(each.uuid, f"{NVIDIA_MIG}{each.profile}", each.uuid, gpu.healthy, gpu.numa, gpu.root)
                for each in gpu.instances
            ]
        else:
            devices.append(Accelerator(gpu.uuid, NVIDIA_GPU, gpu.uuid, gpu.healthy, gpu.numa, gpu.root))
    hidden: dict[str, str | None] = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    # A machine of which all cards are divided, and none has an instance yet, has cards to hide nevertheless.
    return Inventory(tuple(devices), gpu_labels(cards), hidden)
