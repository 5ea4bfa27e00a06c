"""A conversation with the agent of a home: what is typed goes to it, what it says is shown."""

import asyncio
import re
import shlex
import signal
import sys
import textwrap
from collections.abc import Awaitable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from nexus import clock, commands, config, extras, ids
from nexus.attachments import File
from nexus.cli import trace
from nexus.cli.chat import name_session, new_label
from nexus.cli.message_input import Editor, Lines, MessageInput, PlainEditor, TypeAhead, ask_approval
from nexus.cli.place import printable
from nexus.cli.remind import line as reminder_line
from nexus.cli.screen import Screen, cost_line
from nexus.cli.talk import Talk, open_talk
from nexus.errors import NexusError, StoppedError
from nexus.home import Home
from nexus.request import check_label
from nexus.runs import Delta, Run
from nexus.text import pluralize
from nexus.watch import Watch

if TYPE_CHECKING:
    from nexus.memory.recall.item import Item

_PAUSE_S = 0.5
_AGAIN_S = 1.0
_REMEMBERED_LINES = 200
_SHOWN_SESSIONS = 15
_SHOWN_CHARACTERS = 200
# As a shell would read it: quoted, or with escaped spaces.
_WORD: Final = re.compile(r"""\s*(?:'[^']*'|"[^"]*"|(?:\\.|[^\s'"\\])+)+""")
_USES: Final = ("used in the answer", "in the prompt", "")
_DECISIONS: Final[dict[str, Literal["once", "session", "always", "deny"]]] = {
    "y": "once", "yes": "once", "s": "session", "session": "session", "a": "always", "always": "always",
    "n": "deny", "no": "deny",
}  # fmt: skip


async def converse(
    home: Home, settings: config.Config, label: str, model: str, *, interactive: bool, help_text: str
) -> bool:
    """Talk until the person leaves or the pipe ends; returns whether all that was asked for was done."""
    check_label(label)
    async with open_talk(home, settings, model) as talk:
        ahead = TypeAhead()
        conversation = Conversation(
            talk,
            Screen(ahead=ahead),
            label,
            model,
            interactive=interactive,
            settings=settings,
            ahead=ahead,
        )
        await conversation.catch_up()
        typed: MessageInput
        if interactive:
            history = list(reversed(await talk.sent_messages(label, _REMEMBERED_LINES)))
            is_editable = extras.is_installed("terminal")
            typed = Editor(history, ahead) if is_editable else PlainEditor(history)
            at = f" at {talk.where}" if talk.where else ""
            click.secho(f"Session: {name_session(label)}{at}. Type /help for commands.", dim=True)
        else:
            typed = Lines()
        watching = asyncio.create_task(conversation.watch(home))
        try:
            await _talk(conversation, typed, help_text)
        finally:
            ahead.stop()
            watching.cancel()
        await conversation.catch_up()
        return not conversation.failed


async def _talk(conversation: "Conversation", typed: MessageInput, help_text: str) -> None:
    while (text := await typed.next(conversation.draft)) is not None:
        replaces, conversation.draft, conversation.edits = conversation.edits, "", False
        if not text.strip():
            continue
        paths, words = await asyncio.to_thread(pasted_files, text)
        for path in paths:
            await conversation.tell(conversation.attach(path))
        if paths:
            if words:
                await conversation.say(words, replaces=replaces)
            continue
        found = commands.parse(text, "terminal")
        if found is None and text.lstrip().startswith("/"):
            conversation.failed = True
            word = text.split()[0]
            known = commands.parse(word, "terminal") is not None
            problem = f"{word} takes no arguments" if known else f"Unknown command {word}"
            click.secho(f"{problem}. Type /help for a list.", err=True)
            continue
        command, words = (found[0].name, found[1]) if found else ("", "")
        match command:
            case "quit":
                return
            case "help":
                click.echo(help_text)
            case "new":
                await conversation.tell(conversation.begin(new_label()))
            case "sessions":
                await conversation.tell(conversation.sessions(words))
            case "model":
                await conversation.tell(conversation.choose_model(words))
            case "attach":
                await conversation.tell(conversation.attach(words))
            case "edit":
                await conversation.tell(conversation.edit())
                if conversation.edits and words:
                    conversation.draft, conversation.edits = "", False
                    await conversation.say(words, replaces=True)
            case "retry":
                await conversation.retry()
            case "correct":
                await conversation.tell(conversation.correct(words))
            case "memory":
                await conversation.tell(conversation.memory(words))
            case "remind" if words:
                await conversation.tell(conversation.remind(words, typed))
            case "remind" | "reminders":
                await conversation.tell(conversation.reminders())
            case "cost":
                await conversation.tell(conversation.cost())
            case "trace":
                await conversation.tell(conversation.trace())
            case _:
                await conversation.say(text, replaces=replaces)


def pasted_files(text: str) -> tuple[list[str], str]:
    """Return files dragged or pasted into a terminal, which types their paths, and the text after them."""
    found: list[str] = []
    while match := _WORD.match(text):
        try:
            path = Path("".join(shlex.split(match[0]))).expanduser()
            if not path.is_absolute() or not path.is_file():
                break
        except (OSError, RuntimeError, ValueError):
            break
        found.append(str(path))
        text = text[match.end() :]
    return found, text.strip()


class Conversation:
    """One session, on a screen. Also what the agent says unasked, because a worker has ended, is shown."""

    def __init__(
        self,
        talk: Talk,
        screen: Screen,
        label: str,
        model: str,
        *,
        interactive: bool,
        settings: config.Config | None = None,
        ahead: TypeAhead | None = None,
    ) -> None:
        self._ahead = ahead or TypeAhead()
        self._settings = settings or config.Config()
        self._files: list[File] = []
        self._talk = talk
        self._screen = screen
        self._label = label
        self._model = model
        self._interactive = interactive
        self._shown: set[str] = set()
        self._last = ""
        self._sent: dict[str, int | None] = {"main": None, label: None}
        """By session that this terminal has had open: the last shown of what automations sent there."""
        self._said = ""
        self._said_run = ""
        self._listed: list[Item] = []
        self.draft = ""
        """What the next message begins as."""
        self.edits = False
        """Whether the next message takes the place of the last one."""
        self._request_id = ""
        self._speaking = asyncio.Lock()
        self.failed = False
        """Some messages or commands failed."""

    async def begin(self, label: str, title: str = "") -> None:
        """Go over to another session."""
        await self._talk.new_session(self._label)
        self._label, self._last, self._said, self._said_run, self._request_id = label, "", "", "", ""
        self._sent.setdefault(label, None)
        self._screen.note(f"Session: {title or name_session(label)}.")

    async def say(self, text: str, *, replaces: bool = False) -> None:
        """Say something, perhaps in the place of what was said last, and show the answer."""
        with suppress(NexusError):
            await self._show_sent()  # what came before it is not asked for once something is said
        files = self._files if commands.parse(text) is None else []
        async with self._speaking:
            try:
                receipt = await self._talk.receive(
                    text,
                    session_label=self._label,
                    model=self._model,
                    files=files,
                    replaces=self._said_run if replaces else None,
                )
            except NexusError as error:
                self._tell(error)
                return
            self._files = [each for each in self._files if each not in files]
            self._said, self._request_id = text, receipt.request_id
            self._said_run = receipt.execution_id or ""
            await self._show(receipt.run)

    async def _find_last(self) -> bool:
        """Find the last message of the session, also one from before this program was started."""
        found = await self._talk.last_message(self._label)
        # One that was said here and failed before its turn began is only known here. Ids sort by time.
        if found and found.execution_id > self._said_run:
            self._said, self._said_run = found.text, found.execution_id
            self._request_id = found.request_id or ""
        if not self._said_run:
            self._screen.note("You haven't said anything here yet.")
        return bool(self._said_run)

    async def edit(self) -> None:
        """Make the last message the draft of the next one, which takes its place."""
        if await self._find_last():
            self.draft, self.edits = self._said, True

    async def retry(self) -> None:
        """Have the last message answered again."""
        async with self._speaking:
            try:
                if not await self._find_last():
                    return
                run = await self._talk.regenerate(self._said_run, self._model)
            except NexusError as error:
                self._tell(error)
                return
            self._said_run = run.id
            await self._show(run)

    async def correct(self, words: str) -> None:
        """Replace a fact that was listed last. Without words, open the one that the last answer used."""
        if not words:
            await self._open_used_fact()
            return
        number, _, text = words.partition(" ")
        index = int(number) - 1 if number.isdecimal() and len(number) < 3 else -1
        facts = [place for place, each in enumerate(self._listed, 1) if each.kind == "fact"]
        if not facts:
            self._screen.note("List the fact first: /memory and a few of its words")
            return
        if not text.strip() or index + 1 not in facts:
            numbers = ", ".join(map(str, facts))
            self._screen.note(
                f"Give the number of a fact ({numbers}) and what is true: /correct {facts[0]} TEXT"
            )
            return
        await self._talk.correct(self._listed[index].id, text.strip())
        self._screen.note(f"Corrected. It was: {self._listed[index].text}")

    async def _open_used_fact(self) -> None:
        if not (self._said or await self._find_last()):
            return
        given = await self._given_memories()
        found = [each for each in await self._talk.recall(self._said) if each.kind == "fact"]
        found.sort(key=lambda each: _USES.index(given.get(each.id, "")))
        fact = next((each for each in found if each.id in given), None)
        self._listed = [fact] if fact is not None else []  # what isn't shown has no number
        if fact is None:
            self._screen.note("The last answer used no fact. List others first: /memory and a few words")
            return
        self._screen.line(f" 1  {fact.at[:10]}  [fact] {fact.text} · {given[fact.id]}")
        self.draft = f"/correct 1 {fact.text}"

    async def sessions(self, wanted: str) -> None:
        """List sessions, or go over to one by its name or its number in the list."""
        found, _ = await self._talk.sessions(_SHOWN_SESSIONS)
        if wanted:
            number = int(wanted) - 1 if wanted.isdecimal() and len(wanted) < 3 else -1
            known = found[number] if 0 <= number < len(found) else None
            check_label(known.label if known else wanted)
            await self.begin(known.label if known else wanted, known.title if known else "")
            return
        for number, each in enumerate(found, 1):
            at = f"{clock.parse(each.updated_at).astimezone():%Y-%m-%d %H:%M}"
            mark = "*" if each.label == self._label else " "
            self._screen.line(f"{mark}{number:>3}  {at}  {each.title}")
        self._screen.note("Continue one with /sessions NUMBER." if found else "No sessions yet.")

    async def choose_model(self, name: str) -> None:
        """Use a model from now on, or show which are set."""
        known = list(self._settings.models.roles)
        if name:
            self._model = next((each for each in known if name in each), name)
            self._screen.note(f"Using {self._model}.")
            return
        current = self._model or next(iter(self._settings.models.manager), "")
        for each in known:
            self._screen.line(f"{'*' if each == current else ' '} {each}")
        self._screen.note("Choose one with /model NAME.")

    async def attach(self, path: str) -> None:
        """Add a file to the next message, or show those that were added."""
        if path:
            self._files.append(await asyncio.to_thread(self._read, path))
        names = ", ".join(each.name for each in self._files)
        self._screen.note(f"Your next message includes {names}." if names else "Add a file: /attach bill.pdf")

    def _read(self, path: str) -> File:
        return File.read(Path(path).expanduser(), self._settings.attachments.max_bytes)

    async def memory(self, text: str) -> None:
        """Show what the memory holds about some words; without any, what the last message was given first."""
        if not (text or self._said or await self._find_last()):
            self._screen.note("Or add search words: /memory the boat trip")
            return
        given = {} if text else await self._given_memories()
        found = sorted(await self._talk.recall(text or self._said), key=lambda one: one.id not in given)
        self._listed = found
        for number, one in enumerate(found, 1):
            who = f"{one.speaker_name}: " if one.speaker else ("[fact] " if one.kind == "fact" else "")
            short = textwrap.shorten(one.text, _SHOWN_CHARACTERS, placeholder=" …")
            mark = f" · {given[one.id]}" if one.id in given else ""
            self._screen.line(f"{number:>2}  {one.at[:10]}  {who}{short}{mark}")
        if any(one.kind == "fact" for one in found):
            self._screen.note("Correct a fact with /correct NUMBER TEXT.")
        elif not found:
            self._screen.note("No matches.")

    async def _given_memories(self) -> dict[str, str]:
        """The memories that the last message's prompt had, by id, and whether the answer used them."""
        found: dict[str, str] = {}
        nodes = [await self._talk.trace(self._request_id)] if self._request_id else []
        while nodes:
            node = nodes.pop()
            nodes += node.children
            if node.kind == "memory":
                found[node.id] = _USES[node.status != "used"]
        return found

    async def remind(self, words: str, typed: MessageInput) -> None:
        """Say what a reminder would be, and save it if the person agrees."""
        draft = await self._talk.draft(words)
        for line in draft.describe(clock.now()):
            self._screen.line(line)
        if self._interactive:
            self._screen.note("Save it? [Y/n]")
            answer = await typed.next(asks=True)
            if answer is None or answer.strip().lower() not in {"", "y", "yes"}:
                self._screen.note("Not saved.")
                return
        await self._talk.remind(draft, self._label)
        self._screen.note("Saved. /reminders lists them.")

    async def reminders(self) -> None:
        """List the reminders."""
        found = await self._talk.reminders()
        for each in found:
            self._screen.line(reminder_line(each))
        told = "Pause or delete with `nexus remind`." if found else "No reminders. /remind makes one."
        self._screen.note(told)

    async def cost(self) -> None:
        """Show what the session cost so far."""
        spent = await self._talk.cost(self._label)
        self._screen.line(f"{pluralize(spent.calls, 'call')}: {cost_line(spent)}")

    async def trace(self) -> None:
        """Show what was done for what was said last."""
        if self._request_id or await self._find_last():
            trace.print_trace(await self._talk.trace(self._request_id), self._said, ids=False)

    async def tell(self, work: Awaitable[None]) -> None:
        """Carry out a command; what goes wrong is said, and the conversation goes on."""
        async with self._speaking:
            try:
                await work
            except NexusError as error:
                self._tell(error)

    async def catch_up(self) -> None:
        """Show what is still being answered, from before a crash or by workers."""
        while under_way := [r for r in await self._talk.active_runs(self._label) if r.id not in self._shown]:
            for run in under_way:
                async with self._speaking:
                    await self._show(run)

    async def watch(self, home: Home) -> None:
        """Show what the agent says unasked. Looks after each write to the home, whoever serves it."""
        ledgers = (home.ledger("events"), home.ledger("runtime"))
        logs = [ledger.with_name(f"{ledger.name}-wal") for ledger in ledgers]
        with closing(Watch(logs, pause_s=_PAUSE_S)) as watch:
            while True:
                again_s = None
                # What is wrong may pass, as a busy ledger does. If it stays, who says something is told.
                try:
                    await self._show_new()
                    await self._show_sent()
                except NexusError:
                    again_s = _AGAIN_S
                await watch.wait(again_s)

    async def _show_sent(self) -> None:
        """What automations sent: since the person last said something, then as it comes.

        Also into sessions that were left with /new, and into the main one: reminders go where they were set.
        """
        for label in [*self._sent] if self._interactive else ():
            for message in await self._talk.scheduled_messages(label, self._sent[label]):
                async with self._speaking:
                    if message.seq <= (self._sent[label] or 0):
                        continue  # shown meanwhile
                    self._sent[label] = message.seq
                    at = f"{clock.parse(message.occurred_at).astimezone():%Y-%m-%d %H:%M}"
                    self._screen.note(at if label == self._label else f"{at} · {name_session(label)}")
                    self._screen.markdown(message.content)

    async def _show_new(self) -> None:
        if not self._last:
            if not self._interactive:
                return
            # At a terminal also what the agent says before the person has said anything is shown.
            self._last = await self._talk.newest_run(self._label) or ids.new("exe")
        for run in await self._talk.runs_after(self._label, self._last):
            async with self._speaking:
                if run.id not in self._shown:
                    await self._show(run)

    async def _show(self, run: Run) -> None:
        self._shown.add(run.id)
        self._last = run.id
        loop = asyncio.get_running_loop()
        stopping: list[asyncio.Task[bool]] = []
        loop.add_signal_handler(signal.SIGINT, lambda: stopping.append(loop.create_task(run.cancel())))
        try:
            result = await self._screen.follow(run, self._approve if self._interactive else None)
            if self._interactive:
                self._screen.note(cost_line(result.usage))
        except StoppedError:
            self._screen.note("Stopped.")
            self._ahead.hold()
        except NexusError as error:
            self._tell(error)
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _approve(self, waiting: Delta) -> None:
        """Ask about a call; whatever else is typed leaves it waiting."""
        from nexus.broker.questions import make_code

        code = make_code(waiting.approval_id, waiting.call_hash)
        answer = await ask_approval(f"Allow {code}? [y]es, for this [s]ession, [a]lways, [n]o: ", self._ahead)
        decision = _DECISIONS.get(answer.strip().lower())
        if decision is None:
            self._screen.note("Still waiting.")
            return
        try:
            await self._talk.decide(waiting.approval_id, decision, waiting.call_hash)
        except NexusError as error:  # somebody else was quicker, or only this call can be allowed
            self._screen.note(f"{error.message}. {error.hint}")

    def _tell(self, error: NexusError) -> None:
        self.failed = True
        sys.stdout.flush()
        click.secho(f"nexus: {printable(error.message)}", err=True, fg="red")
        if error.hint:
            click.secho(f"  {printable(error.hint)}", err=True)
