"""Scripts: read from disk, held to what was registered, run in a process of their own."""
