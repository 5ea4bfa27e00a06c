"""Forgetting leaves no byte of what goes, and takes nothing else. NEXUS_LONG=1: among 100,000 events."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.forgotten import ARGUMENTS, assert_forgotten, assert_guarded, built, dangling
from acceptance.marked_home import MarkedHome
from acceptance.program import nexus
from long_form import times
from nexus.home import Home


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> MarkedHome:
    """Many events and facts, of which each target has a fiftieth. Every test has a copy."""
    count = times(5_000, long=100_000)
    return built(tmp_path_factory.mktemp("large"), count, count // 50)


@pytest.fixture
def copied(marked: MarkedHome, tmp_path: Path) -> Iterator[Home]:
    root = tmp_path / "copied"
    shutil.copytree(marked.home.root, root)
    yield Home(root)
    shutil.rmtree(root)


@pytest.mark.parametrize("case", ["entity", "thread", "range"])
def test_forgetting_leaves_no_byte_of_the_target_and_takes_nothing_else(
    case: str, marked: MarkedHome, copied: Home
) -> None:
    dangling_before = dangling(copied)
    done = nexus(copied.root, "forget", case, *ARGUMENTS[case], "--yes", "--json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["removed"] == +marked.tally[case]
    assert report["files"] > 0
    assert report["named_in"] == []
    assert_forgotten(copied, marked, case)
    assert_guarded(copied)
    assert dangling(copied) == dangling_before
