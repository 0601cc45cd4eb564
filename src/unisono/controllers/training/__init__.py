"""Training frameworks: jobs of Kubeflow, Trainer, JobSet and Ray become gangs of pods, on one small engine."""
