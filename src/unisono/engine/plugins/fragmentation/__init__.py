"""Fragmentation of GPUs: how much of what is idle the cluster's usual pods cannot use.

After "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023).
"""
