"""Defaults of role bindings."""

from __future__ import annotations

from unisono.api.rbac import GROUP, ClusterRoleBinding, RoleBinding


def default_binding(binding: RoleBinding | ClusterRoleBinding) -> None:
    """Roles, users and groups belong to the RBAC group; service accounts to the core group."""
    binding.role_ref.api_group = binding.role_ref.api_group or GROUP
    for subject in binding.subjects or ():
        if subject.api_group is None and subject.kind in ("User", "Group"):
            subject.api_group = GROUP
