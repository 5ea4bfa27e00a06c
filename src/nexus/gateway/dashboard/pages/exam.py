"""The exams of the memory: the curve, what the last one found wrong, and the commands that correct it."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus import clock
from nexus.app import App
from nexus.gateway.dashboard.endpoint import get
from nexus.gateway.dashboard.render import page
from nexus.ledgers.memory import exams
from nexus.ledgers.memory.exams import PROBLEMS, Exam
from nexus.memory.views import names

_WIDTH: Final = 900
_HEIGHT: Final = 180
_LEFT: Final = 48
_EDGE: Final = 16
_MOST: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One exam on the curve."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """What share was found over time: one line for each sample and way of asking."""

    lines: tuple[tuple[Point, ...], ...]
    grid: tuple[tuple[float, str], ...]
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT


async def show_exam(request: Request, app: App) -> Response:
    """Show an exam, the last one unless another is named, and the curve of all."""
    history = await app.ledgers.memory.read(exams.list_exams, _MOST)
    wanted = request.query_params.get("id")
    exam = next((each for each in history if wanted in (None, each.id)), None)
    findings = await app.ledgers.memory.read(exams.load_findings, exam.id) if exam else []
    answers = await app.ledgers.memory.read(exams.load_answers, exam.id) if exam else []
    known = await names.load_entity_names(app.ledgers, [each.entity_id for each in answers])
    found = exams.summarize(answers, known)
    return await page(
        request,
        "exam.html",
        active="memory",
        exam=exam,
        history=history,
        findings={problem: [each for each in findings if each.problem == problem] for problem in PROBLEMS},
        count_problem=exams.count_problem,
        counted=found,
        curve=draw_curve(history[::-1]),
    )


def draw_curve(history: list[Exam]) -> Curve | None:
    """Draw exams from the oldest to the newest; None for fewer than two."""
    if len(history) < 2:
        return None
    low = min(each.share for each in history)
    bottom = max(0.0, int(low * 10 - 1) / 10)
    step = (_WIDTH - _LEFT - 2 * _EDGE) / (len(history) - 1)
    tall = _HEIGHT - 2 * _EDGE

    def place(share: float) -> float:
        return round(_EDGE + tall * (1 - (share - bottom) / (1 - bottom)), 1)

    lines: dict[tuple[str, str | None], list[Point]] = {}
    for number, each in enumerate(history):
        point = Point(
            x=round(_LEFT + _EDGE + number * step, 1),
            y=place(each.share),
            title=f"{clock.minute(each.created_at)}: {each.found} of {each.sampled}, "
            + ", ".join(f"{name} {value}" for name, value in each.settings.items()),
        )
        lines.setdefault((each.sample_id, each.questioner), []).append(point)
    grid = tuple((place(share), f"{share:.0%}") for share in (bottom, (1 + bottom) / 2, 1.0))
    return Curve(lines=tuple(map(tuple, lines.values())), grid=grid)


ROUTES = (get("/memory/exam", show_exam),)
