"""The page of hook points, from nexus.automations.hook_points."""

from nexus.automations.hook_points import HOOK_POINTS, RETURNS, HookPoint
from nexus.config import AutomationsConfig
from pages import hook_picture, markdown

_ABOUT = """\
Where [automations](../concepts/automations.md) can run, in the order a message reaches them. The last five
are not part of a message's path. Automations can be blocking or async everywhere except at `schedule`, where
nothing waits for them."""

# The markers let other pages show the same picture.
_FIGURE = """\
<!-- --8<-- [start:picture] -->
<figure class="diagram" markdown="0">
{picture}
</figure>
<!-- --8<-- [end:picture] -->"""


def _budget(point: HookPoint) -> str:
    default = point.budget_ms(AutomationsConfig())
    return f"{default:,} ms (`{point.budget}`)" if default else "none blocks"


def page() -> str:
    parts = markdown.front("Hook points", "src/nexus/automations/hook_points.py", _ABOUT)
    parts.append(_FIGURE.format(picture=hook_picture.picture()))
    for point in HOOK_POINTS:
        returns = ", ".join(markdown.code(each) for each in point.returns)
        parts += [
            f"## `{point.name}`",
            point.when,
            markdown.table(
                ["Receives", "May return", "Time for all blocking ones"],
                [[point.receives, returns, _budget(point)]],
            ),
        ]
    parts += [
        "## What may be returned",
        "An automation returns nothing, or an object with some of these keys. `reply` and `remember` may be "
        "returned from `after:resolveAccess` on; `log` and `flag` anywhere. A result that nothing reads, "
        "such as `enrich` of an async automation or a change of `ctx.request` in a script, is a warning in "
        "`nexus automations logs` and an error in `nexus automations test`.",
        markdown.table(
            ["Key", "Meaning"], [[markdown.code(key), field.about] for key, field in RETURNS.items()]
        ),
    ]
    return markdown.join(parts)
