"""Compaction: before a run, the older part of a long conversation becomes a summary, which is a turn too.

The conversation's own model is asked, with the conversation as its cached prefix. Nothing is removed from
the ledger, and what a model no longer sees is always stood in for: by the questions, where it cannot be
summed up. A failure that may pass fails the run, and the next one tries again.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from nexus.broker.agent.models import Models
from nexus.broker.agent.records import Journal, Message
from nexus.broker.queue import ActiveRun
from nexus.broker.streams import Stream, Streams
from nexus.config import Config
from nexus.context import AssembledContext, compaction, history
from nexus.errors import AgentError, ModelRefusedError
from nexus.ledgers.agents import sessions, turns
from nexus.ledgers.agents.history import Turn as PastTurn
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.runtime import usage
from nexus.request import Request

if TYPE_CHECKING:
    from nexus.broker.agent import loop

MakeJob = Callable[[str, Sequence[PastTurn], OpenTurn, Stream], "loop.Job"]
"""The job of asking this conversation's model something, without tools that do anything."""

# Where neither the settings nor the model's window say less: a longer one is dear, and read less well.
_CONTEXT_TOKENS = 150_000
SHORT_OUTPUT_TOKENS = 4_096
"""How long an answer may be where nobody reads it, as of the memory's own work."""
# What fails as often is not taken to pass: the session would be stuck.
_TRIES = 5


async def budget_tokens(
    config: Config, models: Models, name: str, output_tokens: int = SHORT_OUTPUT_TOKENS
) -> int:
    """How long a conversation with a model may get: as the settings say, and as its window allows."""
    most = config.agents.context_tokens or _CONTEXT_TOKENS
    return min(most, await models.prompt_tokens(name, output_tokens) or most)


async def compact(
    run: ActiveRun,
    request: Request,
    context: AssembledContext,
    streams: Streams,
    make: MakeJob,
    *,
    budget_tokens: int,
    fixed_tokens: int,
) -> None:
    """Sum up the older part of a session if the next call of the model would be too long.

    `fixed_tokens` is what the system prompt and the tools take of every call.
    It covers what the run's principal may know, and stands in for that in runs with the same rights only.
    """
    if context.fork_of is not None:
        # A new fork has a past before it has a turn.
        await run.ledgers.agents.write(
            sessions.ensure,
            label=context.session_label,
            role=context.role,
            fork_of=context.fork_of,
            fork_through=context.fork_through,
        )
    begun = await run.ledgers.agents.read_now(turns.of_run, execution_id=run.execution.id)
    through = begun.get("summary")
    if through is None and "exchange" not in begun:
        # Once its own turn has begun, an earlier attempt found that the conversation fits.
        through = await _through(run, request, context, budget_tokens, fixed_tokens)
    if through is None:
        return
    opened = await run.ledgers.agents.write(
        turns.begin_summary,
        session_label=context.session_label,
        execution_id=run.execution.id,
        request_id=run.execution.request_id,
        role=context.role,
        summarises_through=through,
    )
    from nexus.broker.agent import loop

    past = await history.load(run.ledgers, request, context.session_label, opened)
    # Nobody reads along: subscribers of the run wait for its answer.
    name = f"{run.execution.id}.summary"
    with closing(streams.open(name)) as stream:
        # Its own name, because the agent library knows a run by it.
        job = make(compaction.TASK, past.up_to(through).blocks, opened, stream)
        most = min(job.limits.output_tokens, int((budget_tokens - fixed_tokens) * compaction.SUMMARY_SHARE))
        job = replace(job, execution_id=name, limits=replace(job.limits, output_tokens=max(1, most)))
        try:
            await loop.run(job)
        except AgentError as error:
            # Once the run's own turn has begun, an earlier attempt has ended the summary. It is replayed all
            # the same, because the steps of that turn are numbered after its failed one.
            if "exchange" not in begun:
                if not await _is_final(run, opened, error):
                    streams.remove(name)
                    await run.ledgers.agents.write(
                        turns.end, turn_id=opened.id, status="failed", error=str(error)
                    )
                    raise
                await _stand_in(job.journal, compaction.stand_in(past, through))
    streams.remove(name)
    await run.ledgers.agents.write(turns.end, turn_id=opened.id, status="done")


async def _through(
    run: ActiveRun, request: Request, context: AssembledContext, budget_tokens: int, fixed_tokens: int
) -> int | None:
    """The last turn to sum up; None where the conversation fits."""
    reported = await run.ledgers.runtime.read_now(
        usage.last_of_session,
        session_label=context.session_label,
        but_of_execution=run.execution.id,
        request_id=request.request_id,
    )
    said_tokens = compaction.estimate(context.user_turn())
    if reported is not None and compaction.fits(reported, said_tokens, budget_tokens=budget_tokens):
        return None
    past = await history.load(run.ledgers, request, context.session_label)
    sizes = compaction.sizes(past)
    estimated = fixed_tokens + compaction.summary_tokens(past) + sum(size.tokens for size in sizes)
    if reported is None and compaction.fits(estimated, said_tokens, budget_tokens=budget_tokens):
        return None
    return compaction.through(sizes, budget_tokens=budget_tokens - fixed_tokens)


async def _is_final(run: ActiveRun, opened: OpenTurn, error: AgentError) -> bool:
    """Whether trying again would be of no use."""
    if isinstance(error, ModelRefusedError):
        return True
    failed = await run.ledgers.agents.read(turns.failed_summaries, turn=opened)
    return failed + 1 >= _TRIES


async def _stand_in(journal: Journal, text: str) -> None:
    from nexus.broker.agent import message_json

    asked = Message(
        role="user", content=compaction.TASK, parts_json=message_json.dump_question(compaction.TASK)
    )
    await journal.append(0, asked)
    # Behind what a model may have said before it failed: the last message is the one that counts.
    offset = 1
    while await journal.message(offset) is not None:
        offset += 1
    note = Message(role="assistant", content=text, parts_json=message_json.dump_note(text))
    await journal.append(offset, note)
