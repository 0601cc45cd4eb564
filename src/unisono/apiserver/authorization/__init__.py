"""Who may do what: Kubernetes' roles and bindings, the roles that every cluster has, and questions about rights."""
