"""What is typed while the agent works."""

from prompt_toolkit.input.vt100_parser import Vt100Parser

from nexus.cli.message_input import TypeAhead


def _typed(ahead: TypeAhead, keys: str) -> None:
    parser = Vt100Parser(ahead.press)
    parser.feed(keys)
    parser.flush()


def test_lines_wait_in_order_and_the_rest_begins_the_next_message() -> None:
    ahead = TypeAhead()
    _typed(ahead, "first\rsecomd\x7f\x7fnd\r \rthi")
    assert (ahead.queued, ahead.draft) == (["first", "second"], " thi")
    assert ahead.next_message() == "first"
    assert (ahead.take_draft(), ahead.take_draft()) == (" thi", "")


def test_what_was_queued_is_taken_back_by_arrow_up_or_when_the_agent_is_stopped() -> None:
    ahead = TypeAhead()
    _typed(ahead, "one\rtwo\r\x1b[A")
    assert (ahead.queued, ahead.draft) == (["one"], "two")
    ahead.hold()
    assert (ahead.queued, ahead.draft) == ([], "one\ntwo")
    _typed(ahead, "\x15")
    assert ahead.draft == ""


def test_a_pasted_text_is_one_message_and_control_characters_are_none() -> None:
    ahead = TypeAhead()
    _typed(ahead, "\x1b[200~a\r\nb\x1b[201~\x04\x1bOP\r")
    assert ahead.queued == ["a\nb"]
