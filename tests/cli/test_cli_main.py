"""The command table, its help and its errors."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import unisono.cli.commands
from unisono.cli.main import COMMANDS, GROUPS, MODULES, cli, main
from unisono.cli.options import run_async

HEAVY = {"aiohttp", "numpy", "rich", "yaml", "cryptography", "msgspec", "prometheus_client"}


def test_every_command_module_is_in_the_table_and_the_other_way_round() -> None:
    folder = Path(unisono.cli.commands.__file__).parent
    told = {MODULES.get(name, name.replace("-", "_")) for name in COMMANDS}
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == told
    assert MODULES.keys() <= COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_documents_its_options(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"--{parameter.name} of {name} has no help"
    assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0


def test_every_command_stands_under_one_heading_of_the_help() -> None:
    assert sorted(name for names in GROUPS.values() for name in names.split()) == sorted(COMMANDS)
    said = CliRunner().invoke(cli, ["--help"]).output
    assert all(f"{heading}:" in said for heading in GROUPS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    assert "_UNISONO_COMPLETE" in CliRunner().invoke(cli, ["completion", shell]).output


def test_help_imports_nothing_heavy() -> None:
    """It must answer in an instant: the packages that cost time are imported by the commands that need them."""
    code = "import sys\nfrom unisono.cli.main import main\ntry:\n  main(['--help'])\nexcept SystemExit: pass\n"
    code += "print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in HEAVY if f"'{name}'" in done.stderr}
    assert not loaded
    assert "run" in done.stdout


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["aply"])
    assert end.value.code == 2
    assert "there is no command 'aply'; did you mean 'apply'?" in capsys.readouterr().err


def test_an_error_of_the_house_is_one_sentence_and_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["get", "pods", "--data-dir", str(tmp_path / "none")])
    assert end.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith("Error: There is no control plane in")
    assert "unisono up --data-dir" in told
    assert "Traceback" not in told


def test_two_control_planes_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["get", "pods", "--data-dir", "a", "--kubeconfig", "b"])
    assert end.value.code == 2
    assert "give one of them" in capsys.readouterr().err


def test_what_the_machine_refuses_is_a_sentence_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A data directory inside of a file, which not even root can make."""
    (tmp_path / "file").write_text("")
    for words in (["up", "--data-dir"], ["up", "--detach", "--data-dir"]):
        with pytest.raises(SystemExit) as end:
            main([*words, str(tmp_path / "file" / "data")])
        assert end.value.code == 1
        told = capsys.readouterr().err
        assert f"The data directory {tmp_path}/file/data cannot be used (Not a directory)" in told
        assert "choose another with --data-dir" in told
    with pytest.raises(SystemExit) as end:
        main(["backup", str(tmp_path / "file" / "copy"), "--data-dir", str(tmp_path / "file")])
    assert end.value.code == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (ExceptionGroup("unhandled errors in a TaskGroup", [ValueError("a\x1b[2Jb\nc")]), "ValueError: a[2Jb"),
        (RecursionError(), "RecursionError"),
    ],
)
def test_an_unexpected_error_is_a_sentence_and_a_file(
    error: Exception, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cli, "main", fail)
    with pytest.raises(SystemExit) as end:
        main(["get", "pods"])
    (file,) = tmp_path.iterdir()
    told = capsys.readouterr()
    sentence = f"Unisono failed unexpectedly ({named}). Please report it with {file}, which says where it happened."
    assert (end.value.code, told.out, told.err) == (1, "", f"Error: {sentence}\n")
    assert "in fail" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0, "it may hold what the command was given"
    with pytest.raises(type(error)):
        main(["scheduler"])


@pytest.mark.parametrize(
    "words", [["install", "--dry-run", "--config"], ["schedule", "-f", "x", "--config"], ["up", "--nodes"]]
)
def test_a_file_that_is_no_text_is_a_sentence(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "picture.png"
    wrong.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(SystemExit) as end:
        main([*words, str(wrong)])
    told = capsys.readouterr()
    assert (end.value.code, told.out) == (1, "")
    assert str(wrong) in told.err


def test_ctrl_c_before_a_command_has_begun_leaves_no_work_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python warns of coroutines that nobody awaited, and here a warning fails."""

    async def work() -> None:
        raise AssertionError("it must not begin")

    def interrupted(work: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncio.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_async(work())
    gc.collect()


def test_ctrl_c_before_anything_has_begun_ends_quietly(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    done = subprocess.run(
        [sys.executable, "-m", "unisono", "--help"], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
