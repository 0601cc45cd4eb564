"""Write the pictures of ``docs/getting-started.md``: what commands draw on a pseudo-terminal, as SVG."""

from __future__ import annotations

import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from support.terminal import WIDTH, Terminal, drawn, unisono_on_terminal  # noqa: E402

IMAGES = REPOSITORY / "docs" / "images"
TRAIN = """import os
import sys
import time

rank = int(os.environ["RANK"])
for step in range(1, 41):
    time.sleep(0.1)
    if rank == 2 and step == 20 and "--broken" in sys.argv:
        raise ValueError("no data in shard 7")
    if rank == 0 and step % 10 == 0:
        print(f"progress: {step}/40  loss {2 / (step + 4):.3f}", flush=True)
"""
NODES = """- name: gpu
  count: 3
  capacity: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}
"""
JOBS = (
    ("pretrain", "2", "8", "python train.py"),
    ("finetune", "3", "1", "python train.py"),
    ("sweep", "4", "4", "python train.py"),
)
# Without the web fonts of rich's own: the pictures load nothing.
TEMPLATE = """<svg class="{unique_id}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def main() -> None:
    """Take all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unisono-pictures-") as root:
        folder = Path(root) / "project"
        folder.mkdir()
        (folder / "train.py").write_text(TRAIN)
        os.environ["UNISONO_DATA_DIR"] = str(Path(root) / "none")
        picture("run", folder, "run -n 4 -- python train.py")
        picture("waiting", folder, "run -n 4 -- python train.py", until=r"progress: 20/40(.|\n)*━")
        picture("failure", folder, "run -n 4 -- python train.py --broken")
        status(Path(root), folder)


def status(root: Path, folder: Path) -> None:
    """A small cluster of simulated nodes with jobs that run and one that waits."""
    nodes = root / "nodes.yaml"
    nodes.write_text(NODES)
    os.environ["UNISONO_DATA_DIR"] = str(root / "data")
    say("up", "--detach", "--no-agent", "--nodes", str(nodes))
    try:
        say("queue", "create", "research", "--weight", "3")
        for name, processes, gpus, command in JOBS:
            options = ["--name", name, "-n", processes, "--gpus", gpus, "--cpu", "4", "-q", "research", "--detach"]
            say("run", *options, "--image", "train:1", "--", *command.split(), cwd=folder)
        picture("status", folder, "status", until_again=lambda text: "sweep" in text.partition("Waiting")[2])
    finally:
        say("down", "--kill-pods")


def say(*words: str, cwd: Path | None = None) -> None:
    """Run a command that is in no picture."""
    subprocess.run([sys.executable, "-m", "unisono", *words], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def picture(
    name: str,
    folder: Path,
    command: str,
    *,
    until: str = "",
    until_again: Callable[[str], bool] = lambda text: True,
) -> None:
    """Run a command and keep what the terminal shows.

    Args:
        name: of the picture.
        folder: where the command runs.
        command: words after ``unisono``.
        until: what the terminal shows when the picture is taken; empty for the end.
        until_again: whether the picture is good; it is taken again until it is.

    """
    while True:
        terminal = unisono_on_terminal(folder, *command.split())
        try:
            _wait(terminal, until)
            if until_again("\n".join(terminal.lines())):
                break
        finally:
            terminal.close()
    shown = "\n".join(drawn(terminal.raw)).replace(str(folder), "/home/me/project")
    text = re.sub(rf"\b{re.escape(platform.node())}\b", "workstation", shown)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"\x1b[1m$ unisono {command}\x1b[0m\n{text}"))
    target = IMAGES / f"first-hour-{name}.svg"
    target.write_text(console.export_svg(title="unisono", code_format=TEMPLATE, unique_id=f"terminal-{name}"))
    print(f"{target.relative_to(REPOSITORY)}: {target.stat().st_size} bytes")


def _wait(terminal: Terminal, until: str) -> None:
    if until:
        terminal.read_until(until)
    else:
        terminal.end()


if __name__ == "__main__":
    if shutil.which("python") is None:
        sys.exit("python is not on the PATH: activate the virtual environment first.")
    main()
