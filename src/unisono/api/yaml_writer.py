"""Writes YAML that kubectl and ``api.yaml`` read back as the same values.

PyYAML leaves some texts unquoted that kubectl's reader takes for something else, such as ``y`` and ``1e3``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from unisono.api.yaml import resolve

try:
    from yaml import CSafeDumper as _BaseDumper
except ImportError:  # libyaml is missing: same answers, ten times slower
    from yaml import SafeDumper as _BaseDumper  # type: ignore[assignment]

_WIDTH = 120


class _Dumper(_BaseDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        """Without anchors: what is the same twice is written twice."""
        return True


def dump(value: Any) -> str:
    """One document: keys in their order, Unicode as it is.

    Args:
        value: JSON values.

    """
    return dump_all([value])


def dump_all(values: Iterable[Any]) -> str:
    """Several documents, each as ``dump`` writes it, with ``---`` between them."""
    text: str = yaml.dump_all(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


def _represent(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if _is_plain(text) else '"')


def _is_plain(text: str) -> bool:
    """Whether the text stays a text without quotes."""
    try:
        return isinstance(resolve(text), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _represent)
