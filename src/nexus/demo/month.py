"""The plan of the month: which scenes happen when. It follows from the seed, the end and the scale alone."""

import random
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any

DAYS = 30
ERRANDS_A_DAY = 6
# More requests than this many months' worth would make the traces outgrow everything that they trace.
_MOST_WORK = 20
_DATE = re.compile(r"\{(day|weekday) (\d+)\}")
OWNER = "Mira Holm"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the agent did for an answer."""

    tools: tuple[tuple[str, str], ...] = ()
    workers: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    """The keys of what it was reminded of."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Some lines that were said one after the other in a thread, and what was learned from them."""

    at: datetime
    channel: str
    thread: str
    title: str = ""
    summary: str = ""
    lines: tuple[tuple[str, str], ...]
    learned: tuple[Mapping[str, Any], ...] = ()
    work: Work = field(default_factory=Work)
    with_agent: bool = False


def plan(seed: int, until: datetime, scale: int = 1) -> list[Scene]:
    """Return every scene of the month that ends at `until`, in order."""
    start = start_of(until)
    planned = [_scene(each, start) for each in _read("story.toml")["scene"]]
    drawn = _errands(random.Random(seed), start, scale)  # noqa: S311 - a story, not a secret
    return sorted((scene for scene in (*planned, *drawn) if scene.at < until), key=lambda scene: scene.at)


def load_cast() -> list[dict[str, Any]]:
    """Return whom and what the month is about."""
    return _read("cast.toml")["entity"]


def conclusions(until: datetime) -> list[tuple[datetime, str, dict[str, Any]]]:
    """Return what is concluded in the month: when, whether it is an `observation` or a `model`, and what."""
    start, story = start_of(until), _read("story.toml")
    return [
        (start + timedelta(days=each["day"]), kind, _fill_dates(each, start))
        for kind in ("observation", "model")
        for each in story[kind]
    ]


def start_of(until: datetime) -> datetime:
    """Return when a month begins that ends then."""
    return (until - timedelta(days=DAYS)).replace(hour=0, minute=0, second=0, microsecond=0)


def _scene(entry: Mapping[str, Any], start: datetime) -> Scene:
    dated: Any = _fill_dates(entry, start)
    work: Mapping[str, Any] = dated.get("work", {})
    return Scene(
        at=start + timedelta(days=entry["day"], hours=entry["hour"]),
        channel=entry["channel"],
        thread=entry["thread"],
        title=dated["title"],
        summary=dated["summary"],
        lines=_lines(dated["lines"]),
        learned=tuple(dated["learned"]),
        work=Work(
            tools=tuple((name, asked) for name, asked in work.get("tools", ())),
            workers=tuple(work.get("workers", ())),
            memories=tuple(work.get("memories", ())),
        ),
        with_agent=entry["channel"] == "cli",
    )


def _errands(draw: random.Random, start: datetime, scale: int) -> list[Scene]:
    """Small things of every day. Those with the agent are not multiplied without end."""
    kinds: list[dict[str, Any]] = _read("errands.toml")["errand"]
    others = [kind for kind in kinds if kind["channel"] != "cli"]
    scenes: list[Scene] = []
    for month in range(scale):
        chosen = kinds if month < _MOST_WORK else others
        weights = [kind["weight"] for kind in chosen]
        # The last day is the one on which the month ends, as far as it has come.
        for day in range(DAYS + 1):
            for kind in draw.choices(chosen, weights, k=ERRANDS_A_DAY):
                at = start + timedelta(days=day, seconds=draw.randrange(7 * 3600, 23 * 3600))
                scenes.append(_errand(kind, draw, at))
    return scenes


def _errand(kind: Mapping[str, Any], draw: random.Random, at: datetime) -> Scene:
    values = _draw_values(draw)
    learned: list[Mapping[str, Any]] = []
    # What is said every day is not worth a fact every day.
    if "fact" in kind and draw.random() < 0.7:
        fact = {"operation": "fact", "about": kind["about"], "type": kind["type"], "fact": kind["fact"]}
        learned = [{**{name: text.format(**values) for name, text in fact.items()}, "line": 0}]
    return Scene(
        at=at,
        channel=kind["channel"],
        thread=kind["thread"],
        lines=_lines([line.format(**values) for line in kind["lines"]]),
        learned=tuple(learned),
        work=Work(tools=tuple((name, asked.format(**values)) for name, asked in kind.get("tools", ()))),
        with_agent=kind["channel"] == "cli",
    )


def _draw_values(draw: random.Random) -> dict[str, Any]:
    slots: dict[str, list[str]] = _read("errands.toml")["slots"]
    values: dict[str, Any] = {name: draw.choice(texts) for name, texts in slots.items()}
    values["item2"] = draw.choice([each for each in slots["item"] if each != values["item"]])
    return values | {"n": draw.randint(2, 90), "m": draw.randint(8, 20)}


def _lines(lines: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((who, text) for who, _, text in (line.partition(": ") for line in lines))


def _fill_dates(value: Any, start: datetime) -> Any:
    """Return the same with every date written out."""
    if isinstance(value, str):
        return _DATE.sub(lambda found: _format_date(start, found[1], int(found[2])), value)
    if isinstance(value, list):
        return [_fill_dates(each, start) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {name: _fill_dates(each, start) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _format_date(start: datetime, form: str, day: int) -> str:
    moment = start + timedelta(days=day)
    return f"{moment:%A}" if form == "weekday" else f"{moment.day} {moment:%B}"


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))
