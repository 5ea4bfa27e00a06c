"""Ids of executions. The order of a session rests on them wherever the database's own clock ties."""

from nexus import ids


def new() -> str:
    """A new id such as `exe_01JCQ3…`."""
    return ids.new("exe")
