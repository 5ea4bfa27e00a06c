"""The `schedule` tool: an agent makes reminders, and proposes automations for the owner to approve."""

from collections.abc import Awaitable, Callable

from nexus.broker.tools.tool import Arguments, Call, Context, Tool, parameters
from nexus.errors import NexusError, ToolError

Act = Callable[[Arguments, Call], Awaitable[str]]
"""Does what a call asks for, on behalf of its request."""


def schedule_tool(act: Act) -> Tool:
    """A tool that schedules, for whoever the call is made for."""

    async def run(arguments: Arguments, context: Context) -> str:
        if context.call is None:
            raise ToolError("Nothing can be scheduled here")
        try:
            return await act(arguments, context.call)
        except ToolError:
            raise
        except NexusError as error:
            raise ToolError(error.message, hint=error.hint) from error

    return Tool(
        name="schedule",
        description="Later `say` text or `ask` yourself. When: every Monday at 9.",
        parameters=parameters(
            "op",
            op={"type": "string", "enum": ["say", "ask", "list", "delete", "propose"]},
            when={"type": "string"},
            text={"type": "string"},
        ),
        run=run,
        # A call that is made again saves the same reminder, by its key.
        repeatable=True,
    )
