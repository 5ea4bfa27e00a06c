"""The program's commands by name."""

import pytest
from click.testing import CliRunner

from nexus.cli import program


@pytest.mark.parametrize(
    ("typed", "meant"), [(["memroy"], "memory"), (["statsu"], "status"), (["memory", "shwo"], "show")]
)
def test_a_mistyped_command_gets_a_suggestion(typed: list[str], meant: str) -> None:
    result = CliRunner().invoke(program, typed)
    assert result.exit_code == 2
    assert f"No such command '{typed[-1]}'. " in result.stderr
    assert "Did you mean" in result.stderr
    assert f"'{meant}'" in result.stderr
