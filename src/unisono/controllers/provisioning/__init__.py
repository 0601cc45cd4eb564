"""Nodes for whole gangs, asked for by ProvisioningRequests of the cluster autoscaler."""
