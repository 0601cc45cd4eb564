"""How a function travels to a pod: as an import path, as its script, or as the source of what a notebook holds."""

from __future__ import annotations

import ast
import base64
import importlib
import inspect
import io
import linecache
import pickle
import sys
import sysconfig
import textwrap
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unisono.sdk.errors import CannotShip

DECORATOR = "gang"


def dump(value: object) -> tuple[bytes, list[type]]:
    """A pickle, and the classes of ``__main__`` without which it cannot be read elsewhere.

    Raises whatever the value's own classes raise when they are pickled.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, protocol=4)
    pickler.dump(value)
    return buffer.getvalue(), pickler.classes


class _Pickler(pickle.Pickler):
    """Notes the classes of ``__main__`` that it meets."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.classes: list[type] = []

    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, type) and item.__module__ == "__main__":
            self.classes.append(item)
        return NotImplemented


def describe(function: Callable[..., Any], classes: Sequence[type] = ()) -> dict[str, Any]:
    """What ``worker.load`` needs to have the function in another process (JSON).

    Args:
        function: to be sent.
        classes: of ``__main__``, which its arguments need.

    Raises:
        CannotShip: the function is a lambda, or is defined in another function, or its source cannot be found.
    """
    name = getattr(function, "__qualname__", "")
    if not name or "<" in name:
        raise CannotShip(
            f"{name or function!r} cannot be sent to a pod: define it with 'def' at the top level of a module, script "
            "or notebook, and give it what it needs as arguments."
        )
    module = sys.modules["__main__"]
    where = getattr(function, "__module__", None) or ""
    if where != "__main__":
        return {"kind": "import", "module": _checked(function, where, name), "name": name}
    if (spec := getattr(module, "__spec__", None)) is not None:  # python -m package.module
        return {"kind": "import", "module": spec.name, "name": name}
    file = getattr(module, "__file__", None)
    if file and Path(file).is_file():
        path = Path(file).absolute()
        return {"kind": "file", "file": str(path), "source": path.read_text(encoding="utf-8"), "name": name}
    return _Collector().collect(function, name, classes)


def search_path() -> list[str]:
    """Folders of this process's import path that are neither the standard library's nor those of installed packages."""
    standard_paths = [Path(path) for path in {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix}]
    entries = []
    for entry in sys.path:
        path = Path(entry or ".").absolute()
        if path.is_dir() and not any(path.is_relative_to(each) for each in standard_paths):
            entries.append(str(path))
    return entries


def _checked(function: Callable[..., Any], module: str, name: str) -> str:
    """The module, from which the function can be had by name."""
    try:
        item: Any = importlib.import_module(module)
        for part in name.split("."):
            item = getattr(item, part)
    except (ImportError, AttributeError):
        item = None
    if getattr(item, "function", item) is not function:
        raise CannotShip(f"{module}.{name} cannot be imported, or is another object there: give it a name of its own.")
    return module


class _Collector:
    """Gathers the source of a notebook's function, and of all it uses of the notebook."""

    def __init__(self) -> None:
        self._imports: list[str] = []
        self._sources: dict[str, str] = {}
        self._values: dict[str, str] = {}

    def collect(self, function: Callable[..., Any], name: str, classes: Sequence[type]) -> dict[str, Any]:
        if "." in name:
            raise CannotShip(f"{name} is a method of a notebook's class: give a function.")
        self._source(name, function, function)
        for each in classes:
            self._source(each.__name__, each, function)
        text = "\n".join(["from __future__ import annotations", *self._imports, *self._sources.values()])
        return {"kind": "source", "file": "<notebook>", "source": text, "values": self._values, "name": name}

    def _source(self, name: str, item: Any, root: Callable[..., Any]) -> None:
        """Add the definition of a function or class, after everything that it names."""
        if name in self._sources:
            return
        try:
            text = _class_source(item) if isinstance(item, type) else inspect.getsource(item)
            tree = ast.parse(textwrap.dedent(text))
        except (OSError, TypeError, SyntaxError):
            raise CannotShip(
                f"the source of {name} is not known: define it in a script or in a cell of a notebook."
            ) from None
        definition = tree.body[0]
        if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definition.decorator_list = [each for each in definition.decorator_list if not _is_ours(each)]
        self._sources[name] = ""  # functions may call each other
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._name(node.id, root)
        del self._sources[name]
        self._sources[name] = ast.unparse(tree)

    def _name(self, name: str, root: Any) -> None:
        """Add a global of the notebook, as what it is."""
        module_globals = root.__globals__
        if name not in module_globals or name in self._values or name.startswith("__"):
            return
        item = module_globals[name]
        item = getattr(item, "function", item) if type(item).__name__ == "GangFunction" else item
        where, own = getattr(item, "__module__", None), getattr(item, "__qualname__", None)
        if isinstance(item, types.ModuleType):
            self._import(f"import {item.__name__} as {name}" if item.__name__ != name else f"import {name}")
        elif isinstance(item, type | types.FunctionType) and where == "__main__":
            self._source(name, item, root)
        elif callable(item) and isinstance(where, str) and isinstance(own, str) and own.isidentifier():
            self._import(f"from {where} import {own} as {name}")
        else:
            try:
                data, classes = dump(item)
            except Exception as error:  # pickling runs code of any class
                raise CannotShip(
                    f"the function uses {name}, which cannot be pickled ({error}): make it inside of the function."
                ) from error
            self._values[name] = base64.b64encode(data).decode()
            for each in classes:
                self._source(each.__name__, each, root)

    def _import(self, line: str) -> None:
        # ``import a.b as a`` would bind the inner module: a dotted module needs its alias, and has it.
        if line not in self._imports:
            self._imports.append(line)


def _class_source(item: type) -> str:
    """The source of a notebook's class; `inspect` wants a module with a file for that.

    Raises:
        OSError: no cell has it.
    """
    for name in reversed(linecache.cache):
        if Path(name).exists():
            continue
        text = "".join(linecache.getlines(name))
        try:
            cell = ast.parse(text)
        except SyntaxError:  # cells may hold commands of the notebook
            continue
        for node in cell.body:
            if isinstance(node, ast.ClassDef) and node.name == item.__name__:
                return ast.unparse(node)
    raise OSError(f"no cell defines {item.__name__}")


def _is_ours(decorator: ast.expr) -> bool:
    """The decorator is ``gang`` or ends with ``.gang``."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == DECORATOR
