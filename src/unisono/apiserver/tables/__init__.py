"""Tables: what ``kubectl get`` shows, made on the server as Kubernetes does."""

from unisono.apiserver.tables.render import IncludeObject, TableWriter, layout, partial_metadata

__all__ = ["IncludeObject", "TableWriter", "layout", "partial_metadata"]
