"""The composition root: from a config to objects, to the loop, to what a run leaves behind."""

from geode.runner.run import run_settings

__all__ = ["run_settings"]
