"""The command `sparkpace`, and all that an installed Sparkpace shows to `import`.

In a wheel this file is `sparkpace/__init__.py`, next to the packages that the project's root holds here.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run the command. Only this process finds our packages, before any others of the same names."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from controller.cli.main import main as command

    command()
