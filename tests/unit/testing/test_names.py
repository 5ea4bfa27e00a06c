"""The public names of `nexus.testing`: users' tests import them."""

from nexus import testing


def test_the_public_names_are_these() -> None:
    assert testing.__all__ == [
        "PROFILES",
        "AdapterContract",
        "Answer",
        "BrokenEvent",
        "Caching",
        "Cut",
        "Drip",
        "ErrorEvent",
        "Exchange",
        "Gate",
        "Hold",
        "HttpError",
        "Kit",
        "ModelRequest",
        "ModelServer",
        "Pace",
        "Price",
        "Profile",
        "Prompt",
        "RecordingInbox",
        "RetryAfter",
        "Rule",
        "Silence",
        "Stall",
        "Step",
        "TokenLogprob",
        "ToolCall",
        "Totals",
        "Turn",
        "Usage",
        "echo",
        "failures",
        "shared_prefix_tokens",
        "tokens_in",
    ]
    assert all(hasattr(testing, name) for name in testing.__all__)
