"""What explains jobs goes by facts: patterns on messages stand in one module, which is about other people's words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "unisono"
READS = {
    "engine/verdicts/device_causes.py": "expressions of device classes and claims",
    "engine/verdicts/missing_resources.py": "names of resources",
    "sdk/reasons/failures.py": "what programs print",
    "sdk/foreign.py": "messages of servers, kubelets and controllers",
    "sdk/functions/launch.py": "command lines of users",
    "sdk/jobs/builders.py": "command lines of users",
    "sdk/jobs/program.py": "command lines of users",
    "sdk/state/stragglers.py": "what programs print",
    "sdk/state/views.py": "what programs print",
}
"""Modules that search texts with patterns, and whose texts."""


def test_no_other_module_reads_texts_with_patterns() -> None:
    family = [*(SOURCE / "engine" / "verdicts").rglob("*.py"), *(SOURCE / "sdk").rglob("*.py")]
    family += [SOURCE / "engine" / "changes.py", SOURCE / "engine" / "verdict.py"]
    found = {str(path.relative_to(SOURCE)) for path in family if _imports_patterns(path)}
    assert found == READS.keys()


def _imports_patterns(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    nodes = ast.walk(ast.parse(text)) if "re" in re.findall(r"\w+", text) else ()
    imports = (node for node in nodes if isinstance(node, ast.Import))
    return any(name.name == "re" for node in imports for name in node.names)
