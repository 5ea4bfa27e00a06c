"""What a reader of the examples is promised."""

import re
from pathlib import Path

import pytest

from installed import EXAMPLES

_ROOT = EXAMPLES.parent
_FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/README.md"))
_LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def _links(page: Path) -> list[Path]:
    return [page.parent / link for link in _LINK.findall(page.read_text(encoding="utf-8"))]


def test_the_indexes_list_every_example() -> None:
    names = [folder.name for folder in _FOLDERS]
    assert len(names) == 10
    for page in (EXAMPLES / "README.md", _ROOT / "docs" / "how-to" / "examples.md"):
        listed = re.findall(r"^\| [`\[]([a-z-]+)[`\]]", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert sorted(listed) == names


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
def test_each_says_what_it_does_costs_and_leaves_and_is_short(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert sections == ["Install", "Configure", "Cost", "Limits", "Test"]
    assert [link for link in _links(folder / "README.md") if not link.is_file()] == []
    [script] = [path for path in folder.glob("*.py") if not path.name.startswith("test_")]
    assert len(script.read_text(encoding="utf-8").splitlines()) < 100


def test_the_index_leads_somewhere() -> None:
    assert [link for link in _links(EXAMPLES / "README.md") if not link.is_file()] == []
