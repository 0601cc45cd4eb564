"""Manual pages: all commands have one, and roff finds nothing wrong in them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from unisono.cli.commands.man import pages
from unisono.cli.main import COMMANDS, GROUPS, cli

PAGES = dict(pages(cli, "unisono", GROUPS))


def test_every_command_has_a_page_and_those_below_it_too(tmp_path: Path) -> None:
    assert {f"unisono-{name}" for name in COMMANDS} < PAGES.keys()
    assert "unisono-queue-list" in PAGES
    done = CliRunner().invoke(cli, ["man", "--directory", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert {file.stem for file in (tmp_path / "man1").iterdir()} == PAGES.keys()


def test_a_page_says_what_the_help_says() -> None:
    page = CliRunner().invoke(cli, ["man", "run"]).stdout
    assert page == PAGES["unisono-run"]
    assert ".SH NAME\nunisono\\-run \\- " in page
    assert ".B \\-n, \\-\\-processes N\nProcesses of COMMAND, which start together." in page
    assert "\n.nf\nunisono run \\-\\- python train.py \\-\\-epochs 3\n" in page
    assert '.SH "THIS MACHINE"\n.TP\n.B unisono up\n' in PAGES["unisono"]


def test_a_command_that_does_not_exist() -> None:
    done = CliRunner().invoke(cli, ["man", "queue", "fly"])
    assert done.exit_code == 2
    assert "there is no command 'queue fly'" in done.output


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_roff_reads_all_pages_without_a_warning() -> None:
    text = "".join(PAGES.values()).encode()
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-Wbreak"], input=text, capture_output=True, check=True)
    assert done.stderr == b""
    assert b"Processes of COMMAND, which start together." in done.stdout
