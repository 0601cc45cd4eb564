"""What a cluster needs to run Unisono, as manifests: rights, Deployments, policies, webhooks (pure)."""
