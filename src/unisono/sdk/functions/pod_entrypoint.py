"""What runs in the pods of a gang: loads the function, calls it, writes its result to the log. Standard library only.

This file is copied into the pods, so that their image needs Python and what the function imports, and nothing else:
``python worker.py FOLDER``, where FOLDER holds ``task.json``.
"""

import base64
import hashlib
import importlib
import importlib.util
import json
import linecache
import os
import pickle
import sys
import traceback
import types
import zlib
from pathlib import Path
from typing import Any

MAIN = "__unisono_main__"
"""Name of the user's script in a pod: its ``if __name__ == "__main__"`` does not hold there."""

MAX_RESULT = 4 * 1024 * 1024
CHUNK = 3000
"""Bytes of a result per line: shorter than what a pipe takes in one piece, so that no other output comes between."""

INSIDE = "UNISONO_GANG"


def main() -> int:
    """Run one rank; the exit code is 0 when there is a result."""
    output = os.dup(1)  # the function may redirect standard output
    folder = Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text())
    rank = int(os.environ.get("VC_TASK_INDEX", "0"))
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": "0", INSIDE: "1"})
    sys.path[0:1] = [entry for entry in task["path"] if entry not in sys.path]
    code = 0
    try:
        result = _call(task, rank)
        kind, data = "result", pickle.dumps(result, protocol=5)
        if len(data) > MAX_RESULT:
            kind, data = "file", _to_file(data, task.get("results", ""), f"{task['token']}-{rank}")
    except BaseException as error:  # whatever ends the function is told to the caller
        code = 1
        lines = traceback.format_exception(type(error), error, _without_ours(error.__traceback__))
        failure = {
            "message": traceback.format_exception_only(type(error), error)[-1].strip(),
            "traceback": "".join(lines),
        }
        kind, data = "error", json.dumps(failure).encode()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for line in frames(task["token"], kind, data):
        _write(output, line)
    return code


def _to_file(data: bytes, folder: str, name: str) -> bytes:
    """Write a large result to a file that the caller can read; what the log says of it."""
    if not folder:
        raise ValueError(
            f"the result is {len(data)} bytes when pickled, and at most {MAX_RESULT} travel in the log: give "
            "results_dir, a folder on storage that pods and caller share, or write a file and return its path"
        )
    path = Path(folder) / name
    # The folder cannot be listed by others, and the name is not to be guessed: who may write there cannot replace it.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with open(descriptor, "wb") as file:  # noqa: PTH123
        file.write(data)
    reference = {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return json.dumps(reference).encode()


def _without_ours(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback from the user's first frame on; all of it where the error is ours."""
    left = trace
    while left is not None and left.tb_frame.f_code.co_filename == __file__:
        left = left.tb_next
    return left or trace


def frames(token: str, kind: str, data: bytes) -> list[bytes]:
    """Lines that carry ``data``: token, kind, number, count, checksum of the whole, and a piece of it."""
    packed = zlib.compress(data)
    total = hashlib.sha256(packed).hexdigest()[:16]
    pieces = [packed[start : start + CHUNK * 3 // 4] for start in range(0, len(packed), CHUNK * 3 // 4)]
    return [
        f"\n{token} {kind} {number} {len(pieces)} {total} {base64.b64encode(piece).decode()}\n".encode()
        for number, piece in enumerate(pieces)
    ]


def _write(output: int, line: bytes) -> None:
    while line:
        line = line[os.write(output, line) :]


def _call(task: dict[str, Any], rank: int) -> Any:
    _stand_in()
    function = load(task["function"])
    call = base64.b64decode(task["call"])
    if task["mode"] == "map":
        items = pickle.loads(call)  # noqa: S301  # nosec B301 # the caller of the function wrote it, whose code runs here
        chosen = range(rank, len(items), int(os.environ["WORLD_SIZE"]))
        return {index: function(items[index]) for index in chosen}
    arguments, keywords = pickle.loads(call)  # noqa: S301  # nosec B301 # as above
    return function(*arguments, **keywords)


def load(described: dict[str, Any]) -> Any:
    """The function that ``shipping.describe`` described."""
    if described["kind"] == "import":
        module: Any = importlib.import_module(described["module"])
    else:
        module = types.ModuleType(MAIN)
        module.__file__ = described.get("file")
        # Classes of the script are pickled as members of __main__.
        sys.modules[MAIN] = sys.modules["__main__"] = module
        file, text = described["file"], described["source"]
        if not Path(file).exists():  # tracebacks show the lines all the same
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        _values(module, described.get("values", {}), patient=True)
        exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102  # nosec B102 # this is what the pod is for
        _values(module, described.get("values", {}), patient=False)
    target = module
    for part in described["name"].split("."):
        target = getattr(target, part)
    return getattr(target, "function", target)


def _values(module: Any, values: dict[str, str], *, patient: bool) -> None:
    """Set global values; those of the notebook's own classes only after these exist."""
    for name, text in values.items():
        if name in module.__dict__:
            continue
        try:
            module.__dict__[name] = pickle.loads(base64.b64decode(text))  # noqa: S301  # nosec B301 # as above
        except AttributeError:
            if not patient:
                raise


def _stand_in() -> None:
    """Where Unisono is not installed, let a script's ``from unisono.sdk import gang`` submission nevertheless."""
    if importlib.util.find_spec("unisono") is not None:
        return

    class Decorated:
        def __init__(self, function: Any) -> None:
            self.function = function

        def __call__(self, *arguments: Any, **keywords: Any) -> Any:
            raise RuntimeError('a gang was called in a pod of a gang: call it below if __name__ == "__main__"')

    class Anything(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return Decorated

    sdk = Anything("unisono.sdk")
    setattr(sdk, "gang", lambda **_: Decorated)  # noqa: B010 - a module has no such attribute for a type checker
    setattr(sdk, "rank", lambda: int(os.environ["RANK"]))  # noqa: B010
    setattr(sdk, "world_size", lambda: int(os.environ["WORLD_SIZE"]))  # noqa: B010
    package = types.ModuleType("unisono")
    setattr(package, "sdk", sdk)  # noqa: B010
    sys.modules.update({"unisono": package, "unisono.sdk": sdk})


if __name__ == "__main__":
    sys.exit(main())
