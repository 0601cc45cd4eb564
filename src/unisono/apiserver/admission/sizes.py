"""No object asks for more pods than the server is to take from one object."""

from __future__ import annotations

from unisono.api.base import Object
from unisono.apiserver.admission.request import Request, Settings, View
from unisono.apiserver.failures import forbidden
from unisono.jobkinds.registry import pods_of, too_many


def check(settings: Settings, request: Request, _: View) -> None:
    """Refuse an object that is too large, unless it was already and does not grow.

    Raises:
        ApiError: 403 with both figures.

    """
    if request.operation == "DELETE" or not isinstance(request.object, Object):
        return
    why = too_many(request.object, settings.most_pods)
    if why and (request.old is None or pods_of(request.object) > pods_of(request.old)):
        raise forbidden(request.kind, request.name, why)
