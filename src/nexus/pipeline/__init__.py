"""The eight stages that a message goes through, from coming in to being answered."""

from nexus.pipeline.incoming import Incoming
from nexus.pipeline.pipeline import Pipeline

__all__ = ["Incoming", "Pipeline"]
