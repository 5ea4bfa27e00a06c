"""What can go wrong with a run.

NexusError
└── RunFailedError   what the engine is told of a run that failed: no words that may be somebody's
"""

from nexus.errors import NexusError


class RunFailedError(NexusError):
    """A run failed. What was said is in the home's ledger; the engine hears only where it was."""
