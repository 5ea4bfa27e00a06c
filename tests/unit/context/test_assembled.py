"""An assembled context survives being stored with its run."""

import json

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
