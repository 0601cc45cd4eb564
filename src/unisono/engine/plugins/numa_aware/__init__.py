"""numa-aware: which CPUs of a node a pod would get, by the rules of the kubelet's topology manager."""
