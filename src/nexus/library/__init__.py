"""The memory as a library: the home's ledgers and recall, without agent, engine, channels or server.

`AsyncMemory` does the work; `Memory` runs one on a thread of its own. A scope is a channel: what is recorded
on it is seen, corrected and forgotten there alone, and the names of its entities mean nothing outside it.
Every fact has an event as its source: the message that it was taken from, or a note of its own words.
"""
