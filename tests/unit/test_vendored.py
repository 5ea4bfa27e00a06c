"""Files of others: each is listed with its version and license, and is what its authors published."""

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LISTED: list[dict[str, Any]] = tomllib.loads((ROOT / "vendored.toml").read_text(encoding="utf-8"))["file"]


@pytest.mark.parametrize("file", LISTED, ids=[each["name"] for each in LISTED])
def test_a_vendored_file_is_what_was_published_and_has_its_license(file: dict[str, Any]) -> None:
    assert hashlib.sha256((ROOT / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    assert (ROOT / file["license_file"]).is_file()
    assert file["license"]
    assert file["source"]
    if file["path"].endswith(".js"):
        assert file["version"] in Path(file["path"]).name


def test_every_vendored_script_is_listed() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("src", "tests", "docs", "scripts", "bench")
        for path in (ROOT / folder).rglob("*.js")
        if ".min." in path.name or re.search(r"\d+\.\d+\.\d+", path.name)
    }
    assert found == {each["path"] for each in LISTED if each["path"].endswith(".js")}
