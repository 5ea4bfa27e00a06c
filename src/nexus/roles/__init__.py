"""What calls a language model by itself: the memory's own automations, each with its ROLE.md."""
