"""What an agent is given to work with: skill folders, their scripts, and the socket that the scripts use."""
