"""`nexus eval`: measure on recorded conversations how well a model writes and uses the memory."""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nexus import config
from nexus.cli.place import locate_home
from nexus.cli.tables import print_table
from nexus.errors import UsageError
from nexus.text import pluralize

if TYPE_CHECKING:
    from nexus.evaluation.life import Life
    from nexus.evaluation.runs import Plan

_POLL_S = 0.2
_PATHS = click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER..."
)


@click.group("eval")
def evaluate() -> None:
    """Evaluate a model on recorded conversations."""


@evaluate.command()
@_PATHS
def check(paths: tuple[Path, ...]) -> None:
    """Validate lives and count their contents."""
    from nexus.evaluation import life as lives

    failed = False
    for path in paths:
        life = lives.read(path)
        for problem in lives.problems(life):
            failed = True
            click.echo(f"{life.name}: {problem}", err=True)
        stated = sum(len(row["must"]) + len(row["must_not"]) for row in life.writer)
        held = {
            "session": len(life.sessions),
            "message": len(life.messages),
            "fact": len(life.facts),
            "question": len(life.questions),
            "statement": stated,
        }
        counts = ", ".join(pluralize(count, what) for what, count in held.items())
        click.echo(f"{life.name}: {counts} for the writer")
    if failed:
        raise UsageError("Some lives are not valid", hint="Correct the lines above.")


@evaluate.command()
@_PATHS
@click.option("--model", required=True, metavar="PROVIDER/MODEL", help="The model to evaluate.")
@click.option("--judge", default="", metavar="PROVIDER/MODEL", help="Also score with this model as judge.")
@click.option("--sessions", type=click.IntRange(1), help="Play only the first sessions of each life.")
@click.option("--limit", type=click.IntRange(0), help="Ask at most this many questions of each life.")
@click.option("--lives", type=click.IntRange(1), help="Evaluate only the first lives.")
@click.option("--only", multiple=True, metavar="NAME", help="Evaluate only this life. Repeatable.")
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Lives to evaluate in parallel."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Output folder. Default: eval-MODEL.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.pass_context
def memory(ctx: click.Context, paths: tuple[Path, ...], *, as_json: bool, **options: Any) -> None:
    """Replay recorded conversations and score the memory.

    FOLDER is a life, or a published LoCoMo or LongMemEval file. Sessions are played at their recorded time
    with recorded answers; the memory writer and consolidation use MODEL. Then each question is asked in a new
    session. To resume an interrupted run, repeat the command with the same --out.
    """
    # Imported here, because the libraries behind it take longer than `nexus eval --help` may.
    from nexus.evaluation import report
    from nexus.evaluation.runs import Plan, begin

    lives = _choose_lives(paths, options["lives"], options["only"])
    plan = Plan(
        model=options["model"],
        judge=options["judge"],
        sessions=options["sessions"],
        questions=options["limit"],
    )
    out: Path = options["out"] or Path(f"eval-{re.sub(r'[^A-Za-z0-9.-]+', '-', plan.model)}")
    run = begin(out, plan)
    settings = config.load(locate_home(ctx).config_file)
    jobs = min(options["jobs"], len(lives))
    done = (
        _evaluate_in_parallel(ctx, lives, plan, out, jobs)
        if jobs > 1
        else _evaluate_in_order(lives, plan, out, settings)
    )
    found = report.results(run, done)
    (out / "results.json").write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
    (out / "results.md").write_text(report.markdown(found), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    print_table(report.COLUMNS, report.table(found))
    click.echo(f"\n{report.LEGEND}\nDetails: {out / 'results.json'}")


def _choose_lives(paths: Sequence[Path], most: int | None, only: Sequence[str]) -> "list[tuple[Path, Life]]":
    from nexus.evaluation import benchmarks

    found = [(path, life) for path in paths for life in benchmarks.read(path)]
    chosen = [(path, life) for path, life in found if not only or life.name in only][:most]
    names = [life.name for _, life in chosen]
    if not chosen:
        raise UsageError(f"Unknown life {', '.join(only)}", hint="Leave out --only to use all.")
    if len(set(names)) < len(names):
        raise UsageError("Two lives have the same name", hint="Evaluate them with different --out folders.")
    return chosen


def _evaluate_in_order(
    lives: "Sequence[tuple[Path, Life]]", plan: "Plan", out: Path, settings: config.Config
) -> list[dict[str, Any]]:
    from nexus.evaluation.runs import LifeRun

    done: list[dict[str, Any]] = []
    for _, life in lives:
        shortened = life.shorten(plan.sessions, plan.questions)
        run = LifeRun(
            life=shortened,
            folder=out / life.name,
            config=settings,
            plan=plan,
            told=partial(click.echo, err=True),
        )
        done.append(asyncio.run(run.run()))
    return done


def _evaluate_in_parallel(
    ctx: click.Context, lives: "Sequence[tuple[Path, Life]]", plan: "Plan", out: Path, jobs: int
) -> list[dict[str, Any]]:
    """One process for each life: the engine and the clock of a replay belong to a process."""
    waiting = list(lives)
    running: list[subprocess.Popen[bytes]] = []
    failed = False
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                path, life = waiting.pop(0)
                command = _life_command(ctx, path, life.name, plan, out)
                running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))  # noqa: S603 - an argument list, no shell
            time.sleep(_POLL_S)
            failed |= any(process.poll() for process in running)
            running = [process for process in running if process.poll() is None]
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
    if failed:
        raise UsageError("Some lives could not be evaluated", hint="Repeat the command to continue.")
    files = (out / life.name / "result.json" for _, life in lives)
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _life_command(ctx: click.Context, path: Path, name: str, plan: "Plan", out: Path) -> list[str]:
    home = ["--home", str(locate_home(ctx).root)]
    limits = [("--judge", plan.judge), ("--sessions", plan.sessions), ("--limit", plan.questions)]
    given = [text for option, value in limits if value or value == 0 for text in (option, str(value))]
    start = [sys.executable, "-m", "nexus", *home, "eval", "memory", str(path), "--only", name]
    return [*start, "--model", plan.model, "--out", str(out), *given]
