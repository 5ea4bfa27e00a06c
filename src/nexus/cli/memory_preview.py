"""What would have been: `--preview` of a change, and `nexus memory without` for one answer."""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import apsw
import click

from nexus.cli.display import show_progress
from nexus.cli.place import (
    json_option,
    open_answering_home,
    open_home,
    print_unicode_json,
    printable,
    with_ledgers,
)
from nexus.errors import MissingError, UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import find_fact
from nexus.ledgers.runtime import executions, injections, requests
from nexus.runs import Result, money
from nexus.text import pluralize

if TYPE_CHECKING:
    from nexus.config import Config
    from nexus.evaluation.preview import Change, Difference, Preview
    from nexus.home import Home

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN: Final = 6
_CUT: Final = 160
_ANSWERS: Final = "nexus.preview.answers"


def preview_option(command: F) -> F:
    """Add `--preview` and `--answers`."""
    text = "Show which prompts of the last 30 days would have been different. Changes nothing."
    command = click.option("--preview", is_flag=True, callback=_imply_preview, help=text)(command)
    return click.option(
        "--answers",
        type=click.IntRange(1, 20),
        metavar="N",
        expose_value=False,
        is_eager=True,
        callback=_keep_answers,
        help="Preview, and ask the model for N of these prompts before and after. Shows the cost first.",
    )(command)


def _keep_answers(ctx: click.Context, _: click.Parameter, value: int | None) -> None:
    ctx.meta[_ANSWERS] = value or 0


def _imply_preview(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    """Take `--answers` as a preview, too: it must not make the change."""
    return value or bool(ctx.meta.get(_ANSWERS))


def print_preview(ctx: click.Context, change: "Change", *, as_json: bool) -> None:
    """Preview a change in a private copy of the home, and print what it would have done."""
    # Imported here, because the libraries behind it take longer than `nexus memory --help` may.
    from nexus.evaluation import preview
    from nexus.ledgers import backup

    wanted = ctx.meta.get(_ANSWERS, 0)
    home, config = open_answering_home(ctx, "") if wanted else open_home(ctx)
    with _exit_on_terminate(), backup.private_copy(home) as copy, show_progress("Asking again") as progress:
        found = asyncio.run(preview.preview(copy, config, change, progress=progress))
    if not as_json:
        _print_preview(found, preview.choose_examples(found.differences, _SHOWN))
    same_history = [each for each in found.differences if not each.has_other_history]
    chosen = preview.choose_examples(same_history, wanted)
    answers = list[_Pair]()
    if chosen and _confirm(ctx, config, chosen):
        answers = asyncio.run(_ask(home, config, found, chosen, show=None if as_json else _print_pair))
    elif wanted and not chosen:
        click.echo(
            "Nothing to ask: no prompt would have had other memories after the same messages.", err=True
        )
    if as_json:
        asked = {"answers": [asdict(each) for each in answers]} if wanted else {}
        print_unicode_json(found.to_json() | asked)


@click.command(name="preview", short_help="Show which prompts another embedding model would change.")
@click.option(
    "--embedding-model", metavar="NAME", required=True, help="Embedding model; see `nexus models list`."
)
@json_option
@click.pass_context
def preview_settings(ctx: click.Context, embedding_model: str, as_json: bool) -> None:
    """Show which prompts another embedding model would have made different.

    Everything is embedded again in a private copy of the home, which takes minutes in a large one. The
    settings stay as they are. Which memories a fast model would choose (`[memory] injection = "model"`) can't
    be told without asking it.
    """
    from nexus.evaluation import preview
    from nexus.memory.embedding import find_installed

    _, config = open_home(ctx)
    memory = replace(config.memory, embedding_model=embedding_model, embedding_model_path="")
    find_installed(memory)
    changed = replace(config, memory=memory)
    print_preview(ctx, preview.change_settings(changed), as_json=as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pair:
    """What a model answers to a prompt as it was, and as it would have been."""

    request_id: str
    before: str
    after: str
    cost_microusd: int


def _confirm(ctx: click.Context, config: "Config", chosen: "Sequence[Difference]") -> bool:
    """Show what the answers would cost, and ask."""
    from nexus.broker.agent.roles import models_of
    from nexus.evaluation import preview

    model = models_of(config.models, "manager")[0]
    found = with_ledgers(ctx, preview.estimate_answers, config, model, chosen)
    cost = found.cost_microusd
    price = "at an unknown price" if cost is None else f"about {money(cost)}" if cost else "free"
    click.echo(
        f"\n{pluralize(found.calls, 'call')} of {model}, about {found.tokens:,} tokens, {price}, charged to "
        "the messages. An experiment: tools are off, and nothing is remembered.",
        err=True,
    )
    return bool(ctx.params.get("yes")) or click.confirm("Ask?", err=True)


async def _ask(
    home: "Home",
    config: "Config",
    found: "Preview",
    chosen: "Sequence[Difference]",
    show: "Callable[[Difference, _Pair], None] | None",
) -> list[_Pair]:
    """Ask for each prompt as it was, and as it would have been."""
    from nexus.cli.talk import open_talk

    pairs: list[_Pair] = []
    async with open_talk(home, config, "") as talk:
        for each in chosen:
            before = await talk.experiment(
                each.execution_id, memories="\n".join(each.before), profile=found.profile_before
            )
            one = await before.result()
            after = await talk.experiment(
                each.execution_id, memories="\n".join(each.after), profile=found.profile_after
            )
            other = await after.result()
            pairs.append(
                _Pair(
                    request_id=each.request_id,
                    before=one.response.content,
                    after=other.response.content,
                    cost_microusd=one.usage.cost_microusd + other.usage.cost_microusd,
                )
            )
            if show is not None:
                show(each, pairs[-1])
    return pairs


def _print_pair(asked: "Difference", pair: _Pair) -> None:
    click.echo(f"\n“{_cut(asked.text)}”")
    for name, text in (("Now", pair.before), ("With the change", pair.after)):
        click.secho(f"{name}:", bold=True)
        click.echo(printable(text))


@contextmanager
def _exit_on_terminate() -> Generator[None]:
    """Exit on SIGTERM as on Ctrl-C, so that the copy is deleted."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_preview(found: "Preview", examples: "list[Difference]") -> None:
    click.secho(found.summary, bold=bool(found.differences))
    if found.forgotten:
        click.echo(f"{found.forgotten:,} of them would be deleted.")
    if found.profile_before != found.profile_after:
        click.echo("The owner profile, part of each of your prompts, would change:")
        before, after = found.profile_before.splitlines(), found.profile_after.splitlines()
        _print_lines([line for line in before if line not in after], "-", "red")
        _print_lines([line for line in after if line not in before], "+", "green")
    for each in examples:
        click.echo()
        said = click.style(f"{each.at[:16].replace('T', ' ')}", dim=True)
        click.echo(f"{said}  {_cut(each.text)}")
        _print_lines(each.removed, "-", "red")
        _print_lines(each.added, "+", "green")
        if each.kept:
            same = "1 memory" if len(each.kept) == 1 else f"{len(each.kept)} memories"
            click.secho(f"    and {same} as before", dim=True)
        if each.has_other_history:
            click.secho("    Messages before it would be different or missing.", dim=True)
    if len(found.differences) > len(examples):
        click.echo(f"\nand {len(found.differences) - len(examples):,} more: pass --json")
    click.echo("Nothing was changed.")


def _print_lines(lines: Sequence[str], mark: str, color: str) -> None:
    for line in lines:
        click.secho(f"  {mark} {_cut(line.removeprefix('- '))}", fg=color)


def _cut(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _CUT else f"{line[: _CUT - 1]}…"


@click.command()
@click.argument("memory_id", metavar="[ID]", required=False)
@click.option(
    "--request", "request_id", metavar="ID", help="The message to ask again. Default: the last with it."
)
@json_option
@click.pass_context
def without(ctx: click.Context, memory_id: str | None, request_id: str | None, as_json: bool) -> None:
    """Show what an answer would have been without a memory.

    Asks the model once more, with the same message and conversation but without the memory ID. With --request
    and no ID, without all memories that the message was given.

    It is an experiment: tools are off, and the new answer is neither part of the conversation nor remembered.
    Its cost is the message's.
    """
    home, settings = open_answering_home(ctx, "")
    answer = with_ledgers(ctx, _find_answer, memory_id, request_id)
    # Imported here, because the libraries behind it take longer than `nexus memory --help` may.
    from nexus.cli.screen import Screen, cost_line
    from nexus.cli.talk import open_talk

    async def ask() -> Result:
        async with open_talk(home, settings, "") as talk:
            run = await talk.experiment(answer.execution_id, without=answer.memory_ids)
            if as_json:
                return await run.result()
            click.secho("Without it:" if memory_id else "Without them:", bold=True, err=True)
            screen = Screen()
            result = await screen.follow(run)
            screen.note(cost_line(result.usage))
            return result

    if not as_json:
        click.secho(printable(f"“{_cut(answer.asked)}”"), italic=True, err=True)
        click.secho("Recorded answer:", bold=True, err=True)
        click.echo(f"{printable(answer.text)}\n", err=True)
    result = asyncio.run(ask())
    if as_json:
        left_out = {"without": answer.memory_ids, "recorded": answer.text}
        print_unicode_json(
            {
                "content": result.response.content,
                "model": result.response.model,
                **left_out,
                "request_id": answer.request_id,
                "execution_id": result.execution_id,
                "usage": asdict(result.usage),
            }
        )
    else:
        click.secho("An experiment: not part of the conversation, and not remembered.", dim=True, err=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """A recorded answer, and memories that its prompt had."""

    execution_id: str
    request_id: str
    memory_ids: list[str]
    asked: str
    text: str


async def _find_answer(ledgers: Ledgers, memory_id: str | None, request_id: str | None) -> _Answer:
    if memory_id is None and request_id is None:
        raise UsageError("No memory given", hint="Pass its id, or --request with the id of a message.")
    if memory_id and (memory_id.startswith("fact_") or "_" not in memory_id):
        memory_id = await ledgers.memory.read(find_fact, memory_id)

    def find(connection: apsw.Connection) -> "tuple[str, list[str], list[executions.Execution]]":
        if request_id is not None:
            given = [each for each in injections.of_root(connection, request_id) if each.injected]
        else:
            given = injections.of_item(connection, memory_id or "", limit=1)
        own = [
            each
            for each in given
            if memory_id in (None, each.item_id) and each.request_id in (request_id, each.root_request_id)
        ]
        if not own:
            raise MissingError(
                "No message was given this memory" if memory_id else "The message was given no memories",
                hint="`nexus trace` lists messages; `nexus trace ID` shows their memories.",
            )
        asked = requests.get(connection, own[0].request_id)
        label = asked.session_label if asked else None
        runs = executions.of_request(connection, own[0].request_id, label) if label else []
        return own[0].request_id, [each.item_id for each in own], runs

    found, memory_ids, runs = await ledgers.runtime.read(find)
    request = await requests.restore(ledgers, found)
    answered = next((each for each in reversed(runs) if each.result), None)
    if request is None or answered is None:
        raise MissingError(f"{found} has no answer", hint="Choose another message with --request.")
    return _Answer(
        execution_id=answered.id,
        request_id=found,
        memory_ids=memory_ids,
        asked=request.event.content,
        text=answered.result["response"]["content"],
    )
