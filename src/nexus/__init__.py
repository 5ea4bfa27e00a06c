"""Nexus: a personal-agent runtime with a memory that you can look inside."""

__version__ = "0.1.0"
