"""What pages and JSON endpoints show of runs: typed reads over the ledgers, a page at a time, and no writes.

What they show of the memory is read by `nexus.memory.views`.
"""

from urllib.parse import quote


def address(folder: str, name: str) -> str:
    """The page of something in the dashboard, whatever it is called."""
    return f"/{folder}/{quote(name, safe='')}"
