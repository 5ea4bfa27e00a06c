"""The memory as people look at it: typed reads over the ledgers, and no writes.

Entities are one with all that was merged into them. Every surface reads here what it shows of the memory:
pages and the API as these types, a page at a time; commands, by `plain`, as values that can be printed.
"""
