"""Clusters to simulate: nodes, queues, topology and prices, from short YAML, node lists or Kubernetes objects."""
