"""How well promises are recognized without a model: precision, recall and dates on labelled messages.

`promises/train.jsonl` is what the rules were written with. `promises/held_out.jsonl` was written before them,
in other voices, and is only measured: don't change the rules by what it shows. `promises/fresh.jsonl` was
written later by somebody who had not read the rules or the other files, and measured once.
"""

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nexus.roles.follow_ups.promises import Promise, find_promises

FOLDER = Path(__file__).parent / "promises"
SAID_AT = datetime(2026, 11, 19, 9, tzinfo=UTC)
"""A Thursday, ten o'clock in Berlin."""
ZONE = "Europe/Berlin"


@dataclass(frozen=True, kw_only=True)
class Score:
    """What was found of what there is."""

    right: int
    found: int
    labelled: int
    dated: int
    dates_right: int
    wrong: tuple[str, ...]

    @property
    def precision(self) -> float:
        return self.right / max(self.found, 1)

    @property
    def recall(self) -> float:
        return self.right / max(self.labelled, 1)


def load(half: str) -> list[dict[str, Any]]:
    """Load the labelled messages of `train`, `held_out` or `fresh`."""
    lines = (FOLDER / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def measure(half: str) -> Score:
    """Compare what the rules find with the labels. A promise of the wrong person is wrong."""
    right = found = labelled = dated = dates_right = 0
    wrong: list[str] = []
    for each in load(half):
        promises = find_promises(each["text"], speaker=each["by"], said_at=SAID_AT, zone=ZONE)
        found += len(promises)
        labelled += "who" in each
        matching = [promise for promise in promises if _name(promise) == each.get("who")]
        right += bool(matching)
        if bool(matching) != ("who" in each) or len(promises) > len(matching):
            wrong.append(f"{each.get('who', '-')}: {each['text']}  found: {[_name(p) for p in promises]}")
        if matching and "due" in each:
            dated += 1
            due = matching[0].due
            dates_right += due is not None and due.day.isoformat() == each["due"]
    return Score(
        right=right,
        found=found,
        labelled=labelled,
        dated=dated,
        dates_right=dates_right,
        wrong=tuple(wrong),
    )


def _name(promise: Promise) -> str:
    name = promise.name.removeprefix("my ").removeprefix("My ")
    return (name[:1].upper() + name[1:]) if promise.who == "named" else promise.who


def main() -> None:
    """Print the scores of each set; with `--errors`, what is wrong in the training half."""
    for half in ("train", "held_out", "fresh"):
        score = measure(half)
        print(
            f"{half}: precision {score.precision:.3f}, recall {score.recall:.3f} "
            f"({score.right} of {score.labelled}, {score.found} found), "
            f"dates {score.dates_right} of {score.dated}"
        )
        if half == "train" and "--errors" in sys.argv:
            print(*score.wrong, sep="\n")


if __name__ == "__main__":
    main()
