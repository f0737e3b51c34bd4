"""The `geode` command.

`geode [OVERRIDES]` runs; `geode wire|replay|resume|report|tools|doctor ...` do what their modules in
`geode.commands` say. Nothing heavy is imported before it is known what is wanted.

Exit codes: 0 answered (natural, forced_text), 1 ended otherwise, 2 bad config, 130 cancelled.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Sequence

from geode.config_errors import ConfigFault, OutputError, nearest

__all__ = ["entry", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (without the program's name) and returns its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(argv)
    except ConfigFault as fault:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        for line in fault.lines:
            print(f"geode: {line}", file=sys.stderr)
        return 2
    except OutputError as error:
        with contextlib.suppress(OSError):
            print(f"geode: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output is gone: nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        print(f"geode: {text} (a fault of geode's; HYDRA_FULL_ERROR=1 shows where)", file=sys.stderr)
        return 1


def entry() -> None:
    """The console script."""
    for name in ("stdout", "stderr"):  # a stream that the shell has closed
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):  # a console that cannot show a character gets its escape, not a traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main())


def _dispatch(argv: list[str]) -> int:
    from geode.help_page import COMMANDS

    first = argv[0] if argv else ""
    if first in COMMANDS:
        return _command(first, argv[1:])
    if first == "help":
        argv = ["--help"]
    elif first and not first.startswith("-") and "=" not in first and not first.startswith("~"):
        from geode.config_errors import secret_in

        names = list(COMMANDS)
        if hidden := secret_in("argument 1", first):
            raise ConfigFault(hidden)
        allowed = f"allowed: {', '.join(names)}, or KEY=VALUE{nearest(first, names)}"
        raise ConfigFault([f"{first}: unknown command, {allowed}"])
    if "--help" in argv or "-h" in argv:
        from geode.help_page import help_page
        from geode.overrides import read

        print(help_page(read(argv).config_dirs), end="")
        return 0
    if "--version" in argv:
        from geode import __version__

        print(f"geode {__version__}")
        return 0
    from geode.run_command import run

    return run(argv)


def _command(name: str, argv: list[str]) -> int:
    module = f"geode.commands.{name.replace('-', '_')}"
    if importlib.util.find_spec("geode.commands") is None or importlib.util.find_spec(module) is None:
        raise ConfigFault([f"{name}: not in this build of geode"])
    code: int = importlib.import_module(module).main(argv)
    return code


if __name__ == "__main__":
    entry()
