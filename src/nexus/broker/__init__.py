"""Turns an assembled context into a finished turn: session queue, agent loop, tools."""
