"""Writes the table of docs/files.md from the first sentence of each module's docstring.

``python scripts/file_table.py`` rewrites the table; with ``--check`` it only says whether the page is up to date.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "files.md"
SOURCE = ROOT / "src" / "unisono"
BEGIN, END = "<!-- files: begin -->", "<!-- files: end -->"
ROOMS = (
    "cli", "sdk", "standalone", "dashboard", "fleet", "simulator", "install", "webhook", "apiserver", "agent",
    "controllers", "scheduler", "kube", "engine", "cluster", "api",
)  # fmt: skip


def purpose(path: Path) -> str:
    """First sentence of the module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:])\s", paragraph, maxsplit=1)[0] if len(paragraph) > 160 else paragraph
    return sentence.rstrip(":").replace("|", "\\|")


def table() -> str:
    """The whole generated section."""
    lines = [BEGIN]
    folders = [(room, sorted((SOURCE / room).rglob("*.py"))) for room in ROOMS if (SOURCE / room).is_dir()]
    folders.append(("the package itself", sorted(SOURCE.glob("*.py"))))
    for room, files in folders:
        lines += ["", f"## {room}", "", "| file | purpose |", "|---|---|"]
        for path in files:
            name = path.relative_to(SOURCE)
            if name.name == "__init__.py" and not purpose(path):
                continue
            lines.append(f"| `{name}` | {purpose(path)} |")
    return "\n".join([*lines, "", END])


def main() -> int:
    """Rewrite or check the page; 1 when ``--check`` finds it out of date."""
    parser = argparse.ArgumentParser(description="Write the table of docs/files.md from docstrings.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the page is out of date")
    check = parser.parse_args().check
    text = PAGE.read_text()
    new = re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: table(), text, flags=re.DOTALL)
    if check:
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
