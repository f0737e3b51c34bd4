"""Callables that a config names by `_target_`: hooks and tool handlers. Nothing else in a config is imported."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from geode.config_errors import ConfigFault

__all__ = ["load_target"]


def load_target(where: str, reference: Mapping[str, Any]) -> Callable[..., Any]:
    """The callable at `reference["_target_"]`; with further keys, or a class, what calling it with them gives.

    Raises ConfigFault with one line that names `where`.
    """
    from hydra.utils import get_object

    logging.getLogger("hydra.utils").setLevel(logging.CRITICAL)  # a failure is said below, in one line
    path = str(reference["_target_"])
    arguments = {key: value for key, value in reference.items() if key != "_target_"}
    try:
        found = get_object(path)
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise ConfigFault([f"{where}._target_: cannot import {path!r}: {reason}"]) from error
    if arguments or inspect.isclass(found):
        try:
            found = found(**arguments)
        except (Exception, SystemExit) as error:
            raise ConfigFault([f"{where}: {path} could not be made: {type(error).__name__}: {error}"]) from error
    if not callable(found):
        raise ConfigFault([f"{where}._target_: {path!r} is {type(found).__name__}, allowed: a callable"])
    return found  # type: ignore[no-any-return]
