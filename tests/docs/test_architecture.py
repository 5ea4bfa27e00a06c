"""The architecture page names every room there is, with what it is for, and no other."""

import re
import tomllib
from pathlib import Path

from nexus.home import LEDGERS

_ROOT = Path(__file__).parents[2]
_SOURCE = _ROOT / "src" / "nexus"
_PAGE = (_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_LINE = re.compile(r"^(?P<indent> +)(?P<name>\S+) +(?P<purpose>\S.*)$")
_EACH_LEDGER = "<ledger>"


def _described() -> dict[str, str]:
    """Each room of the page's tree, such as `memory/recall`, with its purpose."""
    [tree] = re.findall(r"^```text\nsrc/nexus/\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    found: dict[str, str] = {}
    above = ""
    for line in tree.splitlines():
        match = _LINE.match(line)
        assert match, f"{line!r} has no purpose"
        name = match["name"].rstrip("/")
        if len(match["indent"]) == 2:
            above = name
        else:
            name = f"{above}/{name}"
        found[name] = match["purpose"]
    return found


def _rooms() -> set[str]:
    """Modules and packages, and the packages within those."""
    modules = {file.name for file in _SOURCE.glob("*.py")}
    packages = {str(file.parent.relative_to(_SOURCE)) for file in _SOURCE.glob("*/__init__.py")}
    within = {str(file.parent.relative_to(_SOURCE)) for file in _SOURCE.glob("*/*/__init__.py")}
    ledgers = {f"ledgers/{name}" for name in LEDGERS}
    assert ledgers <= within
    return (modules | packages | within) - ledgers | {f"ledgers/{_EACH_LEDGER}"}


def test_the_tree_on_the_page_is_the_tree() -> None:
    assert set(_described()) == _rooms()


def test_the_order_on_the_page_names_what_the_import_rules_order() -> None:
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = [each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    ordered = {name for layer in contract["layers"] for name in re.findall(r"\w+", layer)}
    section = _PAGE.split("## The order")[1].split("\n## ")[0]
    assert ordered <= set(re.findall(r"`(\w+)`", section))
