"""A long text is split where it reads best, and nothing of it is lost."""

from hypothesis import given
from hypothesis import strategies as st

from nexus.channels.splitting import pieces


@given(st.text(alphabet="ab \n😀", max_size=400), st.integers(4, 40))
def test_pieces_fit_and_lose_nothing(text: str, most: int) -> None:
    parts = pieces(text, most)
    assert all(part.strip() and len(part.encode("utf-16-le")) // 2 <= most for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())
