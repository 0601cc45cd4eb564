"""A program that is told to end takes its jobs along, unless they are detached."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.plane import wait_until
from unisono.sdk import Client

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("sdk")]

PROGRAM = """
import signal, sys
from contextlib import nullcontext
from unisono.sdk import Client, Job

client = Client(data_dir=sys.argv[1], quiet=True)
job = Job(sys.argv[2]).task("t", command="sleep 600")
view = client.submit(job, detached=sys.argv[3] == "detached")
phase = client.wait(view, phase="Running").phase
# The signal may come while a call begins, which holds the entrance of the client's loop.
with client._portal._entrance if sys.argv[3] == "calling" else nullcontext():
    print(phase, flush=True)
    if sys.argv[3] == "calling":
        signal.pause()
client.wait(view)
"""


@pytest.mark.parametrize(
    ("mode", "phase"), [("attached", "Terminated"), ("calling", "Terminated"), ("detached", "Running")]
)
def test_sigterm(machine: Client, tmp_path: Path, mode: str, phase: str) -> None:
    private = machine.endpoint().private
    assert private is not None
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    words = [sys.executable, str(file), str(private.data.root), f"sigterm-{mode}", mode]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "Running\n"
        program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=600) == -signal.SIGTERM
    wait_until(f"the job is {phase}", lambda: machine.get(f"sigterm-{mode}").phase == phase)
    machine.delete(f"sigterm-{mode}")


def test_errors_of_a_gang_show_the_callers_frames_and_what_happened_in_the_pod(machine: Client, tmp_path: Path) -> None:
    file = tmp_path / "failing.py"
    file.write_text(
        "import sys\nfrom unisono.sdk import Client, gang\n"
        "def work():\n    raise ValueError('no data')\n"
        "if __name__ == '__main__':\n"
        "    with Client(data_dir=sys.argv[1]) as client:\n"
        "        gang(client=client)(work)()\n"
    )
    private = machine.endpoint().private
    assert private is not None
    done = subprocess.run(
        [sys.executable, str(file), str(private.data.root)], capture_output=True, text=True, check=False
    )
    said = done.stderr.splitlines()
    assert said[1].endswith("line 7, in <module>")
    assert len([line for line in said if "unisono/sdk" in line]) == 1
    assert any(line.endswith("RemoteError: Rank 0 raised ValueError: no data") for line in said)
    assert any("line 4, in work" in line for line in said)
