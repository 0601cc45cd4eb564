"""Slurm's habits: ``sbatch``, ``srun``, ``squeue``, ``sinfo`` and ``scancel`` as names for what Unisono does."""
