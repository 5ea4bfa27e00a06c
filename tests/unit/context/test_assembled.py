"""An assembled context survives being stored with its run."""

import json
from dataclasses import replace

from nexus.attachments import Attachment
from nexus.context import AssembledContext


def test_a_context_is_the_same_after_it_was_stored() -> None:
    context = AssembledContext(
        session_label="main",
        role="manager",
        system_prompt="Be brief.",
        tools=("bash", "read"),
        current_message="Hi",
    )
    context.prepend("<memory_context>\n</memory_context>")
    assert AssembledContext.from_json(json.loads(json.dumps(context.to_json()))) == context
    assert context.current_message.endswith("\n\nHi")


def test_a_context_of_another_version_is_read_as_far_as_it_is_known() -> None:
    note = Attachment(name="note.txt", media_type="text/plain", size_bytes=2, sha256="ab")
    context = AssembledContext(
        session_label="main",
        role="manager",
        system_prompt="Be brief.",
        tools=("bash",),
        current_message="Hi",
        attachments=(note,),
    )
    stored = json.loads(json.dumps(context.to_json()))
    stored |= {"tone": "friendly"}
    stored["attachments"][0]["pages"] = 3
    del stored["is_brief"], stored["situation"]
    assert AssembledContext.from_json(stored) == replace(context, is_brief=False, situation="")
