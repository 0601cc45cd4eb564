"""From the source of an Application to the objects of one of its policies: inline, a folder by Git, or a Helm chart."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from unisono.api import yaml
from unisono.api.groups.fleet import Application, GitRepository, HelmPolicy, HelmRepository, KustomizationPolicy
from unisono.api.times import duration_or_none
from unisono.errors import ConfigError
from unisono.fleet.applications import programs

# A folder of a source as objects: plain manifests, or a kustomization built by ``kustomize`` or ``kubectl``.

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_MANIFESTS = (".yaml", ".yml", ".json")
# Fields of a kustomization that lead to other files or folders.
_LEADS = ("resources", "bases", "components", "crds", "configurations", "generators", "transformers", "validators")
MOST_FILES: Final = 2000
LARGEST_FILE: Final = 8 * 1024**2
MOST_BYTES: Final = 32 * 1024**2
"""Size of all manifests of a folder."""
_OBJECTS = "objects.json"
# Fields by which kustomize reads files, or fetches them where they are URLs.
_READS = ("path", "paths", "files", "envs", "env", "patchesstrategicmerge")
# Their files and folders are read as further settings of kustomize.
_PLUGINS = ("generators", "transformers", "validators")


def inside(root: Path, path: str) -> Path:
    """A folder of the source.

    Raises:
        ConfigError: it leads out of the source, or is not there.
    """
    resolved = (root / path.lstrip("/")).resolve()
    if not resolved.is_relative_to(root.resolve()):
        raise ConfigError(f'kustomization.path "{path}" leads out of the source')
    if not resolved.is_dir():
        raise ConfigError(f'kustomization.path: the source has no folder "{path}"')
    return resolved


async def build(root: Path, policy: KustomizationPolicy, run: programs.Run, seconds: float) -> list[Mapping[str, Any]]:
    """The objects of a folder, with the policy's ``components``, ``patches`` and ``images``.

    Nothing is written into the source: its links may lead anywhere. What is made for it is made beside ``root``.

    Raises:
        ConfigError: the folder cannot be built, or would fetch from elsewhere.
    """
    folder = inside(root, policy.path or ".")
    if kustomization(folder) is None:
        if policy.components:
            raise ConfigError("kustomization.components: the folder needs a kustomization.yaml for components")
        objects = await asyncio.to_thread(lambda: [each for file in _files(folder) for each in _read(file)])
        return await transformed(objects, policy, root.parent, run, seconds)
    components = _components(root, folder, policy)
    for each in (folder, *components):
        await asyncio.to_thread(_check, each, root)
    _check_reads(policy.patches, "kustomization.patches")
    if policy.patches or policy.images or components:
        folder = _wrap(root, folder, components, policy)
    return _parsed(await run([*_builder(), str(folder)], root.parent, seconds))


async def transformed(
    objects: Sequence[Mapping[str, Any]], policy: KustomizationPolicy, folder: Path, run: programs.Run, seconds: float
) -> list[Mapping[str, Any]]:
    """Objects with the policy's ``patches`` and ``images``; untouched without them.

    Args:
        objects: to change.
        policy: how.
        folder: below which files for kustomize may be made.
        run: how programs are run.
        seconds: for how long at most.
    """
    if not (policy.patches or policy.images):
        return list(objects)
    _check_reads(policy.patches, "kustomization.patches")
    made = _fresh(folder)
    (made / _OBJECTS).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    (made / _NAMES[0]).write_text(json.dumps(_wrapped(policy, [_OBJECTS], [])))
    return _parsed(await run([*_builder(), str(made)], folder, seconds))


def kustomization(folder: Path) -> Path | None:
    """The file that makes a folder a kustomization."""
    return next((folder / name for name in _NAMES if (folder / name).is_file()), None)


def _components(root: Path, folder: Path, policy: KustomizationPolicy) -> list[Path]:
    here = folder.relative_to(root.resolve())
    return [inside(root, str(here / each)) for each in policy.components or ()]


def _wrap(root: Path, folder: Path, components: Sequence[Path], policy: KustomizationPolicy) -> Path:
    """A kustomization of its own for the source's, which stays as it is."""
    wrapper = _fresh(root.parent)
    paths = [os.path.relpath(each, wrapper) for each in (folder, *components)]
    (wrapper / _NAMES[0]).write_text(json.dumps(_wrapped(policy, paths[:1], paths[1:])))
    return wrapper


def _fresh(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="made-", dir=folder)).resolve()


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
    root = root.resolve()
    waiting, seen = [(folder, False)], set()
    while waiting:
        current, plugin = waiting.pop()
        if (current, plugin) in seen:
            continue
        seen.add((current, plugin))
        file = kustomization(current)
        if file is None:
            continue
        shown = str(file.relative_to(root))
        if not file.resolve().is_relative_to(root):
            raise ConfigError(f"{shown} leads out of the source")
        for value in _read(file):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{shown} is no kustomization")
            # kustomize takes its fields in any case.
            fields = {str(key).lower(): each for key, each in value.items()}
            _check_reads(fields, shown)
            for field, lead in _leads(fields, shown):
                target = _target(current, lead)
                if target is None or not target.is_relative_to(root):
                    raise _fetched(shown, lead)
                as_plugin = plugin or field in _PLUGINS
                if target.is_dir():
                    waiting.append((target, as_plugin))
                elif as_plugin:
                    for each in _read(target):
                        _check_reads(each, str(target.relative_to(root)))


def _target(folder: Path, lead: str) -> Path | None:
    if "://" in lead:
        return None
    try:
        target = (folder / lead).resolve()
        return target if target.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, with a zero byte, or a link to itself
        return None


def _fetched(where: str, lead: str) -> ConfigError:
    return ConfigError(f'{where}: "{lead[:200]}" is not in the source, and nothing is fetched from elsewhere')


def _leads(fields: Mapping[str, Any], shown: str) -> Iterator[tuple[str, str]]:
    for field in _LEADS:
        listed = fields.get(field) or ()
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            raise ConfigError(f"{shown}: {field} must be a list")
        for each in listed:
            if not isinstance(each, str):
                continue
            # Generators and transformers may be written in place.
            if "\n" not in each:
                yield field, each
            elif field in _PLUGINS:
                for value in _parsed(each.encode(), shown):
                    _check_reads(value, shown)
    for field in ("helmCharts", "helmChartInflationGenerator"):
        if fields.get(field.lower()):
            raise ConfigError(f"{field}: charts within a kustomization are not built; use a policy with helm")
    openapi = fields.get("openapi")
    if isinstance(openapi, Mapping):
        for key, each in openapi.items():
            if str(key).lower() == "path" and isinstance(each, str):
                yield "openapi", each


def _check_reads(value: Any, shown: str) -> None:
    """Refuse URLs where kustomize reads files; a patch that is written in place is no file."""
    waiting = [(value, False)]
    while waiting:
        current, is_read = waiting.pop()
        if isinstance(current, Mapping):
            waiting += [(each, str(key).lower() in _READS) for key, each in current.items()]
        elif isinstance(current, list):
            waiting += [(each, is_read) for each in current]
        elif is_read and isinstance(current, str) and "://" in current and "\n" not in current:
            raise _fetched(shown, current)


def _files(folder: Path) -> list[Path]:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in _MANIFESTS and path.is_file() and not path.is_symlink() and ".git" not in path.parts
    )
    if len(files) > MOST_FILES:
        raise ConfigError(
            f"the folder has {len(files)} manifests, and {MOST_FILES} are read at most: name a smaller path"
        )
    if sum(path.stat().st_size for path in files) > MOST_BYTES:
        raise ConfigError(f"the folder has more than {MOST_BYTES // 1024**2} MiB of manifests: name a smaller path")
    return files


def _read(file: Path) -> list[Mapping[str, Any]]:
    if file.stat().st_size > LARGEST_FILE:
        raise ConfigError(f"{file.name} has more than {LARGEST_FILE // 1024**2} MiB")
    return _parsed(file.read_bytes(), file.name)


def _parsed(text: bytes, file: str = "") -> list[Mapping[str, Any]]:
    return [each.value for each in yaml.load_all(text, file)]


# From the source of an Application to the objects of one of its policies: inline, by Git, or by a Helm chart.

_DEFAULT_SECONDS: Final = 60.0
# A name that no program takes for an option or a path.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,252}(/[A-Za-z0-9][A-Za-z0-9._+-]{0,252}){0,8}")
_VERSION = re.compile(r"[A-Za-z0-9*^~<>=][A-Za-z0-9.*^~<>=+ ,|-]{0,99}")


async def render(application: Application, index: int, run: programs.Run = programs.run) -> list[Mapping[str, Any]]:
    """The objects of one policy, as the source has them.

    Args:
        application: it has passed validation.
        index: place of the policy.
        run: how programs are run.

    Raises:
        ConfigError: the source cannot be read, with the field or the program's own words.
    """
    source, policy = application.spec.source, (application.spec.sync_policies or [])[index]
    with tempfile.TemporaryDirectory(prefix="unisono-application-") as made:
        folder = Path(made)
        if source.manifests is not None:
            options = policy.kustomization or KustomizationPolicy()
            return await transformed(source.manifests, options, folder, run, _seconds(options.timeout))
        if source.helm_repository is not None and policy.helm is not None:
            return await _chart(application, source.helm_repository, policy.helm, folder, run)
        if source.git_repository is not None:
            if policy.kustomization is None:
                raise ConfigError("spec.source.gitRepository: charts from Git are not supported; use a helmRepository")
            await _clone(source.git_repository, folder, run)
            seconds = _seconds(policy.kustomization.timeout)
            return await build(folder / "source", policy.kustomization, run, seconds)
        raise ConfigError(
            "spec.source.ociRepository is not supported: use a gitRepository, or a helmRepository of type oci"
        )


async def _chart(
    application: Application, repository: HelmRepository, policy: HelmPolicy, folder: Path, run: programs.Run
) -> list[Mapping[str, Any]]:
    _refuse("spec.source.helmRepository", repository, "secretRef", "passCredentials")
    _refuse("helm", policy, "valuesFrom")
    _refuse("helm.chart.spec", policy.chart.spec, "valuesFiles")
    program = programs.find("helm")
    if program is None:
        raise ConfigError(
            f"chart {policy.chart.spec.chart}: helm is not installed where the hub runs; install it there"
        )
    values = folder / "values.json"
    values.write_text(json.dumps(policy.values or {}))
    release = policy.release_name or application.metadata.name
    namespace = policy.target_namespace or application.metadata.namespace or "default"
    version = policy.chart.spec.version
    chart = _plain("helm.chart.spec.chart", policy.chart.spec.chart)
    if version is not None and not _VERSION.fullmatch(version):
        raise ConfigError(f'helm.chart.spec.version: "{version}" is no version of a chart')
    if repository.type == "oci":
        where = [f"{_url('helmRepository.url', repository.url, 'oci').rstrip('/')}/{chart}"]
    else:
        where = [chart, f"--repo={_url('helmRepository.url', repository.url, 'https', 'http')}"]
    command = [program, "template", _plain("helm.releaseName", release), *where, f"--namespace={namespace}"]
    command += ["--skip-tests", f"--values={values}"]
    command += [f"--version={version}"] if version else []
    install = policy.install or {}
    command += [] if install.get("skipCRDs") or install.get("crds") == "Skip" else ["--include-crds"]
    command += ["--no-hooks"] if install.get("disableHooks") else []
    printed = await run(command, folder, _seconds(policy.timeout or repository.timeout))
    return [each.value for each in yaml.load_all(printed, f"chart {chart}")]


async def _clone(repository: GitRepository, folder: Path, run: programs.Run) -> None:
    fields = ("secretRef", "verify", "include", "recurseSubmodules")
    _refuse("spec.source.gitRepository", repository, *fields)
    program = programs.find("git")
    if program is None:
        raise ConfigError("spec.source.gitRepository: git is not installed where the hub runs; install it there")
    url, ref = _url("gitRepository.url", repository.url, "https"), repository.ref or {}
    unknown = sorted(ref.keys() - {"branch", "tag", "commit"})
    if unknown:
        raise ConfigError(f"gitRepository.ref.{unknown[0]} is not supported: use branch, tag or commit")
    seconds = _seconds(repository.timeout)
    named = ref.get("tag") or ref.get("branch")
    options = [f"--branch={_plain('gitRepository.ref', str(named))}"] if named else []
    commit = ref.get("commit")
    if commit is not None and not re.fullmatch(r"[0-9a-f]{7,64}", str(commit)):
        raise ConfigError("gitRepository.ref.commit must be the hexadecimal name of a commit")
    await run(
        [program, "clone", "--quiet", "--depth=1", "--single-branch", *options, "--", url, "source"], folder, seconds
    )
    if commit:
        await run([program, "-C", "source", "fetch", "--quiet", "--depth=1", "origin", str(commit)], folder, seconds)
        await run([program, "-C", "source", "checkout", "--quiet", "--detach", str(commit)], folder, seconds)


def _refuse(path: str, part: Any, *names: str) -> None:
    """Fields that would change what comes out, and are not supported, are told; they are never passed over."""
    for name in names:
        if getattr(part, re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)):
            raise ConfigError(f"{path}.{name} is not supported")


def _url(field: str, url: str, *schemes: str) -> str:
    if not url.startswith(tuple(f"{scheme}://" for scheme in schemes)) or any(each.isspace() for each in url):
        raise ConfigError(f'{field}: "{url}" must begin with {" or ".join(f"{scheme}://" for scheme in schemes)}')
    return url


def _plain(field: str, text: str) -> str:
    if not _PLAIN.fullmatch(text) or ".." in text:
        raise ConfigError(f'{field}: "{text}" is no name')
    return text


def _seconds(timeout: str | None) -> float:
    return min(max(1.0, duration_or_none(timeout) or _DEFAULT_SECONDS), programs.LONGEST_SECONDS)
