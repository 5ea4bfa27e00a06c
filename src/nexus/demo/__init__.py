"""A month of a person's life that nobody lived, to look at Nexus with. The same seed gives the same month."""
