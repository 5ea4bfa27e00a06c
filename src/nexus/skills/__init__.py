"""Skills for agents: their folders and scripts, and the socket that the scripts use."""
