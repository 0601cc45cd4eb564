"""No module of the package imports itself in a circle."""

from __future__ import annotations

import importlib.util

from support.plane import REPOSITORY


def _script():
    spec = importlib.util.spec_from_file_location("import_cycles", REPOSITORY / "scripts" / "import_cycles.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_modules_import_each_other_in_one_direction():
    script = _script()
    assert script.circles(script.graph()) == []


def test_a_circle_is_found_and_imports_that_do_not_run_are_none(tmp_path):
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("try:\n    from p import b\nexcept ImportError:\n    raise\n")
    (package / "b.py").write_text("from p.c import x\n")
    (package / "c.py").write_text("import p.a\nx = 1\n")
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import e\ndef f():\n    from p import e\n"
    (package / "d.py").write_text(typed)
    (package / "e.py").write_text("from p import d\n")
    script = _script()
    assert script.circles(script.graph(tmp_path)) == [["p.a", "p.b", "p.c"]]
