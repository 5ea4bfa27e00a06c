"""Security rules of the linter are on everywhere, and each exception says why."""

import re
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SUPPRESSED = re.compile(r"# noqa: (?:[A-Z]+[0-9]+, )*S[0-9]+(.*)")


def test_every_suppressed_security_rule_says_why() -> None:
    bare = [
        f"{file.relative_to(_ROOT)}:{number}"
        for folder in ("src", "scripts")
        for file in sorted((_ROOT / folder).rglob("*.py"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if (found := _SUPPRESSED.search(line)) and len(found[1].strip(" -,SN0123456789")) < 5
    ]
    assert bare == []


def test_no_security_rule_is_off_for_the_program() -> None:
    lint = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    assert not any(rule.startswith("S") and rule[1:].isdigit() for rule in lint.get("ignore", []))
    for pattern, rules in lint["per-file-ignores"].items():
        security = [rule for rule in rules if re.fullmatch(r"S[0-9]*", rule)]
        assert "S" not in security, pattern
        assert not (pattern.startswith("src") and security), pattern
