"""Jobs of ``kubeflow.org``: one engine for all kinds, and a class per kind for what is its own."""
