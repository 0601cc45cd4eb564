"""The ``metrics`` section of a configuration: where node load comes from, with Volcano's keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unisono.api.times import duration_or_none
from unisono.errors import ConfigError

TYPES = ("prometheus", "prometheus_adaptor", "elasticsearch")
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """A source of node load.

    Attributes:
        type: one of `TYPES`.
        address: ``http://`` or ``https://`` URL; empty for the adaptor, which the API server knows.
        interval: seconds between two collections.
        insecure: accept any certificate.
        index, host_field: of Elasticsearch.
        user, password: for it, empty without.

    """

    type: str
    address: str
    interval: float = 30.0
    insecure: bool = False
    index: str = "metricbeat-*"
    host_field: str = "host.hostname"
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"MetricsSource({self.type}, {self.address})"


def metrics_source(given: Mapping[str, str]) -> MetricsSource | None:
    """The source that the section names; None when it names none.

    Raises:
        ConfigError: ``key`` names the entry that is wrong.

    """
    kind = given.get("type", "")
    if not kind:
        return None
    if kind not in TYPES:
        raise ConfigError(f"type of metrics must be one of {', '.join(TYPES)}, not {kind}", key="type")
    address = given.get("address", "").rstrip("/")
    if kind != "prometheus_adaptor" and not address.startswith(("http://", "https://")):
        example = "http://prometheus.monitoring:9090" if kind == "prometheus" else "http://elasticsearch.logging:9200"
        raise ConfigError(f"address of metrics must be a URL such as {example}", key="address")
    interval = duration_or_none(given.get("interval") or "30s")
    if interval is None or interval <= 0:
        raise ConfigError("interval of metrics must be a duration above 0 such as 30s", key="interval")
    return MetricsSource(
        kind,
        address,
        interval,
        given.get("tls.insecureSkipVerify", "") in _TRUE,
        given.get("elasticsearch.index") or "metricbeat-*",
        given.get("elasticsearch.hostnameFieldName") or "host.hostname",
        given.get("elasticsearch.username", ""),
        given.get("elasticsearch.password", ""),
    )
