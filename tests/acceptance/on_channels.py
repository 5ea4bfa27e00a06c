"""What models answer in the tests of channels."""

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
