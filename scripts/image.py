"""Assemble the container image as an OCI archive, without a container engine: Debian's Python, locked wheels, Unisono.

Run it on Debian or Ubuntu, with the wheel of a release::

    .venv/bin/python scripts/release.py
    .venv/bin/python scripts/image.py dist/unisono-X.Y.Z-py3-none-any.whl --to dist/unisono-image-X.Y.Z.tar
    podman load --input dist/unisono-image-X.Y.Z.tar

It needs neither root nor an engine. With ``--architecture amd64 --architecture arm64`` the archive has an index of
both: packages and wheels of the other processor are unpacked, and its modules are compiled by this one's Python.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
import oci
from release import BUILD, HOME, labels

# What Debian and OCI call them, and what Python and the linker do.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
NATIVE = next((name for name, machine in MACHINES.items() if machine == platform.machine()), "amd64")
# Time zones come with the package tzdata.
_ROOTS = ("ca-certificates", "netbase")
# What services do not need; the libraries of Python's modules nis and dbm among it.
_UNWANTED = re.compile(
    r"^(?:dpkg|tzdata|libdb5.3|libnsl2|libtirpc3|perl-base|debconf|install-info|mime-support|media-types|openssl|adduser|"
    r"passwd|.*-doc|.*-dev)$"
)
_DROPPED = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/info", "usr/share/bug",
    "usr/share/bash-completion", "usr/share/python3", "usr/lib/valgrind", "usr/sbin", "usr/share/pixmaps",
    "usr/share/applications", "usr/lib/python3", "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/aarch64-linux-gnu/gconv",
)  # fmt: skip
# Of the standard library and of packages: tests, compilers' headers, and parts that need a display.
_PARTS = re.compile(
    r"/(?:tests?|idlelib|tkinter|turtledemo|ensurepip|lib2to3|pydoc_data|f2py|distutils|config-[^/]*|include)$"
)
# Nothing prints source in colours (pygments), and nothing compiles C (pycparser).
_WHOLE = ("pygments/lexers", "pygments/styles", "pycparser")
_ENDINGS = (".pyi", ".a", ".h", ".c", ".pyx", ".pxd", ".exe")
SITE = "opt/unisono"
USER = "65532:65532"
_ENVIRONMENT = {
    "PATH": f"/{SITE}/bin:/usr/bin:/bin",
    "PYTHONPATH": f"/{SITE}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "HOME": "/tmp",  # noqa: S108 - a folder of the container
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
}


class Archive:
    """Debian's packages of one architecture, with lists of its own: the machine's are neither read nor changed."""

    def __init__(self, architecture: str, folder: Path) -> None:
        self.architecture = architecture
        for place in ("lists/partial", "cache/archives/partial", "debs"):
            (folder / place).mkdir(parents=True)
        (folder / "status").touch()
        settings = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "",
            "Dir::State::lists": f"{folder}/lists",
            "Dir::State::status": f"{folder}/status",
            "Dir::Cache": f"{folder}/cache",
        }
        (folder / "apt.conf").write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
        self._environment = {**os.environ, "APT_CONFIG": f"{folder}/apt.conf"}
        self._debs = folder / "debs"
        self._ask("apt-get", "update", "-qq")

    def _ask(self, *words: str) -> str:
        done = subprocess.run(
            words, cwd=self._debs, env=self._environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    def interpreter(self) -> str:
        """Debian's Python of the machine's release, such as ``python3.11``."""
        found = re.search(r"Depends: (python3\.\d+)-minimal", self._ask("apt-cache", "depends", "python3-minimal"))
        if found is None:
            raise SystemExit(f"no Python for {self.architecture}: this needs Debian, or Ubuntu with its archive")
        return found[1]

    def closure(self, roots: Iterable[str]) -> list[str]:
        """The packages and all that they depend on, first alternatives only."""
        left, found = list(roots), set[str]()
        words = ["apt-cache", "depends", "--recurse", "--important", "--no-recommends", "--no-suggests", *left]
        # One block for each package; "|Depends" has an alternative on the next line.
        blocks = dict(re.findall(r"^(\S+)\n((?: .*\n)*)", self._ask(*words), re.MULTILINE))
        while left:
            name = left.pop()
            if name not in found and not _UNWANTED.match(name):
                found.add(name)
                left += re.findall(r"^  (?:Pre)?Depends: ([^<\s]+)$", blocks.get(name, ""), re.MULTILINE)
        return sorted(found)

    def fetch(self, names: Iterable[str]) -> list[Path]:
        """Download packages; apt compares them with the signed lists."""
        self._ask("apt-get", "download", "-qq", *names)
        return sorted(self._debs.glob("*.deb"))


def system(archive: Archive, python: str, root: Path) -> list[str]:
    """Unpack Debian's packages into ``root``, without what a service does not need; answers names and versions."""
    packages = archive.fetch(archive.closure((f"{python}-minimal", python, *_ROOTS)))
    for package in packages:
        subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True)
    authorities = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text().rstrip() + "\n" for path in authorities))
    for place in _DROPPED:
        shutil.rmtree(root / place, ignore_errors=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/nonexistent\nunisono:x:65532:65532::/tmp:/nonexistent\n")
    (root / "etc/group").write_text("root:x:0:\nunisono:x:65532:\n")
    for place, mode in (("tmp", 0o1777), ("proc", 0o755), ("dev", 0o755), ("sys", 0o755)):
        (root / place).mkdir(exist_ok=True)
        (root / place).chmod(mode)
    return [re.sub(r"_[^_]*$", "", package.name).replace("%3a", ":") for package in packages]


def packages(python: str, wheel: Path, lock: Path, root: Path, architecture: str) -> None:
    """Install what the lock names, by its hashes, and the wheel, for the interpreter of the image."""
    site = root / SITE
    common = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(site)]
    number = python.removeprefix("python")
    abi = f"cp{number.replace('.', '')}"
    foreign = [
        "--only-binary=:all:",
        "--python-version",
        number,
        "--implementation",
        "cp",
        "--abi",
        abi,
        "--abi",
        "abi3",
    ]
    foreign += ["--abi", "none"]
    foreign += [f"--platform=manylinux_2_{minor}_{MACHINES[architecture]}" for minor in (28, 27, 26, 24, 17)]
    foreign += [f"--platform=manylinux2014_{MACHINES[architecture]}", "--platform=any"]
    subprocess.run([*common, *foreign, "--require-hashes", "-r", str(lock)], check=True)
    for info in site.glob("*.dist-info"):
        if info.name.partition("-")[0].replace("_", "-") in BUILD:
            for line in (info / "RECORD").read_text().splitlines():
                (site / line.split(",")[0]).unlink(missing_ok=True)
    subprocess.run([*common, str(wheel)], check=True)
    # Where pip ran and from where it took the wheel is told there; nothing is uninstalled in an image.
    for name in ("RECORD", "direct_url.json", "REQUESTED"):
        for told in site.glob(f"*.dist-info/{name}"):
            told.unlink()
    tools = site / "bin"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir()
    for name, module in (("unisono", "main"), ("kubectl-unisono", "plugin")):
        tool = tools / name
        tool.write_text(f"#!/usr/bin/{python}\nimport sys\nfrom unisono.cli.{module} import main\nsys.exit(main())\n")
        tool.chmod(0o755)


def slim(root: Path, architecture: str) -> None:
    """Take away what only those need who build or test packages."""
    for folder in sorted(root.rglob("*"), reverse=True):
        if folder.is_dir() and not folder.is_symlink() and _PARTS.search(f"/{folder.relative_to(root)}"):
            inside = folder.relative_to(root).parts
            if "unisono" not in inside[2:] and (inside[0] in ("opt",) or "python3" in str(folder)):
                shutil.rmtree(folder)
    for place in _WHOLE:
        shutil.rmtree(root / SITE / place)
    for path in root.rglob("*"):
        if path.is_file() and path.suffix in _ENDINGS and not path.is_symlink():
            path.unlink()
    for cache in root.rglob("__pycache__"):
        shutil.rmtree(cache)
    # Symbols of compiled modules help only a debugger; libraries that a wheel brings are as their makers patched them.
    modules = [str(path) for path in (root / SITE).rglob("*.so") if ".libs" not in str(path)]
    tool = f"{MACHINES[architecture]}-linux-gnu-strip"
    if strip := shutil.which(tool) or (shutil.which("strip") if architecture == NATIVE else None):
        subprocess.run([strip, "--strip-unneeded", *modules], check=True)
    else:
        print(f"{tool} is not installed (binutils): the image for {architecture} keeps symbols")


def compiled(python: str, root: Path, interpreter: Path) -> None:
    """Compile all modules, for the file system of a container is read-only; times of files do not count.

    Args:
        python: such as ``python3.11``.
        root: what to compile; of any architecture, as compiled modules are the same for all.
        interpreter: a root whose Python runs here. It is started by its own linker, without being root.

    """
    (loader,) = (path for path in interpreter.glob("lib/*/ld-linux-*") if not path.is_symlink())
    libraries = f"{loader.parent}:{interpreter}/usr/lib/{loader.parent.name}"
    run = [str(loader), "--library-path", libraries, f"{interpreter}/usr/bin/{python}"]
    # What it imports itself it would compile under the name of this folder (-B: it does not).
    run += ["-B", "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    environment = {"PYTHONHOME": f"{interpreter}/usr", "PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"}
    # Some files of packages are there for other versions of Python.
    folders = [str(root / "usr" / "lib" / python), str(root / SITE)]
    subprocess.run([*run, *folders], check=False, stdout=subprocess.DEVNULL, env=environment)
    if not (root / SITE / "unisono" / "__pycache__").is_dir():
        raise SystemExit("the modules were not compiled")


def sourceless(folder: Path) -> None:
    """Leave compiled modules alone, where Python finds them without their source."""
    for cache in sorted(folder.rglob("__pycache__")):
        for module in cache.glob("*.pyc"):
            source = cache.parent / f"{module.name.partition('.')[0]}.py"
            if source.exists():
                module.rename(source.with_suffix(".pyc"))
                source.unlink()
        if not any(cache.iterdir()):
            cache.rmdir()


def layer(root: Path) -> bytes:
    """The tree as an uncompressed archive; the same files give the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            entry = archive.gettarinfo(path, str(path.relative_to(root)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = 0
            if entry.isreg():
                with path.open("rb") as stream:
                    archive.addfile(entry, stream)
            else:
                archive.addfile(entry)
    return packed.getvalue()


def image(trees: Mapping[str, bytes], number: str) -> bytes:
    """The archive that container engines load, of file systems by architecture."""
    run = {
        "User": USER,
        "Env": [f"{name}={value}" for name, value in _ENVIRONMENT.items()],
        "Entrypoint": ["unisono"],
        "Cmd": ["--help"],
        "WorkingDir": "/tmp",  # noqa: S108 - a folder of the container
    }
    return oci.image(trees, number, run, labels(number))


def traces(root: Path, words: Iterable[str]) -> list[str]:
    """Files that name a folder of the machine that builds: another one would make other bytes of them."""
    looked = [word.encode() for word in words]
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink())
    return [str(path.relative_to(root)) for path in files if any(word in path.read_bytes() for word in looked)]


def file_system(wheel: Path, architecture: str, work: Path, interpreter: Path | None) -> tuple[Path, list[str]]:
    """Everything of one image: its root below ``work``, and Debian's packages in it."""
    root = work / architecture / "root"
    root.mkdir(parents=True)
    archive = Archive(architecture, work / architecture / "apt")
    python = archive.interpreter()
    unpacked = system(archive, python, root)
    packages(python, wheel, HOME / "requirements" / "run.lock", root, architecture)
    slim(root, architecture)
    compiled(python, root, interpreter or root)
    # Tracebacks quote the lines of Unisono; the sources of others would be a tenth of the image.
    others = [each for each in (root / SITE).iterdir() if each.is_dir() and each.name != "unisono"]
    for place in (root / "usr/lib" / python, *others):
        sourceless(place)
    if found := traces(root, (str(work), str(wheel.resolve().parent))):
        raise SystemExit(f"these files of the image name folders of this machine: {' '.join(found[:5])}")
    return root, unpacked


def build(wheel: Path, architectures: Iterable[str]) -> tuple[bytes, dict[str, list[str]]]:
    """The archive for these processors, and Debian's packages in it for each of them."""
    trees, debian = dict[str, bytes](), dict[str, list[str]]()
    wanted = set(architectures)
    with tempfile.TemporaryDirectory(prefix="unisono-image-") as folder:
        work = Path(folder)
        native, unpacked = file_system(wheel, NATIVE, work, None)
        if NATIVE in wanted:
            trees[NATIVE], debian[NATIVE] = layer(native), unpacked
        for architecture in sorted(wanted - {NATIVE}):
            root, debian[architecture] = file_system(wheel, architecture, work, native)
            trees[architecture] = layer(root)
    for architecture, names in sorted(debian.items()):
        print(f"{len(names)} Debian packages for {architecture}: {' '.join(names)}")
    made = image(trees, wheel.name.split("-")[1])
    sizes = ", ".join(f"{len(tree) / 1e6:.1f} MB for {name}" for name, tree in sorted(trees.items()))
    print(f"image {oci.digest(made)}: {len(made) / 1e6:.1f} MB to download; unpacked {sizes}")
    return made, debian


def main() -> int:
    """Build everything, and tell how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("wheel", type=Path, help="of this release, in dist/")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="the archive")
    parser.add_argument("--architecture", action="append", choices=sorted(MACHINES), help="by default this one")
    options = parser.parse_args()
    options.to.write_bytes(build(options.wheel, options.architecture or [NATIVE])[0])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
