"""`python -m agentbox` is the command `agentbox`."""

import sys

from agentbox.cli import main

if __name__ == "__main__":
    sys.exit(main())
