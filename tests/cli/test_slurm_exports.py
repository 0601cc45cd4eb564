"""Variables of the caller that a script of Slurm uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.cli.commands.sbatch import script_elements
from unisono.cli.slurm.batches import variables_used
from unisono.cli.slurm.script import BadScript, read_script


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("cd $BASE_DIR && srun ${TRAIN:-python} ${#BASE_DIR}", {"BASE_DIR": "/fsx", "TRAIN": "./t"}),
        ('srun bash -c "echo $TOKEN"', {"TOKEN": "s"}),
        ("# $BASE_DIR\n#SBATCH -o $BASE_DIR\necho $PATH $HOME $SLURM_JOB_ID $MASTER_ADDR $NOT_THERE", {}),
        ("echo $LONG", {}),
    ],
)
def test_variables_of_the_caller_that_a_script_uses_are_passed_on(text: str, passed: dict[str, str]) -> None:
    own = {"BASE_DIR": "/fsx", "TRAIN": "./t", "TOKEN": "s", "UNUSED": "1", "PATH": "/bin", "HOME": "/h"}
    own |= {"SLURM_JOB_ID": "7", "MASTER_ADDR": "me", "LONG": "x" * 5000}
    assert variables_used(text, own) == passed


@pytest.mark.parametrize(
    ("options", "value", "told"),
    [
        ("", "/fsx", True),
        ("--export=ALL,A=1", "/fsx", True),
        ("--export=A=1", None, False),
        ("--export=NONE", None, False),
    ],
)
def test_export_says_whether_variables_that_are_used_are_passed_on(
    options: str, value: str | None, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASE_DIR", "/fsx")
    (tmp_path / "train.sh").write_text("#!/bin/bash\nsrun $BASE_DIR/train\n")
    batch, [element] = script_elements([*options.split(), str(tmp_path / "train.sh")], None)
    assert element.program.env.get("BASE_DIR") == value
    assert any("passed on: BASE_DIR" in note for note in batch.notes) is told


@pytest.mark.parametrize("line", ["--account=[budget code]", "--account=<your account>", "-n 2 <SLURM ACCOUNT>"])
def test_a_placeholder_that_was_left_is_named_as_one(line: str) -> None:
    with pytest.raises(BadScript, match="a placeholder stands for a value"):
        read_script(f"#!/bin/bash\n#SBATCH {line}\n")
