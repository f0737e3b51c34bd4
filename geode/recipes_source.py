"""Puts recipes/ on Hydra's search path as the group `recipe`.

Hydra's file source wants a folder named after the group; this source lets recipes/NAME.yaml be `recipe=NAME`. Both
classes are registered in-process, so nothing has to be installed as a Hydra plugin.
"""

from __future__ import annotations

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from geode.data import recipes_dir

__all__ = ["register"]

_GROUP = "recipe"


class RecipeSource(ConfigSource):
    """A flat folder of recipes. A recipe's keys are global (`# @package _global_`)."""

    @staticmethod
    def scheme() -> str:
        return "geode-recipes"

    def _file(self, config_path: str) -> Path | None:
        group, _, name = config_path.partition("/")
        if group != _GROUP or not name or "/" in name:
            return None
        return Path(self.path) / f"{name.removesuffix('.yaml')}.yaml"

    def load_config(self, config_path: str) -> ConfigResult:
        file = self._file(config_path)
        if file is None or not file.is_file():
            raise ConfigLoadError(f"Config not found: {config_path}")
        return ConfigResult(
            provider=self.provider,
            path=f"{self.scheme()}://{self.path}",
            config=OmegaConf.load(file),
            header={"package": "_global_"},
        )

    def available(self) -> bool:
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        return config_path.strip("/") in ("", _GROUP)

    def is_config(self, config_path: str) -> bool:
        file = self._file(config_path)
        return file is not None and file.is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        path = config_path.strip("/")
        if path == "":
            return [] if results_filter == ObjectType.CONFIG else [_GROUP]
        if path != _GROUP or results_filter == ObjectType.GROUP:
            return []
        return sorted(file.stem for file in Path(self.path).glob("*.yaml"))


class RecipeSearchPath(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("geode-recipes", f"{RecipeSource.scheme()}://{recipes_dir()}")


def register() -> None:
    """Makes Hydra know recipes/. Safe to call again."""
    plugins = Plugins.instance()
    plugins.register(RecipeSource)
    plugins.register(RecipeSearchPath)
