"""Jobs of ``kubeflow.org``: one engine for all kinds, and one file per kind for what is its own."""
