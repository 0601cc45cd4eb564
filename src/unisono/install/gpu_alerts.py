"""Alerts about GPUs, on the metrics of DCGM's exporter; the agent of this machine exports the same names."""

from __future__ import annotations

from unisono.install.alert import Alert

_WHICH = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"

GPU_ALERTS: tuple[Alert, ...] = (
    Alert(
        "GpuUtilizationLow",
        "DCGM_FI_DEV_GPU_UTIL < 30",
        "10m",
        "info",
        f"{_WHICH} has been used to {{{{ $value }}}} % for 10 minutes.",
        "Of a pod: look at its input pipeline and batch size. Of no pod: let node scaling give the machine back.",
    ),
    Alert(
        "GpuTemperatureHigh",
        "DCGM_FI_DEV_GPU_TEMP > 85",
        "2m",
        "critical",
        f"{_WHICH} is {{{{ $value }}}} °C hot.",
        "Look at fans, airflow and the power limit; the card slows down before it stops.",
    ),
    Alert(
        "GpuMemoryHigh",
        "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.9",
        "5m",
        "warning",
        f"The memory of {_WHICH} is used to {{{{ $value | humanizePercentage }}}}.",
        "The job may run out of memory: a smaller batch, activation checkpointing, or a larger card.",
    ),
    Alert(
        "GpuPowerHigh",
        "DCGM_FI_DEV_POWER_USAGE / DCGM_FI_DEV_POWER_MGMT_LIMIT > 0.95",
        "5m",
        "warning",
        f"{_WHICH} draws {{{{ $value | humanizePercentage }}}} of its power limit.",
        "It runs slower than it could; look at the limit and at the clocks.",
    ),
    Alert(
        "GpuEccErrorsGrow",
        "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[10m]) > 0 or increase(DCGM_FI_DEV_ECC_SBE_VOL_TOTAL[10m]) > 0",
        "0m",
        "critical",
        f"{_WHICH} counts new ECC errors.",
        "Cordon the node, let its jobs end, and look at nvidia-smi -q -d ECC,ROW_REMAPPER before it takes pods again.",
    ),
)
