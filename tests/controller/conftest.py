"""The home with which tests of several folders begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Provide a home with tokens and without a cluster."""
    made = Home(tmp_path / "home")
    made.create()
    return made
