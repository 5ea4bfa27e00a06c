"""The table of attacks on the security page: each test that it names exists, in the file that it names."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "concepts" / "security.md"
_NAMED = re.compile(r"`([\w/]+\.py)`|`((?:test|…)\w+(?:…\w+)*…?)`")


def _rows() -> list[tuple[str, str]]:
    """The promise and the tests of each row."""
    table = _PAGE.read_text(encoding="utf-8").partition("| Promise | Attack | Test |")[2].partition("\n\n")[0]
    lines = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
    return [(cells[0].strip(), cells[-1]) for cells in lines]


def _defined(file: str) -> str:
    """The text of the test files of that name."""
    found = [path for path in (_ROOT / "tests").rglob(Path(file).name) if str(path).endswith(f"/{file}")]
    assert found, f"there is no {file}"
    return "\n".join(path.read_text(encoding="utf-8") for path in found)


@pytest.mark.parametrize(("promise", "tests"), _rows(), ids=lambda text: str(text)[:40])
def test_each_promise_names_tests_that_exist(promise: str, tests: str) -> None:
    text, named = "", 0
    for file, name in _NAMED.findall(tests):
        if file:
            # Files that are listed without a test are looked at together.
            text = _defined(file) if name or f"`{file}`:" in tests else text + _defined(file)
            continue
        pattern = r"def \w*" + r"\w*".join(map(re.escape, name.split("…"))) + r"\w*\("
        assert re.search(pattern, text), f"{promise}: there is no {name}"
        named += 1
    assert named or text, promise


def test_every_kind_of_border_is_in_the_table() -> None:
    assert len(_rows()) >= 20
