"""``python -m unisono``."""

from unisono.cli.main import main

main()
