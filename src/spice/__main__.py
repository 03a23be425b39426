"""The command `spice`, also available as `python -m spice`."""

import sys


def main() -> None:
    """Run the command; Ctrl-C while its libraries load ends it without a traceback."""
    try:
        from spice.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
