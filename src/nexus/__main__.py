"""`python -m nexus` is the `nexus` program."""

from nexus.cli import main

if __name__ == "__main__":
    main()
