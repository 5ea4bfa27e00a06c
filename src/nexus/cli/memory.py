"""`nexus memory`: look at what is known about whom, and say what is true and who is who."""

import click

from nexus.cli import memory_conclusions, memory_review, memory_scripts, memory_views


@click.group(short_help="Duplicates, episodes, conclusions, scripts.")
def advanced() -> None:
    """Everything else: duplicates, episodes, conclusions, indexes and scripts.

    These also work without `advanced`, as in `nexus memory write`.
    """


class _Front(click.Group):
    """The commands of everyday. The others are found here too, so that `nexus memory write` works."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or advanced.get_command(ctx, cmd_name)


@click.group(cls=_Front)
def memory() -> None:
    """See and correct what Nexus knows: facts, people, changes."""


for _command in (
    memory_views.facts,
    memory_views.people,
    memory_views.changes,
    memory_views.show,
    memory_review.add,
    memory_review.correct,
    memory_review.keep_both,
    memory_review.pin,
    memory_review.unpin,
    memory_review.review,
    memory_conclusions.profile,
    advanced,
):
    memory.add_command(_command)

for _command in (
    memory_views.entities,
    memory_views.timeline,
    memory_views.episodes,
    memory_conclusions.observations,
    memory_conclusions.models,
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
    advanced.add_command(_command)
