"""A release: builds can be repeated byte for byte, and what is in one is told."""

import hashlib
import json
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from nexus import __version__
from nexus.memory.embedding import DEFAULT_MODEL, MODELS

_ROOT = Path(__file__).parents[2]
_WHEEL = f"nexus_runtime-{__version__}-py3-none-any.whl"
_SDIST = f"nexus_runtime-{__version__}.tar.gz"
_MODEL = "nexus_model_english-1.0.1"
_BILL = f"nexus_runtime-{__version__}.cdx.json"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `scripts/release` makes; it builds twice, and fails where a byte differs."""
    folder = tmp_path_factory.mktemp("release")
    done = subprocess.run(
        [str(_ROOT / "scripts" / "release"), "--no-audit", "--folder", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_hashes_are_those_of_the_files(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    model = {f"{_MODEL}-py3-none-any.whl", f"{_MODEL}.tar.gz"}
    assert set(listed) == {_WHEEL, _SDIST, _BILL, *model}
    for name, digest in listed.items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == digest


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(release: Path) -> None:
    package = _ROOT / "src" / "nexus"
    files = {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(release / _WHEEL) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
        about = wheel.read(f"nexus_runtime-{__version__}.dist-info/entry_points.txt").decode()
    assert held == files
    assert "nexus = nexus.cli:main" in about


def test_the_default_model_is_a_package_of_its_own_with_its_notices(release: Path) -> None:
    with zipfile.ZipFile(release / f"{_MODEL}-py3-none-any.whl") as wheel:
        held = set(wheel.namelist())
        weights = wheel.read("nexus_model_english/model.onnx")
    licenses = f"{_MODEL}.dist-info/licenses"
    assert {f"{licenses}/LICENSE", f"{licenses}/NOTICE.md"} <= held
    pinned = MODELS[DEFAULT_MODEL].builds[0].weights
    assert (hashlib.sha256(weights).hexdigest(), len(weights)) == (pinned.sha256, pinned.size_bytes)


def test_the_sdist_can_be_built_from(release: Path) -> None:
    with tarfile.open(release / _SDIST) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/nexus/__init__.py"} <= held


def test_the_bill_of_materials_has_what_the_lock_pins(release: Path) -> None:
    bill = json.loads((release / _BILL).read_text())
    lock = (_ROOT / "requirements-recommended.lock").read_text(encoding="utf-8")
    pinned = {
        tuple(line.split(" ")[0].split("==")) for line in lock.splitlines() if re.match(r"[\w.-]+==", line)
    }
    assert {(part["name"], part["version"]) for part in bill["components"]} == pinned
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", __version__)
    assert all(part["purl"].startswith("pkg:pypi/") for part in bill["components"])
