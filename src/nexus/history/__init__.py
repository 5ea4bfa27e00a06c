"""History from elsewhere: exports of other assistants, mail and chats, imported as messages of the past."""

from nexus.history.importer import Importer
from nexus.history.source import Options, Source
from nexus.history.sources import SOURCES, open_source
from nexus.history.uploads import Choices, ImportJobs, Job, Preview, preview

__all__ = [
    "SOURCES",
    "Choices",
    "ImportJobs",
    "Importer",
    "Job",
    "Options",
    "Preview",
    "Source",
    "open_source",
    "preview",
]
