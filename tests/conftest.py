"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import site
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest
from cli_kit import Ran, RunGeode, clean_environ, run_geode

pytest.register_assert_rewrite("loop_kit")


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """No credential, proxy or personal setting of whoever runs the tests reaches them, nor theirs the home folder."""
    kept = clean_environ()
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name not in kept and not name.startswith("GEODE_TEST_"):
                patch.delenv(name)
        patch.setenv("PYTHONUSERBASE", site.getuserbase())
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture
def geode(tmp_path: Path) -> RunGeode:
    """`geode("adapter=scripted", ...)` runs the command and returns a `Ran`."""

    def run(
        *args: str,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout: float = 60,
        fresh: bool = False,
    ) -> Ran:
        return run_geode(args, tmp_path, env, stdin, timeout, fresh=fresh)

    return run


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector need not go through it again and again (a tenth of all time)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


HEAVY = ("clis", "node", "local", "otel", "joblib", "bwrap", "slow")
"""Marks of tests that need something that `pip install '.[test]'` does not bring, or that take long."""

IN_CI = os.environ.get("GEODE_TEST_HEAVY") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.get_closest_marker(name) for name in HEAVY):
            item.add_marker("heavy")
        if item.get_closest_marker("slow") and not IN_CI:
            item.add_marker(pytest.mark.skip(reason="slow: GEODE_TEST_HEAVY=1 runs it"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything heavy was installed, a heavy test that skips has not been run: that is a failure."""
    report = yield
    if IN_CI and report.skipped and item.get_closest_marker("heavy") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"skipped where it must run: {reason}"
    return report
