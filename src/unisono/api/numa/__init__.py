"""CPUs and NUMA nodes, and which of them a pod gets: the rules of the kubelet, for schedulers and agents."""
