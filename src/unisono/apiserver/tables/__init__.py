"""Tables: what ``kubectl get`` shows, made on the server as Kubernetes does."""
