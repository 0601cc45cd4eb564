"""Amounts as people say them."""

from __future__ import annotations

import pytest

from unisono.dashboard.views.table import amount_text, amounts_text, ordered, quantity

GI, TI = 1 << 30, 1 << 40


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 1_624_000, "1,624"),
        ("cpu", 848_666, "848.7"),
        ("cpu", 500, "0.5"),
        ("cpu", 1, "0.001"),
        ("cpu", 16_040, "16"),
        ("nvidia.com/gpu", 16_300, "16.3"),
        ("nvidia.com/gpu", 138_000, "138"),
        ("memory", 0, "0 B"),
        ("memory", 1000, "0.98 KiB"),
        ("memory", 64 * GI, "64 GiB"),
        ("memory", 6496 * GI, "6.3 TiB"),
        ("memory", int(50.02 * TI), "50 TiB"),
        ("memory", int(1.5 * GI), "1.5 GiB"),
        ("memory", 1023 * GI, "1 TiB"),
        ("memory", 998 * GI, "998 GiB"),
        ("hugepages-2Mi", 4 << 20, "4 MiB"),
        ("memory", (1 << 63) - 1, "8 EiB"),
        ("pods", 110, "110"),
    ],
)
def test_quantities(name: str, amount: int, text: str) -> None:
    assert quantity(name, amount) == text


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 1000, "1 CPU"),
        ("cpu", 96_000, "96 CPUs"),
        ("memory", 384 * GI, "384 GiB"),
        ("nvidia.com/gpu", 1000, "1 GPU"),
        ("amd.com/gpu", 8000, "8 GPUs"),
        ("nvidia.com/mig-1g.5gb", 2000, "2 nvidia.com/mig-1g.5gb"),
        ("rdma/hca", 1000, "1 rdma/hca"),
        ("pods", 1, "1 pod"),
    ],
)
def test_amounts_have_units(name: str, amount: int, text: str) -> None:
    assert amount_text(name, amount) == text


def test_cards_come_first_and_nothing_is_left_out() -> None:
    amounts = {
        "memory": 384 * GI,
        "pods": 3,
        "rdma/hca": 1000,
        "cpu": 96_000,
        "nvidia.com/gpu": 8000,
        "example.com/x": 0,
    }
    assert amounts_text(amounts) == "8 GPUs, 96 CPUs, 1 rdma/hca, 384 GiB, 3 pods"
    shared = {"aliyun.com/gpu-mem": 1, "aliyun.com/gpu-count": 1, "nvidia.com/gpu": 1, "cpu": 1}
    assert ordered(shared) == ["nvidia.com/gpu", "aliyun.com/gpu-count", "cpu", "aliyun.com/gpu-mem"]
    assert amounts_text({}) == ""
    assert ordered(amounts) == ["nvidia.com/gpu", "cpu", "example.com/x", "rdma/hca", "memory", "pods"]
