"""From the source of an Application to the objects of one of its policies: inline, by Git, or by a Helm chart."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from unisono.api import yaml
from unisono.api.application import Application, GitRepository, HelmPolicy, HelmRepository, KustomizationPolicy
from unisono.api.times import duration_or_none
from unisono.errors import ConfigError
from unisono.fleet.applications import folders, programs

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
            wanted = policy.kustomization or KustomizationPolicy()
            return await folders.transformed(source.manifests, wanted, folder, run, _seconds(wanted.timeout))
        if source.helm_repository is not None and policy.helm is not None:
            return await _chart(application, source.helm_repository, policy.helm, folder, run)
        if source.git_repository is not None:
            if policy.kustomization is None:
                raise ConfigError("spec.source.gitRepository: charts from Git are not supported; use a helmRepository")
            await _clone(source.git_repository, folder, run)
            seconds = _seconds(policy.kustomization.timeout)
            return await folders.build(folder / "source", policy.kustomization, run, seconds)
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
