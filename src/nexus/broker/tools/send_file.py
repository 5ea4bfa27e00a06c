"""The `send_file` tool: a file leaves with the answer, on channels that can send files."""

import asyncio
import hashlib
import json
import mimetypes
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import PurePath
from typing import Any, Final, cast

from nexus import attachments
from nexus.attachments import Attachment
from nexus.broker.tools import files
from nexus.broker.tools.tool import Arguments, Context, Tool, parameters
from nexus.config import AttachmentsConfig
from nexus.home import Home

NAME: Final = "send_file"


def send_file_tool(home: Home, config: AttachmentsConfig) -> Tool:
    """A tool that keeps a file in the home, for the answer to take along."""

    async def run(arguments: Arguments, context: Context) -> str:
        path: str = arguments["path"]
        data = await files.contents(path, config.max_bytes, context)
        attachment = _describe_file(PurePath(path).name, data)
        await asyncio.to_thread(attachments.keep, home, attachment, data)
        return json.dumps({"sent with your answer": asdict(attachment)})

    return Tool(
        name=NAME,
        description="Send a file along with your answer.",
        parameters=parameters("path", path={"type": "string"}),
        run=run,
        # The same file is kept once.
        repeatable=True,
    )


def list_chosen(results: Iterable[str], most: int) -> tuple[Attachment, ...]:
    """The files that calls of the tool chose, each once, in order."""
    found: dict[Attachment, None] = {}
    for result in results:
        value = cast("dict[str, Any]", json.loads(result))
        found[Attachment.from_json(value["sent with your answer"])] = None
    return tuple(found)[:most]


def _describe_file(name: str, data: bytes) -> Attachment:
    guessed, _ = mimetypes.guess_type(name)
    return Attachment(
        name=name,
        media_type=guessed or attachments.detect_type(data) or "application/octet-stream",
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
