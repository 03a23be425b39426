"""`python -m spice`: the command, where it is not on the path."""

from spice.cli import main

if __name__ == "__main__":
    main()
