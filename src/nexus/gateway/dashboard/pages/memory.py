"""The memory: recall with its reasons, episodes, conclusions, exams, the owner's profile, single messages."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from nexus import clock
from nexus.app import App
from nexus.gateway.dashboard import render
from nexus.gateway.dashboard.render import Show, get, is_part, page, post, read_form, read_period, redirect
from nexus.ledgers.memory import exams
from nexus.ledgers.memory.exams import PROBLEMS, Exam
from nexus.memory.profile import MAX_TOKENS, OwnerProfile, versions
from nexus.memory.recall.item import PATIENT_MS, Budget, Query, kinds
from nexus.memory.views import conclusions, episodes, events, names
from nexus.memory.views.conclusions import Kind

BUDGETS: Final[tuple[Budget, ...]] = ("low", "mid", "high")
SCOPES: Final = ("events", "facts", "observations", "mental_models", "episodes", "entities")
_RESULTS: Final = 15


async def recall(request: Request, app: App) -> Response:
    """The recall playground: a question, what is found, and why."""
    query = request.query_params
    text, scope = query.get("q", "").strip(), query.get("scope", "")
    answer = None
    if text:
        asked = Query(
            text=text,
            kinds=kinds(scope),
            entity_id=query.get("entity") or None,
            budget=_choose_budget(query.get("budget")),
            max_results=_RESULTS,
            deadline_ms=PATIENT_MS,
        )
        answer = await (await app.open_recall()).find(asked)
    template = "part_recall.html" if is_part(request) else "recall.html"
    return await page(
        request,
        template,
        active="memory",
        answer=answer,
        asked=text,
        budgets=BUDGETS,
        scopes=SCOPES,
        largest=_find_largest_factor(answer),
    )


async def list_episodes(request: Request, app: App) -> Response:
    """List stretches of conversation, the latest first."""
    cursor = request.query_params.get("cursor")
    found = await episodes.load_page(app.ledgers, period=read_period(request), cursor=cursor)
    if is_part(request) and cursor:
        return await page(request, "part_episodes.html", found=found)
    return await page(request, "episodes.html", active="memory", found=found)


async def show_episode(request: Request, app: App) -> Response:
    """Show one episode."""
    view = await episodes.get(app.ledgers, request.path_params["id"])
    return await page(
        request, "episode.html", active="memory", view=view, shown=render.fit_beginning(view.said)
    )


def _list_conclusions(kind: Kind) -> Show:
    async def show(request: Request, app: App) -> Response:
        query = request.query_params
        found = await conclusions.load_page(
            app.ledgers,
            kind,
            stale=bool(query.get("stale")),
            period=read_period(request),
            cursor=query.get("cursor"),
        )
        if is_part(request) and query.get("cursor"):
            return await page(request, "part_conclusions.html", found=found, kind=kind)
        return await page(request, "conclusions.html", active="memory", found=found, kind=kind)

    return show


def _show_conclusion(kind: Kind) -> Show:
    async def show(request: Request, app: App) -> Response:
        view = await conclusions.get(app.ledgers, kind, request.path_params["id"])
        return await page(request, "conclusion.html", active="memory", view=view, kind=kind)

    return show


async def show_profile(request: Request, app: App) -> Response:
    """Show the owner's profile, and what each line rests on."""
    version = await versions.newest(app.ledgers) or await OwnerProfile(app.ledgers).refresh()
    cited = await versions.citations(app.ledgers, version.id) if version else []
    lines = [
        (text, [each for each in cited if each.line == number])
        for number, text in enumerate((version.content if version else "").splitlines(), start=1)
    ]
    return await page(
        request,
        "profile.html",
        active="memory",
        profile=version,
        lines=lines,
        versions=await versions.list_versions(app.ledgers),
        max_tokens=MAX_TOKENS,
    )


async def write_profile(request: Request, app: App) -> Response:
    """Save the owner's edit."""
    await OwnerProfile(app.ledgers).write((await read_form(request)).raw("content"))
    return redirect("/memory/profile")


async def reset_profile(request: Request, app: App) -> Response:
    """Drop the owner's edit."""
    await OwnerProfile(app.ledgers).reset()
    return redirect("/memory/profile")


async def show_event(request: Request, app: App) -> Response:
    """Show a message with what was said around it."""
    view = await events.get(app.ledgers, request.path_params["id"])
    part = render.cut_part(view.event.content, render.read_position(request))
    if is_part(request):
        return await page(request, "part_whole.html", part=part)
    return await page(request, "event.html", active="memory", view=view, part=part)


def _choose_budget(text: str | None) -> Budget:
    found: list[Budget] = [each for each in BUDGETS if each == text]
    return found[0] if found else "mid"


def _find_largest_factor(answer: object) -> float:
    """Find the largest part of any score, against which the bars of all are drawn."""
    results = getattr(answer, "results", ())
    parts = [abs(value) for result in results for value in result.reasons.factors.values()]
    return max(parts, default=1.0) or 1.0


_WIDTH: Final = 900
_HEIGHT: Final = 180
_LEFT: Final = 48
_EDGE: Final = 16
_MOST_EXAMS: Final = 100


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
    history = await app.ledgers.memory.read(exams.list_exams, _MOST_EXAMS)
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


ROUTES = (
    get("/memory", recall),
    get("/memory/episodes", list_episodes),
    get("/memory/episodes/{id}", show_episode),
    get("/memory/observations", _list_conclusions("observation")),
    get("/memory/observations/{id}", _show_conclusion("observation")),
    get("/memory/models", _list_conclusions("mental_model")),
    get("/memory/models/{id}", _show_conclusion("mental_model")),
    get("/memory/profile", show_profile),
    post("/memory/profile", write_profile),
    post("/memory/profile/reset", reset_profile),
    get("/events/{id}", show_event),
    get("/memory/exam", show_exam),
)
