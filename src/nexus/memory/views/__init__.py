"""The memory as people look at it: typed reads over the ledgers, and no writes.

Entities are one with all that was merged into them. Every surface reads here what it shows of the memory:
pages, the API, MCP and commands render these types.
"""
