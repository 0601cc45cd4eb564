"""``python -m unisono.cli``."""

from unisono.cli.main import main

main()
