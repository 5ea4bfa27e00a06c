"""The dashboard: pages that are made here and work with next to no script in the browser."""

from nexus.gateway.dashboard.routes import join

__all__ = ["join"]
