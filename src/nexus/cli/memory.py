"""`nexus memory`: look at what is known about whom, and say who is who."""

import click

from nexus.cli import memory_conclusions, memory_review, memory_scripts, memory_views


@click.group()
def memory() -> None:
    """Inspect and edit the memory: entities, facts, merges."""


for _command in (
    memory_views.entities,
    memory_views.show,
    memory_views.timeline,
    memory_views.facts,
    memory_views.episodes,
    memory_review.add,
    memory_review.correct,
    memory_review.keep_both,
    memory_review.pin,
    memory_review.unpin,
    memory_review.review,
    memory_conclusions.profile,
    memory_conclusions.observations,
    memory_conclusions.consolidate,
    memory_views.candidates,
    memory_views.merge,
    memory_views.unmerge,
    memory_views.reject,
    memory_views.stats,
    memory_scripts.embeddings,
    memory_scripts.successions,
    memory_scripts.seals,
    memory_scripts.search,
    memory_scripts.write,
):
    memory.add_command(_command)
