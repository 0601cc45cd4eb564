"""Folders at other paths for tasks that run in the pod as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.slurm_pods import batch_text, may_mount, run_batch
from unisono.cli.slurm.batches import program_of
from unisono.cli.slurm.steps import mounts
from unisono.cli.slurm.steps.mounts import lacking, mounts_of, run_with, text_of, through


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("/a:/b:ro,/c", [("/a", "/b", True), ("/c", "/c", False)]),
        ("/a:/b:ro+mkdir,/a/../d:/e:x-create=dir", [("/a", "/b", True), ("/d", "/e", False)]),
    ],
)
def test_mounts_are_read_and_written(text: str, found: list[tuple[str, str, bool]]) -> None:
    assert mounts_of(text) == found
    assert mounts_of(text_of(found)) == found


def test_what_is_there_already_is_not_mounted(tmp_path: Path) -> None:
    here, other = str(tmp_path), str(tmp_path / "other")
    (tmp_path / "other").mkdir()
    given = [
        (here, here, False),
        ("/no/such/folder", other, False),
        (here, "/at/another/path", False),
        (here, other, True),
    ]
    assert lacking(given) == given[2:]


@pytest.mark.parametrize(
    ("folder", "shown"),
    [("/run", "/a"), ("/run/code/x", "/c/x"), ("/running", "/running"), ("/run/b/", "/a/b/"), ("/", "/")],
)
def test_a_folder_is_found_through_the_mounts(folder: str, shown: str) -> None:
    assert through([("/a", "/run", False), ("/c", "/run/code", False)], folder) == shown


def test_where_a_pod_may_not_mount_the_task_starts_in_the_folder_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(mounts, "_enter", refused)
    monkeypatch.chdir("/")
    started = []
    monkeypatch.setattr(mounts.os, "execvp", lambda name, words: started.append((name, words, Path.cwd())))
    run_with([(str(tmp_path), "/at/another/path", False)], "/at/another/path", ["train", "x"])
    assert started == [("train", ["train", "x"], tmp_path)]
    assert f"{tmp_path} at /at/another/path cannot be shown here" in capsys.readouterr().err


BATCH = """#!/bin/bash
#SBATCH --nodes=2 --container-mounts={0}:/mounted_by_sbatch:ro
cat /mounted_by_sbatch/file
srun cat /mounted_by_sbatch/file
srun -n1 sh -c 'echo > /mounted_by_sbatch/new' 2> /dev/null || echo read-only
srun -n1 --container-mounts={0}:/opt/of_srun,/no/such:/x sh -c 'echo more > /opt/of_srun/more && ls /opt/of_srun'
[ -e /opt/of_srun ] || echo gone
"""


@pytest.mark.processes
@pytest.mark.skipif(not may_mount(), reason="processes may not mount here")
def test_script_and_tasks_see_folders_at_other_paths(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("here\n")
    done = run_batch(BATCH.format(data), tmp_path)
    assert done.lines == sorted(["here", "here", "here", "read-only", "file", "more", "gone"]), done.told
    assert "there is no /no/such" in done.told
    assert (data / "more").exists()
    assert not Path("/mounted_by_sbatch").exists()


@pytest.mark.parametrize("local", [True, False])
def test_on_a_cluster_mounts_are_volumes(local: bool) -> None:
    batch = batch_text("#!/bin/bash\n#SBATCH --container-mounts=/data:/d\n")
    program = program_of(batch, "/home/me/fit.sh", "#!/bin/bash\n", (), None, number=1, local=local)
    assert ("UNISONO_BATCH_MOUNTS" in program.env) is local
