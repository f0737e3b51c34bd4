"""The end of a sweep: a table of its jobs on the console and `summary.csv` in the sweep's folder.

A Hydra callback. It reads the files that the jobs left, so it works whatever launcher ran them.
"""

from __future__ import annotations

import contextlib
import csv
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, flag_override

__all__ = ["FAILURE_FILE", "Job", "SweepSummary", "read_jobs", "summarise"]

FAILURE_FILE = "failure.json"
"""What a job that never got a result leaves: {kind: config | crash, lines: [...]}."""

_COLUMNS = (
    "job", "overrides", "termination_reason", "rounds", "tool_calls", "input_tokens", "output_tokens", "cost_usd",
    "elapsed_s", "error", "folder",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """A row. `reason` is the run's termination reason, or `config error`, `crash` or `no result`."""

    number: str
    overrides: tuple[str, ...]
    reason: str
    rounds: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost: float
    elapsed_s: float
    error: str
    folder: Path

    @property
    def ran(self) -> bool:
        return self.reason not in ("config error", "crash", "no result")


class SweepSummary(Callback):
    """Refuses configs that hold secrets before anything is written, and sums a sweep up at its end.

    A sweep's exit code: 0 if every job ran to a termination reason, 2 if all of them had a bad config, else 1.
    """

    def __init__(self) -> None:
        self._since = 0.0

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        _refuse_secrets(config)
        _refuse_faults(config)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        _refuse_secrets(config)
        _spell_params(config)
        self._since = time.time()

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(str(OmegaConf.select(config, "hydra.sweep.dir")))
        code = summarise(folder, since=self._since)
        if code:  # Hydra swallows a callback's exceptions, but not this one
            raise SystemExit(code)


def _refuse_secrets(config: DictConfig) -> None:
    from geode.settings_check import secret_faults

    _refuse(secret_faults(OmegaConf.to_container(config, resolve=False)))  # type: ignore[arg-type]


def _spell_params(config: DictConfig) -> None:
    """The sweep that a recipe brings, spelled as the command line's overrides are, so that these take its place."""
    from geode.compose import config_dirs_of
    from geode.groups import read_groups
    from geode.overrides import spelled

    params = OmegaConf.select(config, "hydra.sweeper.params")
    if not params:
        return
    groups = read_groups(config_dirs_of(config.hydra))
    renamed = {spelled(f"{key}={value}", groups).partition("=")[0]: value for key, value in params.items()}
    with flag_override(config, ["readonly", "struct"], False):
        config.hydra.sweeper.params = renamed


def _refuse_faults(config: DictConfig) -> None:
    """A bad config leaves no folder behind. What refers to the run's folder is checked in the run itself."""
    from geode.compose import config_dirs_of, settings_of
    from geode.config_errors import ConfigFault

    params = OmegaConf.select(config, "hydra.sweeper.params")
    if params:
        recipe = OmegaConf.select(config, "hydra.runtime.choices.recipe")
        if recipe is None:  # a list of them
            words = (str(word).lstrip("+").partition("=") for word in config.hydra.overrides.task)
            recipe = next((value for key, _, value in words if key == "recipe"), None)
        _refuse([f"recipe: given {recipe!r}, which is a sweep, allowed: with -m only, e.g. geode -m +recipe={recipe}"])
    plain = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    if "${hydra:" in OmegaConf.to_yaml(plain):
        return
    try:
        settings_of(plain, config_dirs_of(config.hydra))
    except ConfigFault as fault:
        _refuse(fault.lines)


def _refuse(faults: Sequence[str]) -> None:
    for line in faults:
        print(f"geode: {line}", file=sys.stderr)
    if faults:  # Hydra swallows a callback's exceptions, but not this one
        raise SystemExit(2)


def summarise(folder: Path, *, since: float = 0.0) -> int:
    """Prints the table, writes `summary.csv`, gives the exit code. Leaves out jobs from before `since` (Unix time)."""
    jobs = read_jobs(folder, since=since)
    if not jobs:
        return 1
    code = 0 if all(job.ran for job in jobs) else 1
    if all(job.reason == "config error" for job in jobs):
        code = 2
    try:
        _write_csv(folder / "summary.csv", jobs)
        print(table(jobs))
        word = "job" if len(jobs) == 1 else "jobs"
        ran = sum(job.ran for job in jobs)
        print(f"[{len(jobs)} {word}, {ran} ran to an end · {folder / 'summary.csv'}]", flush=True)
    except OSError as error:
        with contextlib.suppress(OSError):
            print(f"geode: the table of the sweep cannot be written: {error}", file=sys.stderr)
        return code or 1
    return code


def _write_csv(path: Path, jobs: Sequence[Job]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for job in jobs:
            writer.writerow(
                [
                    job.number,
                    " ".join(job.overrides),
                    job.reason,
                    job.rounds,
                    job.tool_calls,
                    job.input_tokens,
                    job.output_tokens,
                    f"{job.cost:.6f}",
                    f"{job.elapsed_s:.3f}",
                    job.error,
                    job.folder.name,
                ]
            )


def read_jobs(folder: Path, *, since: float = 0.0) -> list[Job]:
    """The jobs of a sweep's folder, by number."""
    jobs = []
    for overrides in folder.glob("**/.hydra/overrides.yaml"):
        if overrides.stat().st_mtime >= since - 1:
            jobs.append(_job(overrides.parent.parent))
    return sorted(jobs, key=lambda job: (not job.number.isdigit(), int(job.number) if job.number.isdigit() else 0))


def _job(folder: Path) -> Job:
    hydra: Any = OmegaConf.load(folder / ".hydra" / "hydra.yaml")
    number = str(OmegaConf.select(hydra, "hydra.job.num"))
    given: Any = OmegaConf.load(folder / ".hydra" / "overrides.yaml")
    overrides = tuple(str(word).lstrip("+") for word in given)
    result = _json(folder / "result.json")
    failure = _json(folder / FAILURE_FILE)
    if result is None or (failure is not None and _newer(folder / FAILURE_FILE, folder / "result.json")):
        reason = "no result" if failure is None else {"config": "config error"}.get(failure.get("kind", ""), "crash")
        lines = failure.get("lines", []) if failure else []
        return Job(number, overrides, reason, 0, 0, 0, 0, 0.0, 0.0, "; ".join(lines), folder)
    usage, error = result.get("usage") or {}, result.get("error") or {}
    inputs = ("input_tokens", "cache_read_tokens", "cache_write_tokens")
    return Job(
        number=number,
        overrides=overrides,
        reason=str(result.get("termination_reason")),
        rounds=result.get("rounds") or 0,
        tool_calls=result.get("tool_calls") or 0,
        input_tokens=sum(usage.get(name) or 0 for name in inputs),
        output_tokens=usage.get("output_tokens") or 0,
        cost=result.get("cost") or 0.0,
        elapsed_s=result.get("elapsed_s") or 0.0,
        error=str(error.get("message", "")) if isinstance(error, dict) else str(error),
        folder=folder,
    )


def _newer(path: Path, other: Path) -> bool:
    return path.stat().st_mtime_ns > other.stat().st_mtime_ns


def _json(path: Path) -> dict[str, Any] | None:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return loaded if isinstance(loaded, dict) else None


def table(jobs: Sequence[Job]) -> str:
    """The jobs as an aligned table. Overrides that all jobs share are left out."""
    from geode.display import clean

    shared = set.intersection(*(set(job.overrides) for job in jobs)) if len(jobs) > 1 else set()
    rows = [("job", "overrides", "reason", "rounds", "calls", "tokens", "cost", "time")]
    for job in jobs:
        own = [word for word in job.overrides if word not in shared]
        rows.append(
            (
                job.number,
                " ".join(own) or "-",
                job.reason,
                str(job.rounds),
                str(job.tool_calls),
                f"{job.input_tokens + job.output_tokens:,}",
                f"${job.cost:.4f}",
                f"{job.elapsed_s:.1f} s",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
        if number and jobs[number - 1].error:
            lines.append(f"     {clean(jobs[number - 1].error)[:160]}")
    return "\n".join(lines)
