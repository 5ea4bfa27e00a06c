"""What the home knows: it stores and finds, and never calls a language model."""
