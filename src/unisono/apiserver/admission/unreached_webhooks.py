"""Tells the author of webhooks that nothing answers at them: until something does, what they are asked about fails."""

from __future__ import annotations

from unisono.api.groups.admission_registration import does_our_work, hindrance
from unisono.api.kinds import PODS, SERVICES
from unisono.apiserver.admission.request import Request, View


def warnings(request: Request, view: View) -> list[str]:
    """A sentence for each webhook that is not asked, or that nothing answers at."""
    told = []
    for hook in request.object.webhooks or ():
        service = hook.client_config.service if hook.client_config is not None else None
        if does_our_work(hook):
            told.append(f"webhook {hook.name} is not asked: this API server has Volcano's defaults and rules itself")
        elif service is not None:
            why = hindrance(
                service, view.find(SERVICES, service.name, service.namespace), view.all(PODS, service.namespace)
            )
            fails = "is passed over" if hook.failure_policy == "Ignore" else "refuses every request that it is shown"
            told += [f"webhook {hook.name} {fails} until a pod answers: {why}"] if why else []
    return told
