from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clis: needs the real claude and codex command lines (GEODE_TEST_CLIS)")
