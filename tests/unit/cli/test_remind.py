"""`nexus remind` speaks of reminders by their words and times."""

import pytest
from click.testing import CliRunner

from nexus.cli import program
from nexus.errors import MissingError, UsageError
from nexus.home import Home


def _run(home: Home, *words: str) -> str:
    result = CliRunner().invoke(program, ["--home", str(home.root), "remind", *words])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_a_reminder_is_told_by_its_words_and_changed_by_them(home: Home) -> None:
    saved = _run(home, "every Monday at 9 UTC tell me what is open")
    assert "The agent answers: tell me what is open\nSaved. It arrives" in saved
    _run(home, "every day at 8 UTC call Anna")
    open_ = "every Monday at 09:00 UTC: tell me what is open [main]"
    assert _run(home, "list") == f"{open_}\nevery day at 08:00 UTC: call Anna [main]\n"
    assert _run(home, "list", "--ids").splitlines()[0] == f"{open_}  reminder-1"
    assert _run(home, "pause", "Call", "Anna") == "Paused: every day at 08:00 UTC: call Anna\n"
    assert _run(home, "resume", "anna") == "Resumed: every day at 08:00 UTC: call Anna\n"
    deleted = "Deleted: every Monday at 09:00 UTC: tell me what is open\n"
    assert _run(home, "delete", "reminder-1") == deleted
    assert _run(home, "list") == "every day at 08:00 UTC: call Anna [main]\n"


def test_words_that_name_no_reminder_or_several_change_nothing(home: Home) -> None:
    for at in ("8", "9"):
        _run(home, f"every day at {at} UTC call Anna")
    before = _run(home, "list")
    with pytest.raises(UsageError, match="2 reminders match `call Anna`") as raised:
        _run(home, "delete", "call Anna")
    assert "reminder-1 (every day at 08:00 UTC), reminder-2 (every day at 09:00 UTC)" in raised.value.hint
    for words in ("Ben", "ann"):
        with pytest.raises(MissingError, match=f"No reminder matches `{words}`"):
            _run(home, "delete", words)
    assert _run(home, "list") == before
