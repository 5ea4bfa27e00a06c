"""Long texts, cut to what a model can be shown."""


def clipped(text: str, most_characters: int) -> str:
    """The beginning and the end: what was done, and how it ended."""
    left_out = len(text) - most_characters
    if left_out <= 0:
        return text
    half = most_characters // 2
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[-half:]}"
