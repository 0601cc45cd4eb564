"""Kubernetes' own workloads, for a control plane without kube-controller-manager: one or two files per kind."""
