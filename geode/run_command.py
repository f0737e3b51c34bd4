"""`geode` itself: composes through Hydra and runs, once or as a sweep."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geode import overrides
from geode.config_errors import ConfigFault, OutputError
from geode.displayed_run import CANCELLED, exit_code, run_displayed
from geode.groups import read_groups

if TYPE_CHECKING:
    from omegaconf import DictConfig


__all__ = ["run"]


def run(argv: Sequence[str]) -> int:
    """Runs with Hydra's command line. Returns the exit code. Raises ConfigFault."""
    line = overrides.read(argv)
    from geode.compose import check_overrides

    check_overrides(line)
    groups = read_groups(line.config_dirs)
    words = overrides.normalise(line, groups)

    import hydra

    from geode.compose import composition_lines, version_base
    from geode.data import conf_dir
    from geode.recipes_source import register

    traceback = os.environ.get("HYDRA_FULL_ERROR") == "1"
    config_dirs = line.config_dirs
    codes: list[int] = []
    sweeps: list[Path] = []

    def job(config: DictConfig) -> int:
        code, sweep = run_job(config, config_dirs, traceback=traceback)
        codes.append(code)
        if sweep is not None:
            sweeps[:] = [sweep]
            if code == CANCELLED:
                raise KeyboardInterrupt
        return code

    register()
    sys.argv = ["geode", *words]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises; the line is printed here
    try:
        hydra.main(config_path=str(conf_dir()), config_name="config", **version_base())(job)()
    except Exception as error:
        if traceback:
            raise
        raise ConfigFault(composition_lines(error, line, groups)) from error
    except KeyboardInterrupt:
        if sweeps:
            from geode.experiments.sweep import summarise

            summarise(sweeps[0])
        return CANCELLED
    finally:
        if not traceback:
            del os.environ["HYDRA_FULL_ERROR"]
    return codes[-1] if len(codes) == 1 and not line.multirun else 0


def run_job(config: DictConfig, config_dirs: Sequence[str], *, traceback: bool) -> tuple[int, Path | None]:
    """Runs one composed config in its Hydra output folder.

    Returns the exit code, and in a sweep the sweep's folder. Nothing but a cancel leaves it as an exception, so that
    one bad job does not stop a sweep.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from geode.compose import settings_of

    hydra = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir)
    sweep = Path(hydra.sweep.dir) if hydra.mode == RunMode.MULTIRUN else None
    try:
        settings = settings_of(config, config_dirs)
        if sweep is not None:
            words = [str(word).lstrip("+") for word in hydra.overrides.task]
            _say(f"job {hydra.job.num}: {' '.join(words)}")
        result = run_displayed(settings, folder, in_sweep=sweep is not None)
    except ConfigFault as fault:
        if traceback and sweep is None:
            raise
        _leave(folder, "config", fault.lines)
        for text in fault.lines:
            _say(f"geode: {text}")
        return 2, sweep
    except OutputError as error:
        _say(f"geode: {error}")
        return 1, sweep
    except KeyboardInterrupt:
        return CANCELLED, sweep
    except Exception as error:
        if traceback and sweep is None:
            raise
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        _leave(folder, "crash", [text])
        _say(f"geode: {text} (a fault of geode's; HYDRA_FULL_ERROR=1 shows where)")
        return 1, sweep
    return exit_code(result), sweep


def _say(text: str) -> None:
    """A line on standard error, if anyone reads it: that nobody does stops no job."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _leave(folder: Path, kind: str, lines: Sequence[str]) -> None:
    from geode.experiments.sweep import FAILURE_FILE

    content: dict[str, Any] = {"kind": kind, "lines": list(lines)}
    with contextlib.suppress(OSError):
        (folder / FAILURE_FILE).write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
