"""What is too long for a model keeps its beginning and its end."""

from nexus.broker.tools.tool import clip


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    assert clip("short", 10) == "short"
    assert clip("a" * 10 + "b" * 80 + "c" * 10, 20) == f"{'a' * 10}\n[… 80 characters left out …]\n{'c' * 10}"
