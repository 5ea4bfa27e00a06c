"""What a model may send as arguments."""

from pathlib import Path
from typing import Any

import pytest

from nexus.broker.tools import SANDBOXED, Context, Sandbox
from nexus.errors import ToolError

CONTEXT = Context(sandbox=Sandbox(), directory=Path("/"))
BASH, READ, WRITE, EDIT = SANDBOXED


def test_every_tool_says_what_it_does_and_what_it_takes() -> None:
    assert [tool.name for tool in SANDBOXED] == ["bash", "read", "write", "edit"]
    for tool in SANDBOXED:
        assert tool.description
        assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])
        assert tool.parameters["additionalProperties"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "`path` is missing"),
        ({"path": "a", "file": "b"}, "no argument `file`"),
        ({"path": 3}, "must be of type string"),
        ({"path": None}, "must be of type string"),
        ({"path": "a\0b"}, "zero byte"),
        ({"path": "\ud800"}, "not valid Unicode"),
        ({"path": "a", "lines": "3"}, "must be of type integer"),
        ({"path": "a", "lines": True}, "must be of type integer"),
        ({"path": "a", "lines": 0}, "at least 1"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        await READ.call(arguments, CONTEXT)


async def test_the_grants_are_told_where_something_is_refused() -> None:
    assert CONTEXT.granted == "nothing"
