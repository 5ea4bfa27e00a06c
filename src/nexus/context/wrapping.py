"""Text that others wrote, wrapped so that a model can tell it from its instructions."""

import re
from xml.sax.saxutils import quoteattr


def wrapped(tag: str, text: str, **attributes: str) -> str:
    """The text between tags that it cannot close itself, nor tell a situation of its own."""
    head = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    # A model reads tags as a person does: case and blanks make no difference to it.
    own = re.compile(rf"<(?=\s*+(?:/\s*+{re.escape(tag)}|(?:/\s*+)?situation))", re.IGNORECASE)
    return f"<{tag}{head}>\n{own.sub('&lt;', text)}\n</{tag}>"


def quoted(text: str, *, sender: str | None, trust: str) -> str:
    """Somebody's message, with who wrote it and how far they are trusted."""
    return wrapped("message", text, sender=sender or "unknown", trust=trust)
