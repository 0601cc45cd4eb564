"""NVIDIA's cards of this machine: what NVML tells of them, their metrics, and the Multi-Process Service."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.registry import Collector

from unisono.agent.devices.inventory import Accelerator, CardSharing, Inventory, card_of, is_replica
from unisono.agent.devices.vendors import numa_node, pci_root
from unisono.api.keys import GPU_COMPUTE_MAJOR, GPU_COMPUTE_MINOR, GPU_MEMORY, GPU_PRODUCT, NVIDIA_GPU, NVIDIA_MIG
from unisono.errors import AgentError

# NVIDIA cards of this machine by NVML: whole, or divided into MIG instances.

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
            uuid, attributes = _text(nvml.nvmlDeviceGetUUID(part)), nvml.nvmlDeviceGetAttributes(part)
        except nvml.NVMLError:
            # Numbers without an instance.
            continue
        slices, parts = int(attributes.gpuInstanceSliceCount), int(attributes.computeInstanceSliceCount)
        compute = "" if parts == slices else f"{parts}c."
        yield MigInstance(uuid, f"{compute}{slices}g.{_gigabytes(int(attributes.memorySizeMB))}gb")


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


# Metrics of this machine's NVIDIA cards, read by NVML at each scrape, as DCGM's exporter names and labels them.

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
        holders: by the UUID of a card, namespace and name of the pod that has it, which become labels.
    """

    def __init__(
        self,
        load: Callable[[], Any] | None = None,
        hostname: str = "",
        holders: Callable[[], Mapping[str, tuple[str, str]]] = dict,
    ) -> None:
        self._load, self._hostname = load or load_nvml, hostname or socket.gethostname()
        self._holders = holders
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
            holders = self._holders()
            labels = [self._labels(nvml, index, card, driver, holders) for index, card in enumerate(cards)]
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

    def _labels(
        self, nvml: Any, index: int, card: Any, driver: str, holders: Mapping[str, tuple[str, str]]
    ) -> dict[str, str]:
        uuid, model = _text(nvml.nvmlDeviceGetUUID(card)), _text(nvml.nvmlDeviceGetName(card))
        labels = dict(zip(_LABELS, (str(index), uuid, f"nvidia{index}", model, self._hostname, driver), strict=True))
        if uuid in holders:
            labels["namespace"], labels["pod"] = holders[uuid]
        return labels


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


# NVIDIA's Multi-Process Service for cards that containers share at the same time: its daemon, and its variables.

PROGRAM = "nvidia-cuda-mps-control"
_START_SECONDS = 20.0


def mps_variables(
    given: Iterable[str], gpus: Iterable[Gpu], shares: Iterable[CardSharing], pipes: Path
) -> dict[str, str]:
    """What tells a container's CUDA programs of the server, and bounds their part of the card.

    Args:
        given: the container's devices.
        gpus: the machine's.
        shares: how cards are shared.
        pipes: folder of the daemon's pipes.
    """
    share = next((each for each in shares if each.strategy == "mps"), None)
    card = next((card_of(each) for each in given if is_replica(each)), None)
    if share is None or card is None:
        return {}
    memory = next((gpu.memory for gpu in gpus if gpu.uuid == card), 0)
    variables = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(100 // share.replicas)}
    if memory:
        variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={memory // share.replicas // _MIB}M"
    return variables


def mps_pipes(root: Path) -> Path:
    """The folder of the daemon's pipes, below the agent's folder."""
    return root / "mps" / "pipes"


class MpsDaemon:
    """The daemon, for as long as the agent runs.

    Args:
        root: the agent's folder; pipes and logs are below it.
        program: its control program.
    """

    def __init__(self, root: Path, program: str = PROGRAM) -> None:
        self.pipes, self._logs, self._program = mps_pipes(root), root / "mps" / "logs", program

    @property
    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(self.pipes), "CUDA_MPS_LOG_DIRECTORY": str(self._logs)}

    async def start(self) -> None:
        """Start it; one that an earlier agent has left goes on.

        Raises:
            AgentError: there is no such program, or it failed.
        """
        if shutil.which(self._program) is None:
            raise AgentError(
                f"The device configuration shares cards by mps, and {self._program} is not on the PATH: install "
                "NVIDIA's driver tools, or share by timeSlicing."
            )
        for path in (self.pipes, self._logs):
            path.mkdir(parents=True, exist_ok=True)
        code, text = await self._run("-d")
        if code and "already running" not in text.lower():
            raise AgentError(f"{self._program} -d failed: {text or f'exit code {code}'}")

    async def stop(self) -> None:
        """Let it end with its last client."""
        with contextlib.suppress(AgentError, OSError):
            await self._run(words="quit\n")

    async def _run(self, *arguments: str, words: str = "") -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            self._program,
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                output, _ = await process.communicate(words.encode())
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AgentError(f"{self._program} did not answer within {_START_SECONDS:.0f} s") from None
        return process.returncode or 0, output.decode(errors="replace").strip()
