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
from nexus.cli.display import print_table
from nexus.cli.place import locate_home
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

    FOLDER is a life, or a published benchmark's file. Sessions are played at their recorded time
    with recorded answers; the memory writer and consolidation use MODEL. Then each question is asked in a new
    session. To resume an interrupted run, repeat the command with the same --out.
    """
    lives = _choose_lives(paths, options["lives"], options["only"])
    _evaluate(ctx, lives, options, as_json=as_json)


def _evaluate(
    ctx: click.Context, lives: "list[tuple[Path, Life]]", options: dict[str, Any], *, as_json: bool
) -> None:
    # Imported here, because the libraries behind it take longer than `nexus eval --help` may.
    from nexus.evaluation import report
    from nexus.evaluation.runs import Plan, begin

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


@evaluate.command()
@click.argument("benchmark", metavar="BENCHMARK")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--model", default="", metavar="PROVIDER/MODEL", help="Also answer with this model.")
@click.option("--judge", default="", metavar="PROVIDER/MODEL", help="Also score the answers with this model.")
@click.option("--limit", type=click.IntRange(0), help="Ask at most this many questions of each conversation.")
@click.option("--lives", type=click.IntRange(1), help="Use only the first conversations.")
@click.option("--only", multiple=True, metavar="NAME", help="Use only this conversation. Repeatable.")
@click.option(
    "--budget", type=click.Choice(("low", "mid", "high")), default="high", show_default=True, hidden=True
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Conversations to answer in parallel.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Output folder. Default: eval-BENCHMARK.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.pass_context
def benchmark(ctx: click.Context, benchmark: str, file: Path, *, as_json: bool, **options: Any) -> None:
    """Run a public benchmark: longmemeval, locomo, beam, personamem.

    FILE is the benchmark's own file, or BEAM's folder of chats; Nexus includes none of their data. Without
    --model only retrieval is scored: which messages and sessions recall finds. With it, the conversations are
    also played and the questions answered, as in `nexus eval memory`. Everything found and answered is kept.
    """
    from nexus.evaluation import benchmarks, retrieval

    if benchmark not in benchmarks.NAMES:
        known = ", ".join(benchmarks.NAMES)
        raise UsageError(f"Unknown benchmark {benchmark}", hint=f"Known: {known}.")
    chosen = _choose_lives([file], options["lives"], options["only"], benchmark)
    out: Path = options["out"] or Path(f"eval-{benchmark}")
    out.mkdir(parents=True, exist_ok=True)
    lives = [life.shorten(None, options["limit"]) for _, life in chosen]
    asked = asyncio.run(
        retrieval.ask_all(lives, out, budget=options["budget"], told=partial(click.echo, err=True))
    )
    if asked:
        summary = retrieval.summarize(asked)
        (out / "retrieval.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
        if as_json and not options["model"]:
            click.echo(json.dumps(summary, indent=1))
        elif not as_json:
            print_table(retrieval.COLUMNS, retrieval.table(summary))
            click.echo(f"\n{retrieval.LEGEND}\nDetails: {out / 'retrieval.jsonl'}")
    elif not options["model"]:
        raise UsageError(
            f"{file} doesn't say which messages answer its questions, so retrieval can't be scored",
            hint="Pass --model to score answers.",
        )
    if options["model"]:
        _evaluate(ctx, chosen, {**options, "sessions": None, "out": out}, as_json=as_json)


def _choose_lives(
    paths: Sequence[Path], most: int | None, only: Sequence[str], benchmark: str = ""
) -> "list[tuple[Path, Life]]":
    from nexus.evaluation import benchmarks

    found = [(path, life) for path in paths for life in benchmarks.read(path, benchmark)]
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
