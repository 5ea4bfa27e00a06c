"""What a page shows of a call that waits is no less than what a channel shows."""

from nexus.broker.questions import describe
from nexus.gateway.dashboard.render import environment


def test_a_text_and_a_truth_value_look_different_and_a_rule_is_whole() -> None:
    rule = "read(path=/srv/" + "deep/" * 60 + "*)"
    shown = environment().get_template("part_approvals.html").render(
        approvals=[{
            "id": "apr_1", "code": "A00001", "tool": "t", "call_hash": "", "reason": "", "always": rule,
            "caution": "", "fields": describe({"one": "true", "two": True}),
        }],
        oob=False,
    )  # fmt: skip
    assert "one (4 characters)" in shown
    assert "two (JSON, 4 characters)" in shown
    assert rule in shown
