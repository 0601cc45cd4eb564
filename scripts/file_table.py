"""Prints what each module is for, by room, as a page in Markdown: the first sentence of each module's docstring.

``make files`` writes it to ``build/files.md``. It is not part of the repository, where every change would touch it.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "unisono"


def purpose(path: Path) -> str:
    """First sentence of the module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:])\s", paragraph, maxsplit=1)[0] if len(paragraph) > 160 else paragraph
    return sentence.rstrip(":").replace("|", "\\|")


def table() -> str:
    """The whole page."""
    lines = ["# Files", "", "What each module is for, by room."]
    rooms = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
    folders = [(room, sorted((SOURCE / room).rglob("*.py"))) for room in rooms]
    folders.append(("the package itself", sorted(SOURCE.glob("*.py"))))
    for room, files in folders:
        lines += ["", f"## {room}", "", "| file | purpose |", "|---|---|"]
        for path in files:
            name = path.relative_to(SOURCE)
            if name.name == "__init__.py" and not purpose(path):
                continue
            lines.append(f"| `{name}` | {purpose(path)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
