"""Files that came with messages: copied from an export into the home, kept by their hash like any other."""

import io
from typing import Any, Final

from nexus import attachments
from nexus.history import files
from nexus.history.items import Attachment, Message
from nexus.home import Home
from nexus.ledgers.events.imports import Attached, SetAsides, Unrecorded

_MOST_OF_A_MESSAGE: Final = 200


class Files:
    """The files of one import. At most `most_bytes` of one are copied, piece by piece."""

    def __init__(self, home: Home, source: files.Files, most_bytes: int, import_id: str) -> None:
        self._home = home
        self._source = source
        self._most_bytes = most_bytes
        self._unrecorded = Unrecorded(home, import_id)

    def settle(self) -> None:
        """Note that the messages of all files are recorded."""
        self._unrecorded.settle()

    def keep(self, message: Message, set_aside: SetAsides) -> tuple[Attached, ...]:
        """Copy the files of a message. What can't be copied is described, and counted as set aside."""
        return tuple(self._one(each, set_aside) for each in message.attachments[:_MOST_OF_A_MESSAGE])

    def _one(self, file: Attachment, set_aside: SetAsides) -> Attached:
        if self._most_bytes <= 0:
            return _described(file)
        try:
            stream = self._opened(file)
            if stream is None:
                return _described(file)
            with stream as held:
                kept = attachments.keep_stream(
                    self._home,
                    held,
                    name=file.name,
                    media_type=file.media_type,
                    most_bytes=self._most_bytes,
                    note=self._unrecorded.note,
                )
        except (OSError, EOFError, KeyError) as error:
            set_aside.add(f"an attachment is damaged: {error}", file.member or file.name or "")
            return _described(file)
        if kept is None:
            reason = f"an attachment is larger than {self._most_bytes:,} bytes; only its name is kept"
            set_aside.add(reason, file.member or file.name or "")
            return _described(file)
        return Attached(
            filename=file.name,
            media_type=kept.media_type,
            size_bytes=kept.size_bytes,
            sha256=kept.sha256,
            path=kept.path,
        )

    def _opened(self, file: Attachment) -> Any:
        """A context manager that gives the bytes of a file; None where the export lacks them."""
        if file.data is not None:
            return io.BytesIO(file.data)
        return None if file.member is None else self._source.open(file.member)


def _described(file: Attachment) -> Attached:
    return Attached(filename=file.name, media_type=file.media_type, size_bytes=file.size_bytes, sha256=None)
