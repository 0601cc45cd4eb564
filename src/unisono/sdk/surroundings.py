"""What a program finds where its caller stands: its interpreter, virtual environment, search paths and folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unisono.sdk.errors import BadWork

# What makes `python` the caller's own, with its packages and its libraries. Not the whole environment: it holds
# secrets, and a Job can be read by others.
_VARIABLES = (
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYENV_VERSION",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What processes of this machine take over from their caller.

    Attributes:
        program: absolute path of the command's first word.
        folder: in which they start.
        variables: of the environment.

    """

    program: str
    folder: str
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders that the processes must be able to read: where they start, and the interpreter's installation."""
        programs = [Path(self.program)]
        # What a script calls: the interpreter of the same environment.
        if python := shutil.which("python", path=self.variables.get("PATH")):
            programs.append(Path(python))
        found = [Path(self.folder)]
        for path in (each for program in programs for each in (program, program.resolve())):
            # <prefix>/bin/python: its packages lie beside the folder bin.
            found.append(path.parent.parent if path.parent.name in ("bin", "shims") else path.parent)
        return tuple(dict.fromkeys(found))


def caller_surroundings(word: str, environment: Mapping[str, str] | None = None) -> Surroundings:
    """Those of this process, for a command that begins with ``word``.

    Args:
        word: a program's name, searched on the PATH, or its path.
        environment: variables; None for those of this process.

    Raises:
        BadWork: there is no such program, or it may not be executed.

    """
    values = os.environ if environment is None else environment
    folder = Path.cwd()
    path = values.get("PATH", os.defpath)
    named = str(folder / word) if "/" in word else word
    found = shutil.which(named, path=path)
    if found is None:
        script = folder / word
        if script.is_file():
            how = f"python {word}" if word.endswith(".py") else f"bash {word}"
            raise BadWork(f"{word} is a file that cannot be executed: write what runs it, such as: -- {how}")
        if word == "python" and (other := shutil.which("python3", path=path)):
            found = other
        else:
            raise BadWork(f"there is no program {word} on the PATH: check its name, or give its path.")
    kept = {name: values[name] for name in _VARIABLES if values.get(name)}
    # Not resolved further: the link in a virtual environment is what makes it the environment's interpreter.
    return Surroundings(str(Path(found).absolute()), str(folder), kept)
