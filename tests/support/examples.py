"""How many examples a random search draws: a share that each profile of Hypothesis sets (``tests/conftest.py``)."""

from __future__ import annotations

from hypothesis import settings


def examples(usual: int) -> int:
    """Examples of one test: ``usual`` with the profile ``steady``, fewer with ``quick``, more with ``nightly``.

    Args:
        usual: the number that finds what the test is for, as one tries it; at least 10 are drawn.

    """
    return max(min(usual, 10), usual * settings.default.max_examples // 100)
