"""Pod groups for pods that no job of ours made."""
