"""A folder of a source as objects: plain manifests, or a kustomization built by ``kustomize`` or ``kubectl``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from unisono.api import yaml
from unisono.api.application import KustomizationPolicy
from unisono.errors import ConfigError
from unisono.fleet.applications import programs

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_MANIFESTS = (".yaml", ".yml", ".json")
# Fields of a kustomization that lead to other files or folders.
_LEADS = ("resources", "bases", "components", "crds", "configurations", "generators", "transformers", "validators")
MOST_FILES: Final = 2000
LARGEST_FILE: Final = 8 * 1024**2
_OBJECTS, _WRAPPER = "unisono-objects.json", ".unisono-wrapper"


def inside(root: Path, path: str) -> Path:
    """A folder of the source.

    Raises:
        ConfigError: it leads out of the source, or is not there.

    """
    found = (root / path.lstrip("/")).resolve()
    if not found.is_relative_to(root.resolve()):
        raise ConfigError(f'kustomization.path "{path}" leads out of the source')
    if not found.is_dir():
        raise ConfigError(f'kustomization.path: the source has no folder "{path}"')
    return found


async def build(root: Path, policy: KustomizationPolicy, run: programs.Run, seconds: float) -> list[Mapping[str, Any]]:
    """The objects of a folder, with the policy's ``components``, ``patches`` and ``images``.

    Raises:
        ConfigError: the folder cannot be built, or would fetch from elsewhere.

    """
    folder = inside(root, policy.path or ".")
    if kustomization(folder) is None:
        if policy.components:
            raise ConfigError("kustomization.components: the folder needs a kustomization.yaml for components")
        objects = [each for file in _files(folder) for each in _read(file)]
        return await transformed(objects, policy, root, run, seconds)
    components = _components(root, folder, policy)
    for each in (folder, *components):
        _check(each, root)
    if not (policy.patches or policy.images or components):
        return _parsed(await run([*_builder(), str(folder)], root, seconds))
    return _parsed(await run([*_builder(), str(_wrap(root, folder, components, policy))], root, seconds))


async def transformed(
    objects: Sequence[Mapping[str, Any]], policy: KustomizationPolicy, folder: Path, run: programs.Run, seconds: float
) -> list[Mapping[str, Any]]:
    """Objects with the policy's ``patches`` and ``images``; untouched without them."""
    if not (policy.patches or policy.images):
        return list(objects)
    (folder / _OBJECTS).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    (folder / _NAMES[0]).write_text(json.dumps(_wrapped(policy, [_OBJECTS], [])))
    return _parsed(await run([*_builder(), str(folder)], folder, seconds))


def kustomization(folder: Path) -> Path | None:
    """The file that makes a folder a kustomization."""
    return next((folder / name for name in _NAMES if (folder / name).is_file()), None)


def _components(root: Path, folder: Path, policy: KustomizationPolicy) -> list[Path]:
    here = folder.relative_to(root.resolve())
    return [inside(root, str(here / each)) for each in policy.components or ()]


def _wrap(root: Path, folder: Path, components: Sequence[Path], policy: KustomizationPolicy) -> Path:
    """A kustomization of its own around the source's, which stays as it is."""
    wrapper = root / _WRAPPER
    wrapper.mkdir(exist_ok=True)
    paths = [str(Path("..") / each.relative_to(root.resolve())) for each in (folder, *components)]
    (wrapper / _NAMES[0]).write_text(json.dumps(_wrapped(policy, paths[:1], paths[1:])))
    return wrapper


def _wrapped(policy: KustomizationPolicy, resources: list[str], components: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
        "components": components,
        "patches": policy.patches or [],
        "images": policy.images or [],
    }


def _builder() -> list[str]:
    program = programs.find("kustomize", "kubectl")
    if program is None:
        raise ConfigError("kustomize is needed for this source: install it, or kubectl, where the hub runs")
    return [program, "build"] if program.endswith("kustomize") else [program, "kustomize"]


def _check(folder: Path, root: Path) -> None:
    """Refuse what kustomize would fetch: all that a kustomization leads to is in the source."""
    waiting, seen = [folder], set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        file = kustomization(current)
        if file is None:
            continue
        for value in _read(file):
            for lead in _leads(value):
                target = (current / lead).resolve()
                if "://" in lead or not target.exists() or not target.is_relative_to(root.resolve()):
                    shown = file.relative_to(root.resolve())
                    raise ConfigError(f'{shown}: "{lead}" is not in the source, and nothing is fetched from elsewhere')
                if target.is_dir():
                    waiting.append(target)


def _leads(value: Mapping[str, Any]) -> Iterator[str]:
    for field in _LEADS:
        for each in value.get(field) or ():
            # Generators and transformers may be written in place.
            if isinstance(each, str) and "\n" not in each:
                yield each
    for field in ("helmCharts", "helmChartInflationGenerator"):
        if value.get(field):
            raise ConfigError(f"{field}: charts within a kustomization are not built; use a policy with helm")
    openapi = value.get("openapi")
    if isinstance(openapi, Mapping) and isinstance(openapi.get("path"), str):
        yield openapi["path"]


def _files(folder: Path) -> list[Path]:
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in _MANIFESTS and path.is_file() and not path.is_symlink() and ".git" not in path.parts
    )
    if len(found) > MOST_FILES:
        raise ConfigError(
            f"the folder has {len(found)} manifests, and {MOST_FILES} are read at most: name a smaller path"
        )
    return found


def _read(file: Path) -> list[Mapping[str, Any]]:
    if file.stat().st_size > LARGEST_FILE:
        raise ConfigError(f"{file.name} has more than {LARGEST_FILE // 1024**2} MiB")
    return _parsed(file.read_bytes(), file.name)


def _parsed(text: bytes, file: str = "") -> list[Mapping[str, Any]]:
    return [each.value for each in yaml.load_all(text, file)]
