"""Changing settings in a file that a person wrote."""

import tomllib

import pytest

from nexus import config
from nexus.config_file import Change, apply_changes
from nexus.errors import ConfigError

_MANAGER = Change(section="models", key="manager", value="ollama/qwen3")
_URL = Change(section="providers.server", key="base_url", value="http://localhost:8080/v1")


def test_a_default_that_is_commented_out_is_switched_on_where_it_stands() -> None:
    before = config.template()
    after = apply_changes(before, [_MANAGER])
    assert after == before.replace("# manager = []\n", 'manager = "ollama/qwen3"\n')


def test_a_section_that_is_only_a_comment_is_added_at_the_end() -> None:
    before = config.template()
    after = apply_changes(before, [_URL])
    assert after == f'{before}\n[providers.server]\nbase_url = "http://localhost:8080/v1"\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '\n\n[models]\nmanager = "ollama/qwen3"\n'),
        ('[models]\nmanager = ["a/b", "c/d"] # two\n', '[models]\nmanager = "ollama/qwen3" # two\n'),
        ('models = { manager = "a/b" }\n', 'models = { manager = "ollama/qwen3" }\n'),
        ('models.manager = "a/b"\n', 'models.manager = "ollama/qwen3"\n'),
        ("[models]\n\n[agents]\n", '[models]\nmanager = "ollama/qwen3"\n\n[agents]\n'),
        ('[models]\nfast = "a/b"', '[models]\nfast = "a/b"\nmanager = "ollama/qwen3"\n'),
    ],
)
def test_everything_else_stays_as_it_is(before: str, after: str) -> None:
    assert apply_changes(before, [_MANAGER]).lstrip() == after.lstrip()


def test_a_way_of_writing_that_cannot_be_added_to_is_left_alone() -> None:
    with pytest.raises(ConfigError, match="can't be edited automatically") as raised:
        apply_changes('models.fast = "a/b"\n', [_MANAGER])
    assert '[models] manager = "ollama/qwen3"' in raised.value.hint


def test_a_value_is_quoted_as_toml_wants_it() -> None:
    odd = Change(section="models", key="manager", value='a/"b"\\c\n')
    assert tomllib.loads(apply_changes("", [odd])) == {"models": {"manager": 'a/"b"\\c\n'}}


def test_nobody_is_an_empty_list() -> None:
    nobody = Change(section="models", key="writer", value=[])
    assert apply_changes('[models]\nwriter = "a/b"\n', [nobody]) == "[models]\nwriter = []\n"
