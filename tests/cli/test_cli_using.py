"""What the processes of a job use, as ``unisono run --watch`` shows it."""

from __future__ import annotations

import pytest

from unisono.cli.running.using import Card, Cards, cards_of, use_text

GIB = 1 << 30
TWO: Cards = {
    ("default", "train-worker-0"): [Card(98.0, 70 * 1024, 10 * 1024)],
    ("default", "train-worker-1"): [Card(12.0, 30 * 1024, 50 * 1024)],
    ("other", "train-worker-0"): [Card(50.0, 0, 1024)],
}
USED = {("default", "train-worker-0"): {"cpu": 3900, "memory": 12 * GIB}}


@pytest.mark.parametrize(
    ("pods", "used", "cards", "asked", "text"),
    [
        ([], {}, {}, 0, ""),
        (["train-worker-0"], {}, {}, 0, ""),
        (["train-worker-0"], USED, {}, 0, "3.9 CPUs, 12 GiB"),
        (["train-worker-0"], USED, {}, 1, "3.9 CPUs, 12 GiB; this server does not tell the use of its GPUs"),
        (["train-worker-0"], {}, TWO, 1, "GPU at 98 %, 70 of 80 GiB of their memory"),
        (
            ["train-worker-0", "train-worker-1"],
            USED,
            TWO,
            2,
            "3.9 CPUs, 12 GiB; 2 GPUs at 55 % (least: worker-1 12 %), 100 of 160 GiB of their memory",
        ),
    ],
)
def test_one_line_says_what_a_job_uses(
    pods: list[str], used: dict[tuple[str, str], dict[str, int]], cards: Cards, asked: int, text: str
) -> None:
    assert use_text("train", "default", pods, used, cards, asked) == text


def test_cards_that_name_their_pod_are_read() -> None:
    text = "\n".join(
        (
            "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).",
            'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0",gpu="0",namespace="default",pod="a"} 30.0',
            'DCGM_FI_DEV_FB_USED{UUID="GPU-0",gpu="0",namespace="default",pod="a"} 2048.0',
            'DCGM_FI_DEV_FB_FREE{UUID="GPU-0",gpu="0",namespace="default",pod="a"} 1024.0',
            'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",gpu="1"} 99.0',
            "up 1",
        )
    )
    assert cards_of(text) == {("default", "a"): [Card(30.0, 2048.0, 1024.0)]}
    assert cards_of("DCGM_FI_DEV_GPU_UTIL{broken") == {}
    assert cards_of("") == {}
