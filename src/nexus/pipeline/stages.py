"""The eight stages. Each is a short function that takes a journey one step further."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import apsw

from nexus import clock, ids
from nexus.attachments import Attachment
from nexus.automations.context import Occasion
from nexus.automations.hook_points import BEFORE_DELIVERY
from nexus.automations.returned import Returned, collect_contexts
from nexus.automations.runner import Runner
from nexus.broker.broker import Broker
from nexus.broker.tools import send_file
from nexus.config import Config
from nexus.context import AssembledContext
from nexus.context.assemble import describe_situation
from nexus.context.wrapping import wrapped
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import tool_calls
from nexus.ledgers.events import NewEvent, Participant
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen, Sender
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime.approvals import Approval
from nexus.memory import candidates
from nexus.pipeline import access
from nexus.pipeline.incoming import Incoming, Journey
from nexus.request import Agent, Event, Request
from nexus.runs import Response

AGENT = "nexus"

"""How the home's own agent is named in events."""

WITHHELD = "Sorry, I can't answer this."
"""What others than the owner get in place of an answer that was withheld."""

UNREAD = "unread_files"
"""The enrichment of a request that came with files which could not be read."""

Deliver = Callable[[Request, str], Awaitable[None]]
"""Hands an answer to its channel."""


async def nowhere(request: Request, text: str) -> None:
    """For channels whose answers are read from the ledger, as the terminal's are."""


async def no_command(request: Request) -> str | None:
    """For tests without an app: what begins with a slash is a message too."""


@dataclass(kw_only=True)
class Stages:
    """What the stages of one home use."""

    ledgers: Ledgers
    config: Config
    broker: Broker
    runner: Runner
    deliver: Deliver = nowhere
    sends_files: Callable[[str], bool] = lambda _: False
    """Whether a channel can send files."""
    run_command: Callable[[Request], Awaitable[str | None]] = no_command

    async def receive_event(self, incoming: Incoming) -> Journey:
        """Record what was said, and make it a request. What was delivered before is the same event."""

        def record(connection: apsw.Connection) -> tuple[str, str]:
            channel, thread = incoming.channel, incoming.thread
            thread_id = events.ensure_thread(
                connection, channel=channel, external_id=thread, title=incoming.title
            )
            sender = Participant(
                role="sender", identifier=incoming.sender, display_name=incoming.display_name
            )
            new = NewEvent(
                channel=channel,
                content=incoming.content,
                kind="command" if incoming.is_command else "message",
                thread_id=thread_id,
                sender=incoming.sender,
                external_id=incoming.external_id,
                participants=(sender,),
                metadata=incoming.metadata(),
            )
            (event_id,) = [incoming.event_id] if incoming.event_id else events.append(connection, [new])
            events.attach(connection, event_id, incoming.attachments)
            return thread_id, event_id

        thread_id, event_id = await self.ledgers.events.write(record)
        event = Event(
            id=event_id,
            content=incoming.content,
            thread_id=thread_id,
            channel=incoming.channel,
            sender_id=incoming.sender,
        )
        agent = Agent(session_label=incoming.session_label or incoming.own_session)
        request = Request(event=event, agent=agent)
        if incoming.unread_files:
            request.enrichment[UNREAD] = list(incoming.unread_files)
        # It is committed with its run, or with what an automation does for it before.
        self.ledgers.runtime.write_along(requests.create, request=request)
        return Journey(incoming=incoming, request=request)

    async def resolve_identity(self, journey: Journey) -> None:
        """Find the sender among the contacts; an unknown one gets an entity and a contact."""
        incoming = journey.incoming
        journey.sender = await self.ledgers.identity.read_now(
            senders.find, channel=incoming.channel, identifier=incoming.sender
        )
        # An address may become the owner's after it was first seen.
        if journey.sender is None or (incoming.is_owner and not journey.sender.is_owner):
            seen = Seen(
                channel=incoming.channel,
                identifier=incoming.sender,
                display_name=incoming.display_name,
                event_id=journey.request.event.id,
                is_owner=incoming.is_owner,
            )
            journey.sender = await self.ledgers.identity.write(_resolve_sender, seen)
        journey.request.principal_id = journey.sender.entity_id

    async def resolve_access(self, journey: Journey) -> None:
        """Decide what the sender may reach. Somebody whom nobody granted anything is told a code, once.

        A program that wrote by itself is told nothing: two of them could go on for ever.
        """
        sender, request = journey.sender, journey.request
        assert sender is not None  # noqa: S101 - an invariant, for the reader and the type checker
        if not journey.incoming.is_verified:
            journey.denied = "the channel does not vouch for the sender"
            return
        # On a channel the settings say who is the owner: what the memory knows of a person gives no rights.
        if sender.is_owner and (
            journey.incoming.is_owner or request.event.channel not in self.config.channels
        ):
            held = access.owner(self.config.tools, self.ledgers.home)
            # What the owner is told in a group, everybody there reads.
            request.access = replace(held, memory="own") if journey.incoming.is_group else held
            return
        granted = await self.ledgers.identity.read(grants.find_grant, entity_id=sender.entity_id)
        if granted is None and not journey.incoming.wants_answer:
            journey.denied = "an unknown sender that wants no answer"
            return
        if granted is None:
            code, is_new = await self.ledgers.identity.write(grants.ask, contact_id=sender.contact_id)
            journey.denied = "an unknown sender"
            # Not again while it is valid: what answers could be a program that isn't recognized as one.
            if is_new:
                journey.response = (
                    f"I don't know you yet. The owner of this agent can approve you with the code {code}."
                )
            return
        request.access = access.of_contact(granted, self.ledgers.home)
        if not access.may_use(request.access, request.agent.session_label, journey.incoming.own_session):
            journey.denied = f"the session {request.agent.session_label} was not granted"

    def listen(self, journey: Journey) -> None:
        """What is said in a group and wants no answer goes no further: it is recorded, whoever said it."""
        incoming = journey.incoming
        journey.handled = incoming.is_group and incoming.is_verified and not incoming.wants_answer

    async def tell_failure(self, request: Request) -> None:
        """Let whoever wrote on a channel know that no answer comes. Why is in the trace, for the owner."""
        if self.config.channels.get(request.event.channel or "") is not None:
            text = "Sorry, I could not answer this."
            await self.deliver_response(request, text, ids.derived("evt", request.request_id, "failure"))

    async def ask_owner(self, request: Request, approval: Approval) -> None:
        """Ask on the channel where the message came from; on screens the owner is asked by the run itself."""
        if self.config.channels.get(request.event.channel or "") is not None:
            text = self.broker.approvals.question(approval, in_company=_is_in_company(request))
            await self.deliver_response(request, text, ids.derived("evt", approval.id, "asked"))

    async def run_automations(self, journey: Journey) -> None:
        """Let automations answer by themselves, or say who answers.

        A command and an approval need no agent either.
        """
        request = journey.request
        if journey.incoming.is_command:
            journey.response = await self.run_command(request)
        if journey.response is not None:
            journey.handled = True
            return
        if request.access.level == "owner":
            decided = await self.broker.approvals.reply(
                request.agent.session_label, request.event.content, in_company=_is_in_company(request)
            )
            if decided is not None:
                journey.handled, journey.response = True, decided
                return
        returned = await self.fire("runAutomations", journey)
        journey.handled = returned.handled
        if returned.handled:
            journey.response = returned.response or ""

    def new_context(self, journey: Journey) -> AssembledContext:
        """What a message's run begins with. The rest of its context is put together then."""
        request, incoming = journey.request, journey.incoming
        return AssembledContext(
            session_label=request.agent.session_label,
            role=request.agent.role,
            system_prompt="",
            tools=(),
            current_message=request.event.content,
            situation=describe_situation(request),
            event_id=request.event.id,
            message={
                "content": request.event.content,
                "sender": incoming.sender,
                "thread": incoming.thread,
                "external_id": incoming.external_id,
            },
            replaces=incoming.replaces,
            attachments=incoming.attachments,
            model=incoming.model,
            is_prepared=False,
        )

    async def assemble_context(self, request: Request, context: AssembledContext) -> None:
        """Put together what the agent is shown that answers a message."""
        label, channel = context.session_label, request.event.channel or ""
        assembled = await self.broker.assemble_context(
            request, session_label=label, task=request.event.content
        )
        context.system_prompt, context.current_message = assembled.system_prompt, assembled.current_message
        files = {send_file.NAME} if self.sends_files(channel) else set[str]()
        context.tools = tuple(sorted({*assembled.tools, *files}))
        for text in collect_contexts(request):
            context.prepend(text)
        # Reminders that came since the person last wrote: an answer to one must be understood.
        thread, event_id = (context.message or {}).get("thread") or "", request.event.id or ""
        sent = await self.ledgers.events.read_now(
            events.list_unasked_before, channel=channel, external_id=thread, event_id=event_id
        )
        for each in reversed(sent):
            context.prepend(wrapped("message", each.content, sender=AGENT, sent_at=each.occurred_at))

    async def may_change_answer(self, request: Request, session_label: str) -> bool:
        """Whether an automation may change what a run answers: until then nobody is shown it."""
        is_answer = request.depth == 0 and session_label == request.agent.session_label
        return (
            is_answer
            and request.event.channel is not None
            and await self.runner.may_block(BEFORE_DELIVERY, request)
        )

    async def review_answer(self, occasion: Occasion, answer_id: str) -> Returned:
        """Let automations change or withhold an answer, unless it is on record and was decided about."""
        request = occasion.request
        if request.event.channel is None or (
            await self.runner.may_block(BEFORE_DELIVERY, request)
            and await self.ledgers.events.read(
                events.find_delivered, channel=request.event.channel, external_id=answer_id
            )
        ):
            return Returned()
        return await self.runner.fire(BEFORE_DELIVERY, occasion)

    async def deliver_answer(
        self,
        request: Request,
        response: Response,
        decided: Returned,
        answer_id: str,
        files: tuple[Attachment, ...] = (),
    ) -> Response:
        """Record an answer and deliver it as automations have left it; what was recorded first stands."""
        original = response.content
        if decided.withhold is not None:
            is_owner = request.access.level == "owner"
            text = f"This answer was withheld: {decided.withhold}" if is_owner else WITHHELD
            response = replace(response, content=text, withheld=decided.withhold)
            files = ()
        elif decided.answer is not None:
            response = replace(response, content=decided.answer)
        response = replace(response, changed_by=decided.changed_by)
        metadata: dict[str, Any] = {}
        if response.changed_by:
            metadata = {
                "original": original,
                "changed_by": response.changed_by,
                "withheld": response.withheld,
            }
        recorded = await self.deliver_response(request, response.content, answer_id, files, metadata)
        if recorded is None:
            return response
        return replace(
            response,
            content=recorded.content,
            changed_by=recorded.metadata.get("changed_by", ""),
            withheld=recorded.metadata.get("withheld", ""),
        )

    async def deliver_response(
        self,
        request: Request,
        text: str,
        answer_id: str,
        files: tuple[Attachment, ...] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> events.Event | None:
        """Record a message, once, and hand it to its channel. Returns what is on record."""
        if request.event.channel is None:
            return None
        answer = NewEvent(
            channel=request.event.channel,
            content=text,
            direction="outbound",
            thread_id=request.event.thread_id,
            external_id=answer_id,
            sender=AGENT,
            reply_to_event_id=request.event.id,
            request_id=request.request_id,
            metadata=dict(metadata or {}),
        )

        def record(connection: apsw.Connection) -> events.Event | None:
            asked = events.get(connection, request.event.id) if request.event.id else None
            kind = "command" if asked and asked.kind == "command" else "message"
            (event_id,) = events.append(connection, [replace(answer, kind=kind)])
            events.attach(connection, event_id, files)
            return events.get(connection, event_id)

        recorded = await self.ledgers.events.write(record)
        await self.deliver(request, text)
        return recorded

    def with_unread(self, request: Request, text: str) -> str:
        """An answer that also names the files that could not be read: a model may not mention them."""
        unread: list[str] = request.enrichment.get(UNREAD) or []
        return "\n\n".join(filter(None, [text, *(f"I couldn't read {each}." for each in unread)]))

    async def chosen_files(self, request: Request) -> tuple[Attachment, ...]:
        """The files that the agent sends along."""
        if request.event.channel not in self.config.channels:
            return ()
        return send_file.list_chosen(
            await self.ledgers.agents.read(
                tool_calls.results_of, request_id=request.request_id, tool=send_file.NAME
            ),
            self.config.attachments.max_files,
        )

    async def finalize(self, journey: Journey) -> None:
        """Let automations tidy up, and see to it that all they did is recorded."""
        await self.fire("finalize", journey)
        await self.runner.wait_until_settled()

    async def fire(self, hook_point: str, journey: Journey) -> Returned:
        """Fire a hook point with what there is of the journey."""
        occasion = Occasion(
            request=journey.request,
            assembled=journey.assembled,
            result=journey.result,
            key=journey.key,
        )
        return await self.runner.fire(hook_point, occasion)


def _is_in_company(request: Request) -> bool:
    """Whether others than the owner read the answer."""
    return request.access.memory != "all"


def _resolve_sender(connection: apsw.Connection, seen: Seen) -> Sender:
    """Whom a sender is. A new one who has somebody else's name becomes a merge suggestion, never a merge."""
    sender = senders.resolve(connection, seen)
    if sender.is_new and not sender.is_owner and seen.display_name:
        now = clock.timestamp(clock.now())
        candidates.note_sender(
            connection, sender.entity_id, channel=seen.channel, name=seen.display_name, now=now
        )
    return sender
