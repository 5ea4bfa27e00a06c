"""`nexus memory exam`: ask the memory about itself, and show what it can't find and what is wrong."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from nexus import clock
from nexus.cli.display import print_table, show_progress
from nexus.cli.place import json_option, open_home, print_unicode_json, printable, with_ledgers
from nexus.errors import ModelFileError
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import exams, shorten_id
from nexus.ledgers.memory.exams import PROBLEMS, Exam, Finding
from nexus.runs import money
from nexus.text import join_lines, pluralize

if TYPE_CHECKING:
    from nexus.config import Config
    from nexus.evaluation.exam import Drawn, Result
    from nexus.home import Home
    from nexus.memory.embedding import Vectors

_SHOWN: Final = 10
_AGES: Final = {"month": "last 30 days", "year": "last year", "older": "older"}


@click.command()
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Draw a new sample of N facts.")
@click.option("--new-sample", is_flag=True, help="Draw a new sample of 300 facts.")
@click.option(
    "--model", metavar="PROVIDER/MODEL", help="Let a model word the questions. Shows the cost first."
)
@click.option("--yes", is_flag=True, help="Skip the confirmation of the model's cost.")
@click.option(
    "--min", "least", type=click.FloatRange(0, 100), metavar="PERCENT", help="Fail if less is found."
)
@click.option("--all", "show_all", is_flag=True, help="Show all findings, not only the first ten of a kind.")
@click.option("--history", is_flag=True, help="List earlier exams. Asks nothing.")
@json_option
@click.pass_context
def exam(ctx: click.Context, *, history: bool, least: float | None, as_json: bool, **options: Any) -> None:
    """Test whether the memory finds what it holds.

    Draws a sample of 300 facts by age, kind and person, asks for each in several ways, and looks for facts
    that contradict each other, have lost their source, or are filed wrongly. Each finding has a command that
    corrects it. Later exams ask for the same sample, so that you see what a change did.

    Exits with 1 if less is found than in the last exam of the sample or than --min, or if more facts
    contradict each other or have no source. No model is asked without --model; nothing leaves this machine.
    """
    if history:
        _print_history(with_ledgers(ctx, _load_history), as_json=as_json)
        return
    home, settings = open_home(ctx)
    result, names, notes = asyncio.run(_examine(home, settings, as_json=as_json, **_asking(options)))
    for note in notes:
        click.echo(note, err=True)
    if as_json:
        print_unicode_json(_to_json(result, names))
    else:
        _print_result(result, names, shown=None if options["show_all"] else _SHOWN)
    is_low = least is not None and 100 * result.exam.share < least
    if is_low and not as_json:
        click.echo(f"Less than {least:g} % is found.", err=True)
    if is_low or result.is_worse:
        ctx.exit(1)


def _asking(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "size": options["sample"],
        "is_new": options["new_sample"],
        "model": options["model"],
        "yes": options["yes"],
    }


async def _load_history(ledgers: Ledgers) -> list[Exam]:
    return await ledgers.memory.read(exams.list_exams)


async def _examine(
    home: "Home",
    config: "Config",
    *,
    size: int | None,
    is_new: bool,
    model: str | None,
    yes: bool,
    as_json: bool,
) -> "tuple[Result, dict[str, str], list[str]]":
    # Imported here, because the libraries behind it take longer than `nexus memory --help` may.
    from nexus.cli.recall import open_current_vectors
    from nexus.evaluation.exam import draw, examine
    from nexus.memory.recall.recall import Recall
    from nexus.memory.recall.reranker import installed_reranker
    from nexus.memory.views.names import load_entity_names

    notes: list[str] = []
    async with Ledgers(home, config.ledgers) as ledgers:
        vectors: Vectors | None = None
        try:
            vectors = await open_current_vectors(ledgers, config.memory)
        except ModelFileError as error:
            notes.append(
                f"Searching by words only, and not looking for contradictions: {error.message}. {error.hint}"
            )
        drawn = await draw(ledgers, size=size, is_new=is_new)
        questions: Mapping[str, Sequence[str]] = {}
        cost = 0
        if model:
            questions, cost = await _word_questions(ledgers, config, drawn, model, yes=yes)
        # Asked as it is asked elsewhere.
        reranker = await asyncio.to_thread(installed_reranker)
        recall = Recall(ledgers, vectors, reranker=reranker)
        with show_progress("Asking the memory") as progress:
            result = await examine(
                ledgers,
                recall,
                vectors,
                drawn,
                settings={
                    "embedding": vectors.embedder.model_id if vectors else "none",
                    "reranker": "on" if reranker else "none",
                },
                questioner=model,
                questions=questions,
                cost_microusd=cost,
                progress=None if as_json else progress,
            )
        names = await load_entity_names(ledgers, [each.entity_id for each in result.answers])
        return result, names, notes


async def _word_questions(
    ledgers: Ledgers, config: "Config", drawn: "Drawn", model: str, *, yes: bool
) -> tuple[Mapping[str, Sequence[str]], int]:
    """Load the questions that a model wrote; it writes the missing ones once the cost is confirmed."""
    from nexus import clock
    from nexus.broker.agent.knowledge import Knowledge
    from nexus.broker.agent.models import Models
    from nexus.broker.budgets import Budgets
    from nexus.evaluation.exam_questions import Wordings, batch_facts, estimate

    ids = [fact.id for fact in drawn.facts]
    known = await ledgers.memory.read(exams.load_wordings, model, ids)
    missing = [fact for fact in drawn.facts if fact.id not in known]
    if not missing:
        return known, 0
    owner = (
        next((fact.subject for fact in drawn.facts if fact.is_owner and fact.subject), None) or "the owner"
    )
    async with AsyncExitStack() as stack:
        models = await stack.enter_async_context(Models(config, knowledge=Knowledge(ledgers.runtime)))
        expected = await estimate(models, model, missing, owner)
        cost = (
            "unknown: no price for this model"
            if expected.cost_microusd is None
            else money(expected.cost_microusd)
        )
        click.echo(
            f"Wording questions about {pluralize(expected.facts, 'fact')} with {model}: "
            f"{pluralize(expected.calls, 'call')}, about {expected.input_tokens:,} tokens in and "
            f"{expected.output_tokens:,} out, cost {cost}. They are kept, and paid for once.",
            err=True,
        )
        if not yes:
            if not sys.stdin.isatty():
                click.echo("Nothing asked: no terminal to confirm. Pass --yes to skip the prompt.", err=True)
                sys.exit(1)
            click.confirm("Ask the model?", abort=True, err=True)
        writer = Wordings(models=models, model=model, account=Budgets(ledgers, config.budgets), owner=owner)
        with show_progress("Wording questions") as progress:
            for number, batch in enumerate(batch_facts(missing), start=1):
                written = await writer.write(batch)
                now = clock.timestamp(clock.now())
                await ledgers.memory.write(exams.add_wordings, model, written, now)
                known |= written
                progress(number, expected.calls)
    return known, writer.spent.cost_microusd


def _to_json(result: "Result", names: Mapping[str, str]) -> dict[str, Any]:
    counted = exams.summarize(result.answers, names)
    return {
        **asdict(result.exam),
        "share": round(result.exam.share, 4),
        "previous": None
        if result.previous is None
        else {"id": result.previous.id, "found": result.previously_found},
        "is_worse": result.is_worse,
        "by": {
            what: {value: {"found": found, "asked": asked} for value, (found, asked) in some.items()}
            for what, some in counted.items()
        },
        "findings": [asdict(each) for each in result.findings],
    }


def _print_result(result: "Result", names: Mapping[str, str], *, shown: int | None) -> None:
    exam = result.exam
    if not exam.sampled:
        click.echo("Nothing to ask about: the memory holds no facts yet.")
        return
    click.echo(exam.summary)
    if exam.questioner:
        click.echo(f"Questions by {exam.questioner}.")
    if result.previous is not None:
        change, day = exam.found - result.previously_found, result.previous.created_at[:10]
        click.echo(f"On {day}, I found {result.previously_found:,} of the same ({change:+,} since).")
    for what, some in exams.summarize(result.answers, names).items():
        parts = [
            f"{_AGES.get(value, value) or 'no one'} {found}/{asked}"
            for value, (found, asked) in list(some.items())[:6]
        ]
        click.echo(f"  by {what:<7} {printable(', '.join(parts))}")
    for problem in PROBLEMS:
        found = [each for each in result.findings if each.problem == problem]
        if not found:
            continue
        click.echo()
        click.secho(f"{exams.count_problem(problem, len(found))}:", bold=True)
        for each in found[:shown]:
            _print_finding(each)
        if shown is not None and len(found) > shown:
            click.echo(f"  and {len(found) - shown} more: pass --all")


def _print_finding(finding: Finding) -> None:
    text = printable(join_lines(finding.fact))
    click.echo(f"  {shorten_id(finding.fact_id)}  {text[:160]}")
    click.secho(f"          {printable(finding.detail)}", dim=True)
    for fix in finding.fixes:
        click.echo(f"          {fix.does}: {click.style(printable(fix.command), fg='cyan')}")


def _print_history(found: list[Exam], *, as_json: bool) -> None:
    if as_json:
        print_unicode_json([{**asdict(each), "share": round(each.share, 4)} for each in found])
        return
    if not found:
        click.echo("No exam yet. Run `nexus memory exam`.")
        return
    samples = {id_: number for number, id_ in enumerate(dict.fromkeys(e.sample_id for e in found[::-1]), 1)}
    print_table(
        ("when", "sample#", "asked#", "found#", "share#", "wrong#", "questions", "settings"),
        [
            (
                clock.minute(each.created_at),
                samples[each.sample_id],
                each.sampled,
                each.found,
                f"{each.share:.0%}",
                sum(each.problems.values()),
                each.questioner or "the ledger's words",
                ", ".join(f"{name} {value}" for name, value in each.settings.items()),
            )
            for each in found
        ],
    )
