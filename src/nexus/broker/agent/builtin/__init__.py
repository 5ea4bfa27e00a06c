"""A small language model that Nexus runs itself, for people without a key or a server of their own."""

from nexus.broker.agent.builtin.catalog import BUILTIN, DEFAULT, BuiltinModel, is_installed, weights

__all__ = ["BUILTIN", "DEFAULT", "BuiltinModel", "is_installed", "weights"]
