"""`python -m penstock`: the command line, for environments whose `penstock` is not on the PATH."""

from __future__ import annotations

import sys

from penstock.pipelines.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
