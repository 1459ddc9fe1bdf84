"""A command that kills itself: `python -m tests.chaos.source_child KILL COMMAND...`, with KILL as in `mysql_child`."""

from __future__ import annotations

import sys

from penstock.pipelines.commands.main import main
from tests.chaos.mysql_child import plant

if __name__ == "__main__":
    plant(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
