"""The token count that the model server uses everywhere: four bytes of canonical JSON to a token.

It is not any provider's tokenizer. It is the same on every machine, needs no download, and is
additive over prefixes, so that a test can compute the bill that it expects.
"""

import json

BYTES_PER_TOKEN = 4


def tokens_in(length_bytes: int) -> int:
    """How many tokens a text of that many bytes has; a started token counts as one."""
    return -(-length_bytes // BYTES_PER_TOKEN)


def canonical(value: object) -> bytes:
    """The bytes that are counted and compared: compact JSON in UTF-8, keys in the order they were sent."""
    # A lone surrogate is legal in JSON text, so it must not stop the count.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
