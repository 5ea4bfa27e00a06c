"""A terminal shows what an agent says, and is not steered by it."""

from nexus.cli.screen import cost_line
from nexus.cli.terminal import printable
from nexus.runs import Totals


def test_what_would_steer_a_terminal_is_not_printed() -> None:
    assert printable("a\x1b[31mb\x07\r\x9b\u202ec\n\td") == "a[31mbc\n\td"
    assert printable("naïve 你好 👩‍🚀") == "naïve 你好 👩‍🚀"


def test_the_cost_is_told_in_a_line() -> None:
    usage = Totals(
        calls=1, input_tokens=100, cache_read_tokens=900, output_tokens=1_234, cost_microusd=12_300
    )
    assert cost_line(usage) == "1,000 tokens in (90% cached), 1,234 out · $0.0123"
    assert cost_line(Totals(calls=1, input_tokens=5, output_tokens=1)) == "5 tokens in, 1 out"
