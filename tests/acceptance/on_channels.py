"""What models answer in the tests of channels."""

from collections.abc import Callable
from pathlib import Path

from nexus.testing import ModelRequest, ToolCall, Turn


def echo_word(request: ModelRequest) -> Turn:
    """Answers with the last word of what was said."""
    said = str(request.json["messages"][-1]["content"]).replace("\\n", " ")
    word = next(each for each in reversed(said.split()) if each.startswith("word"))
    return Turn(f"You said {word.rstrip(chr(39) + '}],')}")


def recalling(request: ModelRequest) -> Turn:
    """Asks the memory first, whatever was said."""
    if "tool_result" in str(request.json["messages"][-1]):
        return Turn("Here is what I know.")
    return Turn("", [ToolCall("recall", {"query": "door code"})])


def sending(file: Path) -> Callable[[ModelRequest], Turn]:
    """Sends a file to who asks for it, and otherwise answers with the last word of what was said."""

    def answer(request: ModelRequest) -> Turn:
        last = str(request.json["messages"][-1])
        if "tool_result" in last:
            return Turn("Here is the file.")
        if "Send me the file" in last:
            return Turn("", [ToolCall("send_file", {"path": str(file)})])
        return echo_word(request)

    return answer
