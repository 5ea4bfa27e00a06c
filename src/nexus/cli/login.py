"""`nexus login`: ways into a home that is served, for a browser and for programs."""

import click

from nexus.cli.place import opened_home
from nexus.errors import GatewayError
from nexus.serving import serving


@click.command()
@click.option("--token", is_flag=True, help="Print the token, for programs that use the API.")
@click.pass_context
def login(ctx: click.Context, token: bool) -> None:
    """Print a link that opens the dashboard, once and within ten minutes.

    The home must be served: `nexus up`.
    """
    home, _ = opened_home(ctx)
    if token:
        click.echo(home.token())
        return
    service = serving(home)
    if service is None or not service.url:
        raise GatewayError(f"The home at {home.root} is not served", hint="Start it with `nexus up`.")
    # Imported here, because it takes longer than `nexus login --token` may.
    import httpx

    try:
        answer = httpx.post(
            f"{service.url}/api/login-links", headers={"authorization": f"Bearer {home.token()}"}
        )
    except httpx.HTTPError as error:
        raise GatewayError(
            f"Process {service.pid} does not answer at {service.url}: {error}",
            hint="Start it anew.",
        ) from None
    click.echo(answer.raise_for_status().json()["url"])
