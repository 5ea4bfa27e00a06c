"""`nexus channels add` asks nothing in vain, and shows a server's words as words."""

from typing import Any

import pytest
from click.testing import CliRunner

from nexus import config
from nexus.channels.setup import LoginCheck
from nexus.cli import channels, program
from nexus.home import Home


@pytest.mark.parametrize("name", ["cli", "web", "api", "schedule", "new", "a/b", "a.b", "x" * 41])
def test_a_name_that_no_channel_can_have_is_refused_before_the_first_question(home: Home, name: str) -> None:
    asked = CliRunner().invoke(
        program,
        ["--home", str(home.root), "channels", "add", "telegram", "--name", name],
        input="env:TOKEN\n",
    )
    assert asked.exit_code != 0
    assert "can't be called" in str(asked.exception)
    assert "Bot token" not in asked.output


def test_the_words_of_a_server_do_not_steer_the_terminal(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def log_in(*_: Any) -> LoginCheck:
        return LoginCheck(said=("Connected as \x1b[2Jbot.",), owner="7")

    monkeypatch.setattr(channels, "check_login", log_in)
    done = CliRunner().invoke(
        program, ["--home", str(home.root), "channels", "add", "telegram"], input="env:TOKEN\n\n"
    )
    assert "Connected as [2Jbot." in done.output
    assert config.load(home.config_file).channels["telegram"].owner == ("7",)
