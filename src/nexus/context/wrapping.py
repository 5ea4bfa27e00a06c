"""Text that others wrote, wrapped so that a model can tell it from its instructions."""

from xml.sax.saxutils import quoteattr


def wrapped(tag: str, text: str, **attributes: str) -> str:
    """The text between tags that it cannot close itself."""
    head = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<{tag}{head}>\n{text.replace(f'</{tag}', f'&lt;/{tag}')}\n</{tag}>"
