"""Audits the code with bandit and locked packages with pip-audit: ``python scripts/audit.py requirements/run.lock``.

The exit code is 0 if both find nothing. Where the package index has no advisories (most mirrors have none), a line says
for how many packages. If pip-audit fails, so does this.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# bandit looks at each constant of a line and says this about every one that its exception was not needed for.
_NOISE = "but no failed test on"


def main() -> int:
    """Run both; the answer is the exit code."""
    code = _bandit()
    for lock in sys.argv[1:]:
        code |= _packages(lock)
    return code


def judge(report: dict[str, Any], lock: str) -> tuple[list[str], int]:
    """What pip-audit's JSON report says, in lines, and an exit code: 1 if a package has a known vulnerability."""
    packages = report["dependencies"]
    lines = [
        f"{lock}: {each['name']} {each['version']} has {found['id']}; fixed in {_versions(found['fix_versions'])}"
        for each in packages
        for found in each.get("vulns", ())
    ]
    code = 1 if lines else 0
    skipped = [each for each in packages if "skip_reason" in each]
    if skipped:
        why = skipped[0]["skip_reason"]
        lines.append(
            f"NOT AUDITED: no advisories could be had for {len(skipped)} of {len(packages)} packages of {lock} ({why})"
        )
    if not packages:
        return [f"{lock}: pip-audit has seen no packages"], 1
    if audited := len(packages) - len(skipped):
        lines.append(f"{lock}: {audited} packages audited")
    return lines, code


def _versions(fixed: list[str]) -> str:
    return " or ".join(fixed) or "no version"


def _bandit() -> int:
    done = subprocess.run(
        [sys.executable, "-m", "bandit", "--quiet", "--recursive", "--configfile", "pyproject.toml", "src"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    sys.stderr.writelines(line for line in done.stderr.splitlines(keepends=True) if _NOISE not in line)
    if done.returncode == 0:
        print("src: bandit has found nothing")
    return done.returncode


def _packages(lock: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--requirement", lock, "--no-deps", "--disable-pip", "--format", "json",
         "--progress-spinner", "off"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    try:
        report = json.loads(done.stdout)
    except ValueError:
        print(f"{lock}: pip-audit failed with exit code {done.returncode}:\n{done.stderr}", file=sys.stderr)
        return 1
    lines, code = judge(report, lock)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
