"""Which job of a hub is meant: ``NAME`` of a Volcano Job, or ``KIND/NAME``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from unisono.api.base import Object
from unisono.api.flow_kinds import HYPER_JOBS
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.errors import ConfigError, NotFound
from unisono.fleet.jobs.work import KINDS

if TYPE_CHECKING:
    from unisono.api.hyper_job import HyperJob
    from unisono.kube.client import Client


async def job_of(client: Client, what: str, namespace: str) -> tuple[Kind[Any], Any]:
    """The job that a user names.

    Raises:
        ConfigError: the kind is none that a hub dispatches.
        NotFound: there is no such job.

    """
    word, slash, name = what.partition("/")
    kind = JOBS
    if slash:
        found = next((each for each in KINDS if word.lower() in _words(each)), None)
        if found is None:
            known = ", ".join(sorted(each.kind.lower() for each in KINDS))
            raise ConfigError(f"{word} is no kind that a fleet runs; those are {known}")
        kind = found
    return kind, await client.get(kind, name or what, namespace)


async def hyper_job_of(client: Client, what: str, namespace: str) -> HyperJob | None:
    """The HyperJob that a user names as ``KIND/NAME``, or by its name alone where no Volcano Job has it.

    Raises:
        NotFound: it is named with its kind, and there is none.

    """
    word, slash, name = what.partition("/")
    if slash:
        return await client.get(HYPER_JOBS, name, namespace) if word.lower() in _words(HYPER_JOBS) else None
    with suppress(NotFound):
        await client.get(JOBS, what, namespace)
        return None
    with suppress(NotFound):
        return await client.get(HYPER_JOBS, what, namespace)
    return None


async def all_jobs(client: Client) -> list[tuple[Kind[Any], Object]]:
    """All jobs of the hub that can be dispatched."""
    found: list[tuple[Kind[Any], Object]] = []
    for kind in KINDS:
        try:
            found += [(kind, job) for job in (await client.list(kind)).items]
        except NotFound:
            continue
    return found


def _words(kind: Kind[Any]) -> set[str]:
    return {kind.kind.lower(), kind.plural, kind.singular_name, kind.resource, *kind.short_names}
