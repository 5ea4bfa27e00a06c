"""The program's commands by name."""

import click
import pytest
from click.testing import CliRunner

from nexus.cli import COMMANDS, SECTIONS, program


@pytest.mark.parametrize(
    ("typed", "meant"), [(["memroy"], "memory"), (["statsu"], "status"), (["memory", "shwo"], "show")]
)
def test_a_mistyped_command_gets_a_suggestion(typed: list[str], meant: str) -> None:
    result = CliRunner().invoke(program, typed)
    assert result.exit_code == 2
    assert f"No such command '{typed[-1]}'. " in result.stderr
    assert "Did you mean" in result.stderr
    assert f"'{meant}'" in result.stderr


def test_the_help_lists_every_command_once_under_a_heading() -> None:
    told = CliRunner().invoke(program, ["--help"]).output.splitlines()
    listed = [line.split()[0] for line in told[told.index("Start:") :] if line.startswith("  ")]
    assert listed[: len(COMMANDS)] == list(COMMANDS)
    assert [f"{heading}:" for heading in SECTIONS] == [line for line in told if line[:-1] in SECTIONS]


def test_every_short_help_fits_its_line() -> None:
    context = click.Context(program, info_name="nexus")
    for name in COMMANDS:
        command = program.get_command(context, name)
        if isinstance(command, click.Group):
            # What click leaves for it beside the longest name, in a terminal of 80 columns.
            limit = 80 - 8 - max(map(len, command.commands))
            for each in command.commands.values():
                assert not each.get_short_help_str(limit).endswith("..."), f"nexus {name} {each.name}"


def test_the_front_of_the_memory_shows_what_a_person_wants_first() -> None:
    told = CliRunner().invoke(program, ["memory", "--help"]).output.partition("Commands:")[2]
    listed = {line.split()[0] for line in told.splitlines() if line.strip()}
    assert {"facts", "people", "changes", "correct", "advanced"} <= listed
    assert not {"candidates", "episodes", "timeline", "unmerge"} & listed
    for hidden in ("candidates", "episodes"):
        assert CliRunner().invoke(program, ["memory", hidden, "--help"]).exit_code == 0
