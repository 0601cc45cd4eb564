"""Which of the names that exist a user probably meant."""

from __future__ import annotations

import pytest

from unisono.api.names import did_you_mean, nearest


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("zome", ["zone", "pool"], "zone"),
        ("a100", ["H100", "A100"], "A100"),
        ("m1", ["ml"], "ml"),
        ("gpu_model", ["gpu-model"], "gpu-model"),
        ("nvidia.com/gpus", ["cpu", "nvidia.com/gpu"], "nvidia.com/gpu"),
        ("zone", ["topology.kubernetes.io/zone"], "topology.kubernetes.io/zone"),
        ("topologi.kubernets.io/zone", ["topology.kubernetes.io/zone"], "topology.kubernetes.io/zone"),
        ("reserach", ["research"], "research"),
        ("prepair", ["prepare"], "prepare"),
        ("ml-trainig-v2", ["ml-training-v2"], "ml-training-v2"),
        ("train-data", ["training-data"], "training-data"),
        ("training-data", ["train-data"], "train-data"),
        ("train-1", ["training-2"], ""),
        ("ml-dev", ["ml-devices"], ""),
        ("team-ml", ["team-qa"], ""),
        ("northern", ["southern"], ""),
        ("fast-ssd", ["slow-hdd", "ssd-fast"], "ssd-fast"),
        ("ring-pg", ["chain", "ring"], "ring"),
        ("ring", ["queue-ring"], "queue-ring"),
        ("redis-cache", ["redis"], ""),
        ("team-a", ["team"], ""),
        ("claim", ["pvc"], ""),
        ("h100", ["a100"], ""),
        ("rack-1", ["rack-2", "rack-10"], ""),
        ("c", ["a", "b"], ""),
        ("us-east-1a", ["us-west-1a"], ""),
        ("batch", ["ml", "inference"], ""),
        ("zone", ["zone"], ""),
        ("", ["a"], ""),
    ],
)
def test_the_nearest_name(name: str, known: list[str], near: str) -> None:
    assert nearest(name, known) == near
    assert did_you_mean(name, known) == (f" (did you mean {near}?)" if near else "")


def test_no_more_names_than_the_bound_are_looked_at() -> None:
    assert nearest("zome", [*(f"n{at}" for at in range(5_000)), "zone"]) == ""
    assert nearest("a" * 100_000, ["a" * 100_001]) == ""
