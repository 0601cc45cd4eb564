"""Volumes on a control plane of one machine: binding claims, life of volumes, protection, claims of single pods."""
