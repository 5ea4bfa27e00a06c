"""Notes of many users in one home: python user_notes.py USER add|ask|correct|forget [TEXT]."""

import os
import sys

from nexus import Memory

HOME = os.environ.get("USER_NOTES_HOME", "~/user-notes")


def main(user: str, action: str, text: str = "") -> int:
    scope = f"user:{user}"
    with Memory(HOME, create=True) as memory:
        if action == "add":
            print(memory.add(text, scope=scope))
        elif action == "ask":
            hits = memory.search(text, scope=scope, limit=3)
            for hit in hits:
                if hit.is_strong:
                    until = f" (until {hit.replaced_by.at:%Y-%m-%d})" if hit.replaced_by else ""
                    print(f"{hit.at:%Y-%m-%d}  {hit.text}{until}")
            if not any(hit.is_strong for hit in hits):
                print("I don't know.")
        elif action == "correct":
            note, _, correction = text.partition("=")
            print(memory.correct(note.strip(), correction, scope=scope))
        elif action == "forget":
            memory.forget_scope(scope)
            print(f"Everything about {scope} is deleted.")
        else:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 2 else main("", "help"))
