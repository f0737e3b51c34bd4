"""The folder that a run's tools work in."""

from __future__ import annotations

import shutil
from pathlib import Path

from geode.config_errors import ConfigFault
from geode.data import shipped
from geode.settings import Task

__all__ = ["prepare_workspace"]


def prepare_workspace(task: Task, run_dir: Path, *, copy: bool = True) -> Path:
    """Makes the workspace and copies the task's files into it. Raises ConfigFault where a path is no good.

    copy: False leaves the files alone (a run that goes on may have changed them).
    """
    if task.workspace is None:
        workspace = run_dir / "workspace"
        workspace.mkdir(parents=True, exist_ok=True)
    else:
        workspace = Path(task.workspace).expanduser()
        if not workspace.is_dir():
            raise ConfigFault([f"task.workspace: given {task.workspace!r}, allowed: a folder that is there"])
    workspace = workspace.resolve()
    for index, file in enumerate(task.files if copy else ()):
        where = f"task.files.{index}"
        try:
            source = shipped(file.source) or Path(file.source).expanduser()
        except ValueError as error:
            raise ConfigFault([f"{where}.from: {error}"]) from error
        target = (workspace / file.to).resolve()
        if not target.is_relative_to(workspace):
            raise ConfigFault([f"{where}.to: given {file.to!r}, allowed: a path inside the workspace"])
        try:
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                if target.is_dir():
                    target = target / source.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        except OSError as error:
            raise ConfigFault([f"{where}.from: cannot copy {file.source!r}: {error.strerror or error}"]) from error
    return workspace
