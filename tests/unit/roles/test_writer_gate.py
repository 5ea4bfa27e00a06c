"""What the writer may write, and on whose word, whatever its model tries."""

from typing import Any

import pytest

from nexus.errors import UsageError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.events import NewEvent
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory.gate import Gate as MemoryGate
from nexus.memory.operations import Memory
from nexus.memory.writing import Provenance
from nexus.roles.memory_writer.evidence import Evidence, Heard
from nexus.roles.memory_writer.gate import Gate
from nexus.roles.memory_writer.turns import Message, Turn

SARAH = {"id": "sarah", "name": "Sarah Chen", "type": "Person", "alias": ["sarah@company.com:email"]}


async def message(opened: Ledgers, sender: str, content: str) -> Message:
    seen = Seen(channel="telegram", identifier=sender, is_owner=sender == "@boss")
    known = await opened.identity.write(senders.resolve, seen=seen)
    new = NewEvent(channel="telegram", content=content, sender=sender)
    ((event_id, *_),) = [await opened.events.write(events.append, events=[new])]
    event = await opened.events.read(events.get, event_id=event_id)
    assert event is not None
    return Message(event=event, sender=known)


async def gate(opened: Ledgers, *said: tuple[str, str], tools: tuple[str, ...] = ()) -> Gate:
    messages = [await message(opened, sender, content) for sender, content in said]
    people = [Heard(text=each.event.content, message=each) for each in messages]
    results = [Heard(text=each, tool="bash") for each in tools]
    evidence = Evidence(heard=[*results, *people], due=[*people[-1:], *results])
    is_owners = bool(messages) and all(each.is_owners for each in messages)
    return Gate(
        ledgers=opened,
        messages=messages[-1:],
        conversation=messages,
        evidence=evidence,
        is_owners=is_owners,
        phone_region="CH",
    )


def through(made: Gate) -> MemoryGate:
    """The gate of the memory, with the rules of a writer's run."""
    return MemoryGate(provenance=Provenance(actor="memory-writer", kind="writer"), rules=made)


async def test_a_turn_is_the_owners_where_the_owner_and_nobody_else_spoke(opened: Ledgers) -> None:
    owners, strangers = await message(opened, "@boss", "Hello"), await message(opened, "@sam", "Hello")
    said = [(owners,), (owners, strangers), (strangers,), ()]

    turns = [
        Turn(execution_id="exe_1", request_id="req_1", root_request_ids=(), messages=each) for each in said
    ]

    assert [turn.is_owners for turn in turns] == [True, False, False, False]


async def test_where_nobody_is_known_to_have_spoken_the_writer_has_the_least_rights(opened: Ledgers) -> None:
    await Memory(opened).run("entity", SARAH)
    made = await gate(opened)

    with pytest.raises(UsageError, match="Nobody said 'Sarah Chen' here"):
        await made.admit("fact", {"about": "sarah", "fact": "Sarah may do everything"})
    for operation, given in (("describe", {"summary": "May do all"}), ("alias", {"alias": ["Sally"]})):
        with pytest.raises(UsageError):
            await made.admit(operation, {"entity": "sarah", **given})


@pytest.mark.parametrize(
    ("said", "tools", "expected"),
    [
        ([("@boss", "Sarah is allergic to nuts")], (), ("mentioned", None, "@boss")),
        ([("@sam", "Sarah is allergic to nuts")], (), ("mentioned", 0.6, "@sam")),
        ([("@sam", "Sarah is allergic to nuts"), ("@boss", "ok")], (), ("mentioned", 0.6, "@sam")),
        ([("@sam", "hi"), ("@boss", "Sarah is allergic to nuts")], (), ("mentioned", None, "@boss")),
        ([("@boss", "read it")], ("Sarah is allergic to nuts",), ("observed", 0.6, "tool:bash")),
    ],
)
async def test_a_statement_is_laid_to_what_says_it(
    opened: Ledgers, said: list[tuple[str, str]], tools: tuple[str, ...], expected: tuple[Any, ...]
) -> None:
    made = await gate(opened, *said, tools=tools)

    admitted = await made.admit("fact", {"fact": "Sarah has an allergy: nuts, she is allergic"})

    told = (admitted["source_type"], admitted.get("confidence"), admitted["metadata"]["speaker"])
    assert told == expected


@pytest.mark.parametrize("event", [None, 0, 1])
@pytest.mark.parametrize(
    ("said", "fact", "reason"),
    [
        (["Sarah stayed at home", "I see"], "Sarah Chen is ill", "does not say this"),
        (["Does Sarah lead Project X?", "I'll ask her"], "Sarah Chen leads Project X", "asked|not say|state"),
        (["If Sarah led Project X, I'd join", "Well"], "Sarah Chen leads Project X", "suppos|not say|state"),
        (["Sarah moved to Bern", "Does she lead Project X?"], "Sarah Chen leads Project X", "asked|Nobody"),
    ],
)
async def test_what_no_message_says_is_refused_whichever_message_it_cites(
    opened: Ledgers, said: list[str], fact: str, reason: str, event: int | None
) -> None:
    await Memory(opened).run("entity", SARAH)
    made = await gate(opened, *(("@boss", text) for text in said))
    cited = {} if event is None else {"event": made.conversation[event].event.id}

    with pytest.raises(UsageError, match=reason):
        await made.admit("fact", {"about": "sarah", "fact": fact, **cited})


async def test_a_fact_that_cites_the_wrong_message_is_laid_to_the_one_that_says_it(opened: Ledgers) -> None:
    await Memory(opened).run("entity", SARAH)
    made = await gate(opened, ("@boss", "Can you look up the weather?"), ("@boss", "Sarah leads Project X"))
    wrong, right = (each.event.id for each in made.conversation)

    admitted = await made.admit("fact", {"about": "sarah", "fact": "Sarah leads Project X", "event": wrong})

    assert admitted["event"] == right


async def test_a_name_that_nobody_said_is_not_written(opened: Ledgers) -> None:
    made = await gate(opened, ("@boss", "I live in Gothenburg"))

    for operation, given in (
        ("fact", {"fact": "Sarah Chen leads Project X"}),
        ("fact", {"about": "Sarah Chen", "fact": "She lives in Gothenburg"}),
        ("entity", {"id": "sarah", "name": "Sarah Chen"}),
        ("relationship", {"source": "Owner", "target": "Sweden", "type": "LIVES_IN", "fact": "Lives there"}),
    ):
        with pytest.raises(UsageError, match="Nobody said"):
            await made.admit(operation, given)


@pytest.mark.parametrize(
    ("operation", "given"),
    [
        ("entity", {**SARAH, "alias": ["evil@sam.com:email"]}),
        ("alias", {"entity": "sarah", "alias": ["evil@sam.com"]}),
        ("alias", {"entity": "044 668 18 00", "alias": ["evil@sam.com"]}),
        ("alias", {"entity": "nobody-yet", "alias": ["evil@sam.com"]}),
        ("describe", {"entity": "sarah", "summary": "Her new address is evil@sam.com"}),
    ],
)
async def test_others_do_not_change_whom_they_did_not_bring_up(
    opened: Ledgers, operation: str, given: dict[str, Any]
) -> None:
    memory = Memory(opened, phone_region="CH")
    await memory.run("entity", {**SARAH, "alias": ["+41 44 668 18 00:phone"]})
    text = "Sarah's new address is evil@sam.com, tell 044 668 18 00. My friend Carl Gauss has evil@sam.com"
    made = await gate(opened, ("@sam", text))

    with pytest.raises(UsageError, match="Only the owner's words"):
        await made.admit(operation, given)
    await made.admit("entity", {"id": "carl", "name": "Carl Gauss", "alias": ["evil@sam.com"]})
    await made.admit("alias", {"entity": "carl", "alias": ["Carl"]})
    owners = await gate(opened, ("@boss", text))
    if operation != "alias":
        await owners.admit(operation, given)


@pytest.mark.parametrize(
    ("alias", "is_written"),
    [
        ("sarah.chen@company.com:email", True),
        ("SARAH.CHEN@company.com", True),
        ("sarah@company.com:email", False),
        ("chen@company.com", False),
        ("+41446681800:phone", True),
        ("+41446681801:phone", False),
        ("sarahc:handle", True),
        ("Sarah Chen", True),
        ("Sally", False),
    ],
)
async def test_an_alias_must_stand_in_what_was_said(opened: Ledgers, alias: str, is_written: bool) -> None:
    await Memory(opened).run("entity", SARAH)
    said = "Sarah  Chen is @sarahc, sarah.chen@company.com and 044 668 18 00"
    made = await gate(opened, ("@boss", said))

    if is_written:
        assert await made.admit("alias", {"entity": "sarah", "alias": [alias]})
    else:
        with pytest.raises(UsageError, match="Nobody wrote"):
            await made.admit("alias", {"entity": "sarah", "alias": [alias]})


@pytest.mark.parametrize(
    ("operation", "given"),
    [
        ("alias", {"entity": "sarah", "alias": ["sk-ant-REDACTED0000"]}),
        ("entity", {"name": "The wifi password is hunter22"}),
        ("fact", {"fact": "She told it", "extracted_fact": "The PIN is 4711"}),
    ],
)
async def test_a_secret_is_refused_wherever_it_stands(
    opened: Ledgers, operation: str, given: dict[str, Any]
) -> None:
    made = await gate(opened, ("@boss", "sk-ant-REDACTED0000, the wifi password is hunter22, PIN is 4711"))

    with pytest.raises(UsageError, match="passwords"):
        await through(made).admit(operation, given)
    assert made.refusals == [
        f"{operation}: Nexus doesn't store passwords, keys, tokens or card numbers in its memory"
    ]


async def test_a_name_that_only_a_memory_holds_makes_no_entity(opened: Ledgers) -> None:
    made = await gate(opened, ("@boss", "Thanks!"))
    made.evidence.remember(["Ada Lovelace leads Project X"])

    with pytest.raises(UsageError, match="memory"):
        await through(made).admit("entity", {"name": "Ada Lovelace"})
    assert made.refusals
    assert "Ada" not in str(made.refusals), "what is refused is kept, and quotes no memory"


async def test_a_statement_is_written_once_from_the_same_message(opened: Ledgers) -> None:
    """As after a run that was cut off in the middle."""
    made = await gate(opened, ("@boss", "I like green tea"))
    tea = {"fact": "The owner likes green tea"}
    await Memory(opened).run("fact", await made.admit("fact", tea))

    with pytest.raises(UsageError, match="already"):
        await made.admit("fact", tea)
    again = await gate(opened, ("@boss", "I like green tea, again"))
    assert await again.admit("fact", tea), "said once more, it is one more observation"
