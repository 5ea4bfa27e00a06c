"""Programs whose clock shows another time."""

from datetime import UTC, datetime
from pathlib import Path


def showing(moment: datetime) -> dict[str, str]:
    """The variables with which a Python program's clock shows that moment now, and goes on from it."""
    ahead = (moment - datetime.now(UTC)).total_seconds()
    return {"PYTHONPATH": str(Path(__file__).parent), "AHEAD_S": str(ahead)}
