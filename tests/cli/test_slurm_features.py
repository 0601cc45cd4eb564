"""Features of nodes, as Slurm's options name them, are labels of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.slurm_pods import batch_text
from unisono.cli.commands.sbatch import script_elements
from unisono.cli.slurm.features import read_constraint
from unisono.cli.slurm.script import BadScript, Batch
from unisono.sdk.jobs.submission import job_of as job_of_program

PRODUCT, ZONE = "nvidia.com/gpu.product", "topology.kubernetes.io/zone"
NODES = {
    "n1": {PRODUCT: "NVIDIA-A100-SXM4-80GB", ZONE: "east", "example.com/nvlink": "true", "pool": "big"},
    "n2": {PRODUCT: "NVIDIA-A100-PCIE-40GB", ZONE: "west", "example.com/nvlink": "false"},
    "n3": {PRODUCT: "NVIDIA-H100-80GB-HBM3", ZONE: "west", "rack": "big", "kubernetes.io/hostname": "n3"},
}
A100 = (PRODUCT, ["NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-SXM4-80GB"])
H100 = (PRODUCT, ["NVIDIA-H100-80GB-HBM3"])
EAST, WEST, LINK = (ZONE, ["east"]), (ZONE, ["west"]), ("example.com/nvlink", ["true"])


@pytest.mark.parametrize(
    ("text", "parts", "same"),
    [
        ("a", [(0, [("a",)])], False),
        ("a&b", [(0, [("a", "b")])], False),
        ("a,b", [(0, [("a", "b")])], False),
        ("a|b", [(0, [("a",), ("b",)])], False),
        ("a&b|c", [(0, [("a", "b"), ("c",)])], False),
        # From left to right, as Slurm's manual says.
        ("a|b&c", [(0, [("a", "c"), ("b", "c")])], False),
        ("a&(b|c)", [(0, [("a", "b"), ("a", "c")])], False),
        ("[a|b]", [(0, [("a",), ("b",)])], True),
        ("a&[b|c]", [(0, [("a", "b"), ("a", "c")])], True),
        ("[a]", [(0, [("a",)])], False),
        ("a*4", [(4, [("a",)])], False),
        ("[a*2&b*4]", [(2, [("a",)]), (4, [("b",)])], False),
        ("[(a|b)*1&(c)*2]", [(1, [("a",), ("b",)]), (2, [("c",)])], False),
        ("[(a&b)*4&c*1]", [(4, [("a", "b")]), (1, [("c",)])], False),
        ("g&[a*1&b*1]", [(1, [("g", "a")]), (1, [("g", "b")])], False),
    ],
)
def test_constraints_are_read_as_slurm_reads_them(text: str, parts: list[Any], same: bool) -> None:
    found = read_constraint(text)
    assert ([(part.count, list(part.choices)) for part in found.parts], found.same) == (parts, same)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a&", "a feature is missing"),
        ("&a", "a feature is missing"),
        ("", "a feature is missing"),
        ("(a|b", "( is not closed by )"),
        ("a)", ") closes nothing"),
        ("a b", "& or | is missing before b"),
        ("a*0", "a count from 1 on"),
        ("a*x", "features are expected"),
        ("[a*2&b]&[c*1&d]*2", "a count from 1 on"),
        ("a*2|b*1", "counts are joined by &"),
        ("(a|b)&(a|b|c|d|e|f|g|h)&(i|j|k|l|m)", "more than 64 choices"),
    ],
)
def test_a_constraint_that_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(").replace(")", r"\)").replace("|", r"\|")):
        read_constraint(text)


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def made(lines: str, nodes: Mapping[str, Mapping[str, str]] = NODES, *, local: bool = False) -> Any:
        (tmp_path / "fit.sh").write_text(f"#!/bin/bash\n{lines}")
        batch, [element] = script_elements(["fit.sh"], "train", local=local, nodes=lambda: nodes)
        return batch, job_of_program(element.program, local=local).manifest()

    return made


def terms_of(task: Mapping[str, Any]) -> list[list[tuple[str, list[str]]]]:
    affinity = task["template"]["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": []})
    return [
        [(each["key"], each["values"]) for each in term["matchExpressions"]] for term in required["nodeSelectorTerms"]
    ]


@pytest.mark.parametrize(
    ("options", "terms"),
    [
        ("-C east", [[EAST]]),
        ("-C EAST", [[EAST]]),
        ("-C nvlink", [[LINK]]),
        ("-C a100", [[A100]]),
        ("-C a100-sxm4", [[(PRODUCT, ["NVIDIA-A100-SXM4-80GB"])]]),
        ('-C "a100&nvlink"', [[A100, LINK]]),
        ('-C "east|h100"', [[EAST], [H100]]),
        # Two labels may mean it.
        ("-C big", [[("pool", ["big"])], [("rack", ["big"])]]),
        (f"-C {ZONE}=west", [[WEST]]),
        # A node of a group that is yet to grow may have it.
        (f"-C {ZONE}=north", [[(ZONE, ["north"])]]),
        ("--gres=gpu:a100:2", [[A100]]),
        ("--gpus-per-node=H100:8 -C west", [[WEST, H100]]),
        ("-G a100:2", [[A100]]),
        ("--gres=gpu:2", []),
        ("-C east -w n1", [[EAST, ("kubernetes.io/hostname", ["n1"])]]),
    ],
)
def test_features_are_labels_of_nodes(submit: Any, options: str, terms: list[Any]) -> None:
    batch, job = submit(f"#SBATCH {options}\n")
    assert terms_of(job["spec"]["tasks"][0]) == terms
    assert batch.notes == ()


def test_all_nodes_get_the_same_of_several_in_brackets(submit: Any) -> None:
    _, job = submit('#SBATCH -N 2 -C "[h100|a100]"\n')
    kinds = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-SXM4-80GB"
    assert job["metadata"]["annotations"]["unisono.io/one-of"] == ", ".join(f"{PRODUCT}={kind}" for kind in kinds)
    assert terms_of(job["spec"]["tasks"][0]) == []


def test_nodes_by_their_number_are_tasks_of_one_gang(submit: Any) -> None:
    _, job = submit('#SBATCH -N 4 --ntasks-per-node=2 -C "[east*1&west*2]"\n')
    tasks = job["spec"]["tasks"]
    assert [(each["name"], each["replicas"], terms_of(each)) for each in tasks] == [
        ("rank", 1, [[EAST]]),
        ("rank-1", 2, [[WEST]]),
        ("rank-2", 1, []),
    ]
    assert job["spec"]["minAvailable"] == 4


def test_counts_say_how_many_nodes_there_are() -> None:
    assert batch_text('#!/bin/bash\n#SBATCH -C "[a*1&b*2]"\n').nodes == 3
    with pytest.raises(BadScript, match="--constraint counts 3 nodes, and the job has 2"):
        batch_text('#!/bin/bash\n#SBATCH -N 2 -C "[a*1&b*2]"\n')


def test_a_feature_that_no_node_has_is_refused_with_those_that_there_are(submit: Any) -> None:
    with pytest.raises(BadScript) as failure:
        submit('#SBATCH -C "east&skylake"\n')
    assert "no node has the feature skylake: there are NVIDIA-A100-PCIE-40GB," in str(failure.value)
    assert "big, east, nvlink, west" in str(failure.value)
    with pytest.raises(BadScript, match="none can be read here: write skylake as KEY=VALUE"):
        submit("#SBATCH -C skylake\n", {})
    with pytest.raises(BadScript, match="is no label"):
        submit("#SBATCH -C cpu=a/b\n")


def told(batch: Batch) -> list[str]:
    return [note for note in batch.notes if "feature" in note or "kind of cards" in note]


def test_one_machine_tells_what_it_leaves_out(submit: Any) -> None:
    """It stands for all nodes, and has those labels alone that it has."""
    batch, job = submit("#SBATCH -C skylake --gres=gpu:v100:1\n", {"here": {"kubernetes.io/arch": "amd64"}}, local=True)
    assert told(batch) == [
        "--constraint is left out, as this machine stands for all nodes: no node has the feature skylake: "
        "there are amd64",
        "the kind of cards v100 is left out: no label of a node names it",
    ]
    assert terms_of(job["spec"]["tasks"][0]) == []
    batch, job = submit("#SBATCH -C east\n", local=True)
    assert (told(batch), terms_of(job["spec"]["tasks"][0])) == ([], [[EAST]])


def test_features_that_are_preferred(submit: Any) -> None:
    batch, job = submit("#SBATCH --prefer=a100\n")
    affinity = job["spec"]["tasks"][0]["template"]["spec"]["affinity"]["nodeAffinity"]
    [preferred] = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [each["values"] for each in preferred["preference"]["matchExpressions"]] == [A100[1]]
    assert list(affinity) == ["preferredDuringSchedulingIgnoredDuringExecution"]
    batch, _ = submit("#SBATCH --prefer=skylake\n")
    assert batch.notes[0].startswith("--prefer is left out: no node has the feature skylake")
