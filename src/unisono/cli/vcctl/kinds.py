"""Which job is meant: ``NAME`` of a Volcano Job, as for ``vcctl``, or ``KIND/NAME`` of any kind of job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from unisono.errors import ApiError, NotFound

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient


def target(text: str) -> tuple[Kind[Any], str]:
    """Kind and name of what a user typed.

    Raises:
        BadWork: there is no such kind of job.

    """
    from unisono.api.kinds import JOBS
    from unisono.sdk.job_kinds import named

    kind, slash, name = text.partition("/")
    return (named(kind), name) if slash else (JOBS, text)


async def tell_others(client: HttpClient, namespace: str, name: str, words: str, error: NotFound) -> NoReturn:
    """There is no Volcano Job of that name: name the jobs of other kinds that have it, and how to mean them.

    Args:
        client: the server.
        namespace: where to look.
        name: of the job that was not found.
        words: the command, such as ``unisono job suspend``.
        error: what to raise where there is none.

    Raises:
        NotFound: always.

    """
    from unisono.api.kinds import JOBS
    from unisono.jobkinds.registry import JOB_KINDS

    found = []
    for kind in JOB_KINDS:
        if kind.resource == JOBS.resource:
            continue
        try:
            await client.get(kind, name, namespace)
        except ApiError:
            # Not there, not installed, or not for this user: in each case nothing to point at.
            continue
        found.append(f"'{words} {kind.singular_name if kind.group != 'batch' else 'job.batch'}/{name}'")
    if not found:
        raise error
    raise NotFound(f"{error.message}; there are jobs of that name of other kinds: {' or '.join(found)}") from None
