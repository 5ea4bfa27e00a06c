"""The memory in other people's agents, on the public `Memory` and `AsyncMemory` alone.

Each module needs the library that it is for and is imported by its own name:
`nexus.integrations.openai`, `pydantic_ai`, `langgraph` and `openai_agents`.
"""
