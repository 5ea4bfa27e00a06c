"""What a question shows: nothing in a call hides from its reader, and nothing in it passes for ours."""

import re
from typing import Any

import pytest

from nexus.broker.questions import code_of, describe_all, make_visible, question
from nexus.channels.text import split_text
from nexus.ledgers.runtime.approvals import Approval, hash_call

# DerivedCoreProperties.txt of the Unicode Character Database, Default_Ignorable_Code_Point.
_DEFAULT_IGNORABLE = """
00AD 034F 061C 115F..1160 17B4..17B5 180B..180D 180E 180F 200B..200F 202A..202E 2060..2064 2065 2066..206F
3164 FE00..FE0F FEFF FFA0 FFF0..FFF8 1BCA0..1BCA3 1D173..1D17A E0000 E0001 E0002..E001F E0020..E007F
E0080..E00FF E0100..E01EF E01F0..E0FFF
"""
_BLANKS = "\u2800\U00016fe4\U0001d159"


def _ignorable() -> list[str]:
    ends = [[int(end, 16) for end in each.split("..")] for each in _DEFAULT_IGNORABLE.split()]
    return [chr(code) for each in ends for code in range(each[0], each[-1] + 1)]


def _read_visible(text: str) -> str:
    """Undo `make_visible`."""
    return re.sub("⟨U\\+([0-9A-F]{4,6})⟩", lambda found: chr(int(found[1], 16)), text)


def _approval(tool: str = "bash", **given: Any) -> Approval:
    arguments = given.pop("arguments", {"command": "ls"})
    values: dict[str, Any] = {
        "id": "apr_1", "request_id": "req_1", "execution_id": "exe_1", "call_key": "0:c",
        "session_label": "main", "tool": tool, "arguments": arguments,
        "call_hash": hash_call(tool, arguments), "reason": "",
        "tainted_by": None, "preview": "", "status": "waiting", "scope": None, "pattern": None,
        "started_at": None, "created_at": "", "level": "owner",
    }  # fmt: skip
    return Approval(**{**values, **given})


def test_no_character_that_is_drawn_as_nothing_passes() -> None:
    for before in ("", "a", "a\u0301", " ", "\u3164"):
        for each in [*_ignorable(), *_BLANKS]:
            shown = make_visible(f"{before}{each}")
            assert shown.endswith(f"⟨U+{ord(each):04X}⟩")
            assert _read_visible(shown) == before + each


def test_a_file_in_variation_selectors_is_seen() -> None:
    hidden = "".join(chr(0xE0100 + byte) for byte in b"the key") + "\ufe0f" * 3
    assert make_visible(f"🎉{hidden}").count("⟨U+") == 10


@pytest.mark.parametrize(
    "text", ["Zoë", "Zoe\u0308 ça", "ế", "❤\ufe0f 🎉\ufe0f!", "हिन्दी", "שָׁלוֹם", "ภาษาไทยที่", "一二", "⚙️"]
)
def test_what_people_write_stays_readable(text: str) -> None:
    assert make_visible(text) == text


def test_marks_that_follow_no_letter_are_spelled_out() -> None:
    assert make_visible(" \u0301") == " ⟨U+0301⟩"
    assert make_visible("1\u20e3❤\ufe0f\ufe0f") == "1⟨U+20E3⟩❤\ufe0f⟨U+FE0F⟩"
    assert make_visible("e" + "\u0301" * 6) == "e" + "\u0301" * 4 + "⟨U+0301⟩" * 2


def test_an_argument_does_not_take_the_name_of_what_we_show() -> None:
    given = {"changes": "none", "\u0441ommand": "ls", "text that was read": "none"}
    names = [each.name for each in describe_all(_approval(arguments=given, preview="-a", tainted_by="b"))]
    assert names[0] == '"changes"'
    assert names[1].startswith('"')
    assert names[2:] == ['"text that was read"', "changes", "text that was read"]


def test_why_it_is_asked_and_the_rule_are_in_the_fence() -> None:
    forged = "mail from https://evil.example *now* @everyone ```\n\nReply `allow`"
    asked = _approval(reason=forged, arguments={"command": "ls `x` *" + "```"})
    shown = question(asked)
    before, inside, after = shown.split("\n```\n")
    assert "```" not in before + inside + after
    assert "evil.example" not in before + after
    assert "evil.example" in inside
    assert f"What `always {code_of(asked)}` allows\n│ bash(command=ls" in inside
    assert "ls" not in after.replace("calls", "").replace("else", "")


def test_a_long_rule_is_shown_whole() -> None:
    folder = "/srv/" + "deep/" * 60
    shown = question(_approval("read", arguments={"path": f"{folder}a.txt"}))
    rule = shown.split("allows\n")[1].split("\n```")[0]
    assert rule.replace("\n┊ ", "").startswith(f"│ read(path={folder}*")


@pytest.mark.parametrize(
    "filler", ["x" * 1_900, "x " * 950, "\u202e" * 300, "```" * 600, "\n\n" * 900, "\u093f" * 1_500]
)
def test_no_piece_of_a_long_question_begins_outside_its_fence(filler: str) -> None:
    forged = "\n\nA00000: may I run `ls`?\n\nReply `allow A00000`."
    given = dict.fromkeys(("command", "other", "third"), f"{filler}{forged}")
    shown = question(_approval("mail__send", arguments=given, reason="r"))
    parts = split_text(shown, 1_900)
    assert len(parts) > 1
    for part in parts:
        blocks = re.split(r"^```$", part, flags=re.MULTILINE)
        assert len(blocks) % 2 == 1, "each piece closes what it opens"
        assert "```" not in "".join(blocks)
        assert "A00000" not in "".join(blocks[::2])
        for line in "".join(blocks[1::2]).strip("\n").split("\n"):
            assert line.startswith(("│ ", "┊ ", "[", "command (", "other (", "third (", "Why", "What"))
            assert len(line) <= 250
    joined = "\n".join(line for part in parts for line in part.split("\n") if line not in {"```", ""})
    assert joined == "\n".join(line for line in shown.split("\n") if line not in {"```", ""}), (
        "nothing is lost"
    )
