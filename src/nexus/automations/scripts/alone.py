"""A script in a process that was started for it, inside a sandbox: its pipes are the standard ones."""

import os

from nexus.automations.scripts import child

if __name__ == "__main__":
    child.run(None, None, os.dup(0), os.dup(1), os.dup(2))
