"""What an automation would have done: nothing lasts, and nothing blocks."""

import threading

from nexus.automations import hook_points, trial
from nexus.automations.context import Context, Occasion
from nexus.automations.registry import Entry
from nexus.home import Home


async def _replayed(home: Home, handler: object, timeout_ms: int) -> trial.Trial:
    automation = trial.unregistered("writer", hook_points.get("runAutomations"))
    entry = Entry(automation=automation, handler=handler)  # pyright: ignore[reportArgumentType]
    occasion = Occasion(request=trial.sample("hello"))
    return await trial.replay(home, entry, None, occasion, trial.Replayed(), timeout_ms)


async def test_a_blocking_handler_is_given_up_at_its_time_limit(home: Home) -> None:
    may_end, ended = threading.Event(), threading.Event()

    def blocks(ctx: Context) -> None:
        may_end.wait(30)
        ended.set()

    found = await _replayed(home, blocks, 200)
    assert (found.status, found.error) == ("timeout", "timed out after 200 ms")
    assert not ended.is_set()
    may_end.set()


async def test_what_a_handler_raises_is_what_it_would_have_done(home: Home) -> None:
    def fails(ctx: Context) -> None:
        raise TimeoutError(ctx.request.event.content)

    found = await _replayed(home, fails, 60_000)
    assert (found.status, found.error) == ("failed", "TimeoutError: hello")
