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
    """The nearest neighbours on an ellipse; None where there are none."""
    shown = list(neighbours[:_MOST])
    if not shown:
        return None
    most = max(each.facts + each.episodes for each in shown)
    spots = tuple(_spot(each, place, len(shown), most) for place, each in enumerate(shown))
    return Picture(
        name=short(name, _LABEL_CHARACTERS), centre=_CENTRE, width=WIDTH, height=HEIGHT, spots=spots
    )


def _spot(neighbour: Neighbour, place: int, count: int, most: int) -> Spot:
    angle = 2 * math.pi * place / count - math.pi / 2
    # Two rings where there are many, so that labels do not lie on each other.
    reach = 0.78 if count > 8 and place % 2 else 1.0
    x = _CENTRE[0] + math.cos(angle) * 122 * reach
    y = _CENTRE[1] + math.sin(angle) * 122 * reach
    share = (neighbour.facts + neighbour.episodes) / most
    radius = 4 + 6 * math.sqrt(share)
    right, upright = math.cos(angle) > 0.2, abs(math.cos(angle)) <= 0.2
    shift = 0 if upright else (radius + 5) * (1 if right else -1)
    lift = (-radius - 6 if math.sin(angle) < 0 else radius + 14) if upright else 4
    return Spot(
        neighbour=neighbour,
        label=short(neighbour.name, _LABEL_CHARACTERS),
        x=round(x, 1),
        y=round(y, 1),
        label_x=round(x + shift, 1),
        label_y=round(y + lift, 1),
        anchor="middle" if upright else "start" if right else "end",
        radius=round(radius, 1),
        edge=round(max(1.0, _THICKEST * share), 1),
    )
