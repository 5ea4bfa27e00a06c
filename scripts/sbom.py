"""The bill of materials of a release: what a lock file pins, as CycloneDX. One lock gives one bill."""

import hashlib
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from cyclonedx.model import bom as boms
from cyclonedx.model import component as components
from cyclonedx.output import json as outputs
from packageurl import PackageURL

# The library's classes are made by decorators, which hide their parameters from type checkers.
_Bom: Any = boms.Bom
_Component: Any = components.Component
_Json: Any = outputs.JsonV1Dot6
_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^ ;\\]+)", re.MULTILINE)


def bill(version: str, lock: str) -> str:
    """The bill as JSON."""
    root = _component("nexus-runtime", version, components.ComponentType.APPLICATION)
    parts = [_component(found["name"], found["version"]) for found in _PINNED.finditer(lock)]
    # The number is the content's: a bill of other parts has another one.
    digest = hashlib.sha256(f"{version}\n{lock}".encode()).digest()
    bom = _Bom(components=parts, serial_number=UUID(bytes=digest[:16], version=4))
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    bom.register_dependency(root, parts)
    return str(_Json(bom).output_as_string(indent=2))


def _component(
    name: str, version: str, kind: components.ComponentType = components.ComponentType.LIBRARY
) -> Any:
    return _Component(
        name=name,
        version=version,
        type=kind,
        bom_ref=f"{name}@{version}",
        purl=PackageURL("pypi", name=name.lower(), version=version),
    )


if __name__ == "__main__":
    print(bill(sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8")))
