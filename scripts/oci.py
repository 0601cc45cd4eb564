"""OCI image layouts without a container engine: images for several processors, and charts as registries keep them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

Descriptor = dict[str, Any]
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


class Layout:
    """Blobs by digest, and the archive that engines load; the same blobs give the same bytes."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def blob(self, media: str, content: bytes) -> Descriptor:
        """Keep ``content``; answers its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        self._blobs[digest] = content
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    def document(self, media: str, content: Mapping[str, Any]) -> Descriptor:
        """Keep a JSON document."""
        return self.blob(media, json.dumps(content).encode())

    def archive(self, top: Descriptor, tag: str) -> bytes:
        """The layout, uncompressed, with ``top`` under the name ``tag``."""
        named = top | {"annotations": {"org.opencontainers.image.ref.name": tag}}
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}
        files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
        files |= {f"blobs/sha256/{digest}": content for digest, content in sorted(self._blobs.items())}
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o644
                archive.addfile(entry, io.BytesIO(content))
        return made.getvalue()


def image(trees: Mapping[str, bytes], tag: str, run: Mapping[str, Any], labels: Mapping[str, str]) -> bytes:
    """Images of one layer each, by architecture.

    Args:
        trees: file systems as uncompressed archives, by names such as ``amd64``. Several are joined by an index.
        tag: name in the layout.
        run: how containers start, as the config of an image has it.
        labels: annotations of each manifest and of the index.

    """
    layout, made = Layout(), list[Descriptor]()
    for architecture, tree in sorted(trees.items()):
        packed = layout.blob(LAYER, gzip.compress(tree, compresslevel=6, mtime=0))
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {**run, "Labels": dict(labels)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tree).hexdigest()}"]},
            "history": [{"created_by": "scripts/image.py"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": layout.document(CONFIG, config),
            "layers": [packed],
            "annotations": dict(labels),
        }
        platform = {"architecture": architecture, "os": "linux"}
        made.append(layout.document(MANIFEST, manifest) | {"platform": platform})
    if len(made) == 1:
        return layout.archive(made[0], tag)
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": made, "annotations": dict(labels)}
    return layout.archive(layout.document(INDEX, index), tag)


def chart(packed: bytes, about: Mapping[str, Any], labels: Mapping[str, str]) -> bytes:
    """A packed Helm chart as ``helm push`` puts it into a registry; ``about`` is its Chart.yaml."""
    layout = Layout()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.document(CHART_CONFIG, about),
        "layers": [layout.blob(CHART_LAYER, packed)],
        "annotations": {
            "org.opencontainers.image.title": about["name"],
            "org.opencontainers.image.description": about["description"],
            **labels,
        },
    }
    return layout.archive(layout.document(MANIFEST, manifest), str(about["version"]))


def digest(archive: bytes) -> str:
    """Digest of what a layout names: what registries call the image, ``sha256:...``."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as layout:
        index = layout.extractfile("index.json")
        assert index is not None
        return str(json.loads(index.read())["manifests"][0]["digest"])
