"""``python -m quantgraph``: the command."""

from quantgraph.cli import main

if __name__ == "__main__":
    main()
