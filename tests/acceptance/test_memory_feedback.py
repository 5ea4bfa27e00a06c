"""What the memory gave is never written back to it, however often that is tried and in whatever words."""

from itertools import cycle

from apps import dispatching
from memory_writers import batch, facts, invocations, is_reflection, is_writer, quiet, rows, writing
from nexus.automations.context import Context
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, Turn
from unit.pipeline.test_pipeline import register

_ROUNDS = 10
KNOWN = ["Tyler's birthday is March 12", "Tyler likes Italian food", "Tyler is lactose intolerant"]
TASK = "Plan a birthday dinner for Tyler"
ANSWER = "Italian for Tyler on March 12, without lactose"
BACK = [
    {"operation": "fact", "about": "tyler", "fact": "Tyler likes Italian food"},
    {"operation": "fact", "about": "tyler", "fact": "Tyler is fond of Italian food."},
    {"operation": "fact", "fact": "Tyler has his birthday on March 12 and is lactose intolerant"},
    {
        "operation": "relationship",
        "source": "tyler",
        "type": "LIKES",
        "fact": "Tyler likes food from Italy: Italian",
    },
    {
        "operation": "person-fact",
        "entity": "tyler",
        "category": "diet",
        "type": "diet",
        "value": "lactose intolerant",
    },
    {"operation": "describe", "entity": "tyler", "summary": "Likes Italian food, is lactose intolerant"},
]
NEWS = {"operation": "fact", "about": "tyler", "fact": "Tyler wants to sit on the terrace"}


def has_called(request: ModelRequest) -> bool:
    return "tool_result" in str(request.json["messages"][-1])


def is_worker(request: ModelRequest) -> bool:
    return TASK in str(request.json["messages"][0])


async def test_ten_rounds_of_injecting_and_writing_create_nothing_from_memory_alone(
    home: Home, server: ModelServer
) -> None:
    tried = cycle(BACK)
    server.when(is_reflection).always("Nothing learned")
    server.when(is_writer).always(lambda r: Turn("Done.") if has_called(r) else batch(next(tried)))
    server.when(is_worker).always(ANSWER)
    for _ in range(_ROUNDS):
        server.script(*dispatching(TASK, then=ANSWER))
    async with writing(home, server) as app:
        await app.memory.run("entity", {"id": "tyler", "name": "Tyler", "type": "Person"})
        for fact in KNOWN:
            await app.memory.run("fact", {"about": "tyler", "fact": fact})

        async def inject(ctx: Context) -> dict[str, object]:
            return {"enrich": {"memories": "\n".join(await facts(app))}}

        await register(app, "inject", "worker:pre_execution", inject)
        for number in range(_ROUNDS):
            await (await app.send(f"Round {number}: what about the dinner?")).result()
            await quiet(app)
        ran = await invocations(app)
        assert await facts(app) == KNOWN
        assert await rows(app, "identity", "SELECT value FROM person_facts") == []
        # What is said is written, as ever.
        server.script("Noted.")
        tried = cycle([NEWS])
        await (await app.send("Tyler wants to sit on the terrace.")).result()
        await quiet(app)
        assert await facts(app) == [*KNOWN, NEWS["fact"]]
    assert len(ran) == 2 * _ROUNDS, "the worker's turn and the manager's"
    assert [len(run["refused"]) for run in ran] == [1] * len(ran)
    # Reflection, which runs by the clock, reads what workers were told.
    told = [r for r in server.requests if is_worker(r) and not is_writer(r) and not is_reflection(r)]
    assert len(told) == _ROUNDS
    assert all("<memory_context>" in each.last_user and KNOWN[1] in each.last_user for each in told)


async def test_a_memory_of_an_earlier_turn_is_still_a_memory_in_a_later_one(
    home: Home, server: ModelServer
) -> None:
    nothing = [Turn("Nothing to remember")] * 2
    answers = iter([*nothing, batch(BACK[1]), Turn("Done.")])
    server.when(is_reflection).always("Nothing learned")
    server.when(is_writer).always(lambda _: next(answers))
    server.when(is_worker).always(ANSWER)
    server.script(*dispatching(TASK, then=ANSWER), "You are welcome.")
    async with writing(home, server) as app:
        await app.memory.run("entity", {"id": "tyler", "name": "Tyler", "type": "Person"})
        await app.memory.run("fact", {"about": "tyler", "fact": KNOWN[1]})

        async def inject(ctx: Context) -> dict[str, object]:
            return {"enrich": {"memories": KNOWN[1]}}

        await register(app, "inject", "worker:pre_execution", inject)
        for said in ("What about the dinner?", "Thanks a lot, great!"):
            await (await app.send(said)).result()
            await quiet(app)
        ran = await invocations(app)
        assert await facts(app) == [KNOWN[1]]
    assert [len(run["refused"]) for run in ran] == [0, 0, 1]
