"""A long text is split where it reads best, and nothing of it is lost."""

from hypothesis import given
from hypothesis import strategies as st

from nexus.channels.text import split_text


@given(st.text(alphabet="ab \n😀", max_size=400), st.integers(4, 40))
def test_pieces_fit_and_lose_nothing(text: str, most: int) -> None:
    parts = split_text(text, most)
    assert all(part.strip() and len(part.encode("utf-16-le")) // 2 <= most for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@given(
    st.lists(st.text(alphabet="ab ", min_size=1, max_size=30).filter(str.strip), min_size=1, max_size=30),
    st.sampled_from(["```", "```py", "````"]),
    st.integers(60, 120),
)
def test_a_block_of_code_goes_on_as_one(lines: list[str], fence: str, most: int) -> None:
    mark = fence.rstrip("py")
    text = "\n".join(["Before", "", fence, *lines, mark, "", "After"])
    parts = split_text(text, most)
    assert all(len(part) <= most for part in parts)
    code: list[str] = []
    for part in parts:
        is_code = False
        for line in part.split("\n"):
            if line in {fence, mark}:
                is_code = not is_code
            elif is_code:
                code.append(line)
            else:
                assert line in {"Before", "", "After"}
        assert not is_code
    assert code == lines
