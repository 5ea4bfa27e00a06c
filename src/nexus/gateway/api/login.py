"""Ways in: a login link for a browser."""

from fastapi import Request
from pydantic import BaseModel, Field

from nexus.gateway.browsers import LINK_S
from nexus.gateway.dependencies import HomeKeys, ServedApp, api_router
from nexus.gateway.guard import LOGIN, public_address

router = api_router("login")


class Link(BaseModel):
    """A login link."""

    url: str = Field(description="Open it in a browser. It works once.")
    valid_s: int = Field(description="Validity.")


@router.post("/login-links", status_code=201)
async def make_login_link(request: Request, app: ServedApp, keys: HomeKeys) -> Link:
    """Create a login link that works once, within ten minutes."""
    public = public_address(app.config.gateway.public_url)
    base = public.origin if public else str(request.base_url)
    return Link(url=login_url(base, keys.new_code()), valid_s=LINK_S)


def login_url(base: str, code: str) -> str:
    """The link as a person opens it."""
    return f"{base.rstrip('/')}{LOGIN}?code={code}"
