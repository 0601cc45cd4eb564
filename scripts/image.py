"""Assemble the container image as an OCI archive, without a container engine: Debian's Python, locked wheels, Unisono.

Run it on Debian or Ubuntu, with the wheel of a release::

    .venv/bin/python scripts/release.py
    .venv/bin/python scripts/image.py dist/unisono-X.Y.Z-py3-none-any.whl --to dist/unisono-image-X.Y.Z.tar
    podman load --input dist/unisono-image-X.Y.Z.tar
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))
from release import BUILD, HOME

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
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


def interpreter() -> str:
    """Debian's Python of the machine's release, such as ``python3.11``."""
    said = subprocess.run(["apt-cache", "depends", "python3-minimal"], capture_output=True, text=True, check=True)
    found = re.search(r"Depends: (python3\.\d+)-minimal", said.stdout)
    if found is None:
        raise SystemExit("apt-cache names no Python: run apt-get update, on Debian or Ubuntu")
    return found[1]


def closure(roots: Iterable[str]) -> list[str]:
    """The packages and all that they depend on, first alternatives only."""
    left, found = list(roots), set[str]()
    words = ["apt-cache", "depends", "--recurse", "--important", "--no-recommends", "--no-suggests", *left]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    # One block for each package; "|Depends" has an alternative on the next line.
    blocks = dict(re.findall(r"^(\S+)\n((?: .*\n)*)", said, re.MULTILINE))
    while left:
        name = left.pop()
        if name not in found and not _UNWANTED.match(name):
            found.add(name)
            left += re.findall(r"^  (?:Pre)?Depends: ([^<\s]+)$", blocks.get(name, ""), re.MULTILINE)
    return sorted(found)


def system(python: str, root: Path, work: Path) -> list[str]:
    """Unpack Debian's packages into ``root``, without what a service does not need; answers names and versions."""
    names = closure((f"{python}-minimal", python, *_ROOTS))
    subprocess.run(["apt-get", "download", "-qq", *names], cwd=work, check=True)
    archives = sorted(work.glob("*.deb"))
    for archive in archives:
        subprocess.run(["dpkg-deb", "--extract", str(archive), str(root)], check=True)
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
    return [re.sub(r"_[^_]*$", "", archive.name).replace("%3a", ":") for archive in archives]


def packages(python: str, wheel: Path, lock: Path, root: Path) -> None:
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
    foreign += [f"--platform=manylinux_2_{minor}_{platform.machine()}" for minor in (28, 27, 26, 24, 17)]
    foreign += [f"--platform=manylinux2014_{platform.machine()}", "--platform=any"]
    subprocess.run([*common, *foreign, "--require-hashes", "-r", str(lock)], check=True)
    for info in site.glob("*.dist-info"):
        if info.name.partition("-")[0].replace("_", "-") in BUILD:
            for line in (info / "RECORD").read_text().splitlines():
                (site / line.split(",")[0]).unlink(missing_ok=True)
    subprocess.run([*common, str(wheel)], check=True)
    tools = site / "bin"
    shutil.rmtree(tools, ignore_errors=True)
    tools.mkdir()
    for name, module in (("unisono", "main"), ("kubectl-unisono", "plugin")):
        tool = tools / name
        tool.write_text(f"#!/usr/bin/{python}\nimport sys\nfrom unisono.cli.{module} import main\nsys.exit(main())\n")
        tool.chmod(0o755)


def slim(root: Path) -> None:
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
    subprocess.run(["strip", "--strip-unneeded", *modules], check=True)


def compiled(python: str, root: Path) -> None:
    """Compile all modules, for the file system of a container is read-only; times of files do not count."""
    words = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    run = ["chroot", str(root), f"/usr/bin/{python}", *words, f"/usr/lib/{python}", f"/{SITE}"]
    # Some files of packages are there for other versions of Python.
    subprocess.run(run, check=False, stdout=subprocess.DEVNULL)
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


def image(tree: bytes, tag: str) -> bytes:
    """An OCI image layout of one layer, as an archive that container engines load."""
    blobs: dict[str, bytes] = {}

    def blob(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    packed = blob("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(tree, compresslevel=6, mtime=0))
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": USER,
            "Env": [f"{name}={value}" for name, value in _ENVIRONMENT.items()],
            "Entrypoint": ["unisono"],
            "Cmd": ["--help"],
            "WorkingDir": "/tmp",  # noqa: S108 - a folder of the container
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tree).hexdigest()}"]},
        "history": [{"created_by": "scripts/image.py"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("application/vnd.oci.image.config.v1+json", json.dumps(config).encode()),
        "layers": [packed],
    }
    described = blob("application/vnd.oci.image.manifest.v1+json", json.dumps(manifest).encode())
    described["annotations"] = {"org.opencontainers.image.ref.name": tag}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
    files |= {f"blobs/sha256/{digest}": content for digest, content in sorted(blobs.items())}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def main() -> int:
    """Build everything, and tell how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("wheel", type=Path, help="of this release, in dist/")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="the archive")
    parser.add_argument("--root", type=Path, help="keep the file system in this folder, to look into it")
    options = parser.parse_args()
    number = options.wheel.name.split("-")[1]
    if os.geteuid() != 0:
        raise SystemExit("only root may run the image's Python in its own root folder, to compile the modules")
    with tempfile.TemporaryDirectory(prefix="unisono-image-") as folder:
        root = options.root or Path(folder) / "root"
        root.mkdir(parents=True)
        work = Path(folder) / "packages"
        work.mkdir()
        python = interpreter()
        unpacked = system(python, root, work)
        packages(python, options.wheel, HOME / "requirements" / "run.lock", root)
        slim(root)
        compiled(python, root)
        # Tracebacks quote the lines of Unisono; the sources of others would be a tenth of the image.
        others = [each for each in (root / SITE).iterdir() if each.is_dir() and each.name != "unisono"]
        for place in (root / "usr/lib" / python, *others):
            sourceless(place)
        tree = layer(root)
        made = image(tree, number)
    options.to.write_bytes(made)
    print(f"{len(unpacked)} Debian packages: {' '.join(unpacked)}")
    print(f"{options.to}: {len(made) / 1e6:.1f} MB to download, {len(tree) / 1e6:.1f} MB unpacked")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
