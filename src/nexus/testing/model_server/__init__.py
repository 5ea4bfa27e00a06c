"""A model server for tests: real HTTP in two wire formats, with scripted turns and failures.

What a test uses is exported by `nexus.testing`.
"""
