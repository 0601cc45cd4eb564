"""No object asks for more pods than the server is to take from one object."""

from __future__ import annotations

from unisono.api.base import Object
from unisono.apiserver.admission.request import Request, Settings, View
from unisono.apiserver.custom.kinds import as_job, as_json
from unisono.apiserver.failures import forbidden
from unisono.jobkinds.registry import too_many


def check(settings: Settings, request: Request, _: View) -> None:
    """Refuse an object that is too large, unless it was already and does not grow.

    Raises:
        ApiError: 403 with both figures.

    """
    if request.operation == "DELETE" or not isinstance(request.object, Object):
        return
    kind = as_job(request.kind)
    if kind is None:
        return
    pods = kind.pods_of(as_json(request.object))
    why = too_many(pods, settings.most_pods)
    if why and (request.old is None or pods > kind.pods_of(as_json(request.old))):
        raise forbidden(request.kind, request.name, why)
