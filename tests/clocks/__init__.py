"""Programs whose clock shows another time."""

from datetime import UTC, datetime
from pathlib import Path

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


class WrongClock:
    """The clock of the Python programs that are started with its variables. It can be set while they run."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"

    def show(self, moment: datetime) -> None:
        """From now on the clock shows that moment, and goes on from it."""
        self.be_off_by((moment - datetime.now(UTC)).total_seconds())

    def be_off_by(self, seconds: float) -> None:
        made = self._file.with_suffix(".new")
        made.write_text(f"{seconds:+f}\n")
        made.replace(self._file)

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PYTHONPATH": str(Path(__file__).parent),
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            # Waits go by this one, and those of threads would never end.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
