"""The example of docs/simulator.md: the same jobs in strict order on empty nodes, and backfilled on full ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unisono.simulator.cluster_files import load_cluster
from unisono.simulator.experiment import read_experiment
from unisono.simulator.workload import formats
from unisono.simulator.workload.generate import Recipe, generate
from unisono.simulator.workload.job import largest
from unisono.simulator.world.settings import Settings

FOLDER = Path(__file__).parents[2] / "examples" / "simulation"


def _run(name: str, workload: Path) -> dict[str, Any]:
    given = read_experiment(workload, FOLDER / f"{name}.yaml", FOLDER / f"{name}.conf", Settings())
    return given.result(given.run())


def test_the_same_jobs_take_less_time_and_money(tmp_path: Path) -> None:
    """Every gang starts whole in both; the difference is order, backfill and where pods go."""
    cluster, workload = load_cluster(FOLDER / "before.yaml"), tmp_path / "jobs.jsonl"
    queues = {"language": 2.0, "vision": 1.0, "speech": 1.0}
    recipe = Recipe(jobs=300, gpus=cluster.gpu_total, load=2.0, mean_seconds=5400.0, queues=queues, seed=4)
    with workload.open("w", encoding="utf-8") as file:
        formats.write(generate(recipe, largest(cluster)), file)
    before, after = (_run(name, workload) for name in ("before", "after"))
    assert before["jobs"] == after["jobs"]
    assert after["allocation"] > 1.05 * before["allocation"]
    assert after["jct"]["mean"] < 0.6 * before["jct"]["mean"]
    assert after["cost"]["perJob"] < 0.95 * before["cost"]["perJob"]
