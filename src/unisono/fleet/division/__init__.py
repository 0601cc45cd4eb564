"""Replicated workloads of a hub, their replicas divided over members by a PropagationPolicy."""
