"""The company of an entity as a picture: itself in the middle, the others around it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nexus.gateway.dashboard.words import short
from nexus.gateway.views.entities import Neighbour

WIDTH: Final = 480
HEIGHT: Final = 320
_CENTRE: Final = (WIDTH / 2, HEIGHT / 2)
_REACH: Final = (120, 140)
_ROUNDNESS: Final = 0.85
_MOST: Final = 14
_THICKEST: Final = 5.0
_LABEL_CHARACTERS: Final = 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """One neighbour, where it is drawn."""

    neighbour: Neighbour
    label: str
    x: float
    y: float
    label_x: float
    label_y: float
    anchor: str
    radius: float
    edge: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """Ready to be drawn as SVG."""

    name: str
    centre: tuple[float, float]
    width: int
    height: int
    spots: tuple[Spot, ...]


def drawn(name: str, neighbours: Sequence[Neighbour]) -> Picture | None:
    """The nearest neighbours around it; None where there are none."""
    shown = list(neighbours[:_MOST])
    if not shown:
        return None
    most = max(each.facts + each.episodes for each in shown)
    spots = tuple(_spot(each, place, len(shown), most) for place, each in enumerate(shown))
    return Picture(
        name=short(name, _LABEL_CHARACTERS), centre=_CENTRE, width=WIDTH, height=HEIGHT, spots=spots
    )


def _spot(neighbour: Neighbour, place: int, count: int, most: int) -> Spot:
    """Half of them to the right and half to the left, each at a height of its own for its label."""
    right = place % 2 == 0
    row, rows = place // 2, (count + 1) // 2 if right else count // 2
    height = (2 * row + 1) / rows - 1
    x = _CENTRE[0] + _REACH[0] * math.sqrt(1 - (height * _ROUNDNESS) ** 2) * (1 if right else -1)
    y = _CENTRE[1] + _REACH[1] * height
    share = (neighbour.facts + neighbour.episodes) / most
    radius = 4 + 6 * math.sqrt(share)
    return Spot(
        neighbour=neighbour,
        label=short(neighbour.name, _LABEL_CHARACTERS),
        x=round(x, 1),
        y=round(y, 1),
        label_x=round(x + (radius + 5) * (1 if right else -1), 1),
        label_y=round(y + 4, 1),
        anchor="start" if right else "end",
        radius=round(radius, 1),
        edge=round(max(1.0, _THICKEST * share), 1),
    )
