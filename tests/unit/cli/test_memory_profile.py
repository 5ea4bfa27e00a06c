"""`nexus memory profile`: what it shows, how it is edited, and that every version is kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contents import writing
from nexus.cli import program
from nexus.errors import UsageError
from nexus.home import Home
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory.profile import MAX_TOKENS

NUTS = {"operation": "fact", "about": "Owner", "fact": "The owner is allergic to nuts"}


def run(home: Home, *words: str, given: str | None = None, **env: str) -> Result:
    command = ["--home", str(home.root), "memory", *words]
    return CliRunner().invoke(program, command, input=given, env=env, catch_exceptions=False)


def shown(home: Home, *words: str) -> Any:
    return json.loads(run(home, "profile", *words, "--json").stdout)


def learn(home: Home, *operations: dict[str, str]) -> None:
    identity = writing(home, "identity")
    seen = Seen(channel="cli", identifier="owner", display_name="Owner", event_id=None, is_owner=True)
    senders.resolve(identity, seen=seen)
    identity.close()
    assert run(home, "write", "batch", given=json.dumps(operations)).exit_code == 0


def test_a_home_that_knows_nothing_says_how_to_write_it(home: Home) -> None:
    assert "--edit" in run(home, "profile").stdout


def test_each_line_is_shown_with_the_fact_it_rests_on(home: Home) -> None:
    learn(home, NUTS)

    (cited,) = shown(home)["citations"]

    line: str = run(home, "profile").stdout.splitlines()[int(cited["line"]) - 1]
    assert cited["fact"] == NUTS["fact"]
    assert line == f"- {NUTS['fact']}  {cited['fact_id']}"


def test_an_edit_replaces_it_and_what_was_before_stays_a_version(home: Home, tmp_path: Path) -> None:
    learn(home, NUTS)
    run(home, "profile")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'I eat everything but nuts.\\n' > \"$1\"\n", encoding="utf-8")
    editor.chmod(0o700)

    result = run(home, "profile", "--edit", VISUAL=str(editor), EDITOR=str(editor))

    assert result.stdout.strip() == "I eat everything but nuts."
    assert [(each["version"], each["origin"]) for each in shown(home, "--versions")] == [
        (2, "owner"),
        (1, "facts"),
    ]
    table = run(home, "profile", "--versions").stdout
    assert "your edit" in table
    assert "built from facts" in table


def test_closing_the_editor_without_a_change_makes_no_version(home: Home) -> None:
    learn(home, NUTS)

    run(home, "profile", "--edit", VISUAL="true", EDITOR="true")

    assert len(shown(home, "--versions")) == 1


def test_it_is_set_from_standard_input_and_reset(home: Home) -> None:
    learn(home, NUTS)
    run(home, "profile", "--set", "-", given="I am Mona.\nI eat no meat.\n")
    assert shown(home)["content"] == "I am Mona.\nI eat no meat."

    run(home, "profile", "--reset")

    assert shown(home)["content"] == f"- {NUTS['fact']}"
    assert len(shown(home, "--versions")) == 2


def test_one_that_is_too_long_is_refused_and_the_old_one_counts(home: Home) -> None:
    run(home, "profile", "--set", "I am Mona.")

    with pytest.raises(UsageError, match=str(MAX_TOKENS)):
        run(home, "profile", "--set", "word " * 2 * MAX_TOKENS)

    assert shown(home)["content"] == "I am Mona."


def test_two_ways_of_changing_it_in_one_call_are_refused(home: Home) -> None:
    with pytest.raises(UsageError, match="Use one of"):
        run(home, "profile", "--set", "I am Mona.", "--reset")

    assert shown(home) == {}
