"""`nexus memory`: look at what is known about whom, and say who is who."""

import click

from nexus.cli import memory_conclusions, memory_merges, memory_profile, memory_scripts, memory_views


@click.group()
def memory() -> None:
    """Look at what is known about whom, and say who is who."""


for _command in (
    memory_views.entities,
    memory_views.show,
    memory_views.timeline,
    memory_views.facts,
    memory_views.episodes,
    memory_profile.profile,
    memory_conclusions.observations,
    memory_conclusions.consolidate,
    memory_merges.candidates,
    memory_merges.merge,
    memory_merges.unmerge,
    memory_merges.reject,
    memory_views.stats,
    memory_scripts.embeddings,
    memory_scripts.successions,
    memory_scripts.seals,
    memory_scripts.search,
    memory_scripts.write,
):
    memory.add_command(_command)
