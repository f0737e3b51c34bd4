"""The commands that only read, and for each the options that keep it so."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a command may be given.

    short: letters that may stand after one dash, alone or together, with digits or `=`/text attached after a letter in
    `valued`. long: names that may stand after two dashes (with or without `=value`), matched whole, since
    abbreviations could name another option. any_option: no option of this command writes or runs anything.
    max_operands: most arguments that are no options (values of options count). check: a last look at all arguments.
    globs: unquoted patterns are fine in spite of a check, whatever number of names they expand to.
    subcommands: the first argument chooses a rule of its own.
    """

    short: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()
    any_option: bool = False
    max_operands: int | None = None
    check: Callable[[Sequence[str]], str | None] | None = None
    globs: bool = False
    subcommands: Mapping[str, Rule] | None = None

    @property
    def harmless(self) -> bool:
        """No argument at all can make it write or run something."""
        return self.any_option and self.check is None

    def allows(self, argument: str) -> bool:
        """True for an option that stands on the lists."""
        if argument.startswith("--"):
            return argument[2:].partition("=")[0] in self.long
        for at, letter in enumerate(argument[1:], start=2):
            if letter in self.valued:
                return True
            if letter not in self.short:
                return argument[1:].isdigit() and "0" in self.short and at == 2
        return True


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _options(short: str = "", valued: str = "", long: str = "", **more: object) -> Rule:
    return Rule(short, valued, _words(long), **more)  # type: ignore[arg-type]


_ANY = Rule(any_option=True)

_SED_PRINT = re.compile(r"(\d+|\$)?(,(\d+|\$))?p")


def _sed(arguments: Sequence[str]) -> str | None:
    """`sed -n 10,20p FILE...` and nothing else: scripts can write files and, in GNU sed, run commands."""
    if len(arguments) < 2 or arguments[0] != "-n" or not _SED_PRINT.fullmatch(arguments[1]):
        return "only `sed -n FROM,TOp FILE` is read-only"
    if any(argument.startswith("-") for argument in arguments[2:]):
        return "options after the script are not on the list"
    return None


_FIND_WITH_VALUE = _words(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -atime "
    "-ctime -mmin -amin -cmin -newer -anewer -cnewer -maxdepth -mindepth -perm -user -group -uid -gid -links -inum "
    "-samefile -lname -ilname -printf"
)
_FIND_PLAIN = _words(
    "-print -print0 -ls -empty -executable -readable -writable -nouser -nogroup -depth -d -mount -xdev -daystart "
    "-follow -noleaf -prune -quit -true -false -not -a -o -and -or -L -P -H"
)


def _find(arguments: Sequence[str]) -> str | None:
    """Every test and action must be known: -delete, -exec, -ok, -fprint, -fls and their kin are not."""
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in _FIND_WITH_VALUE:
            skip = True
        elif argument.startswith("-") and argument not in _FIND_PLAIN:
            return f"{argument} is not on the list"
    return None


def _env(arguments: Sequence[str]) -> str | None:
    return "env with arguments runs a command" if arguments else None


_GIT_FORMAT = (
    "oneline stat shortstat numstat name-only name-status graph decorate no-decorate all author committer since until "
    "after before grep format pretty date abbrev-commit no-abbrev-commit reverse first-parent merges no-merges follow "
    "max-count skip patch no-patch raw summary color no-color word-diff cached staged no-ext-diff no-textconv unified "
    "ignore-all-space ignore-space-change ignore-blank-lines minimal patience histogram diff-filter find-renames "
    "topo-order date-order left-right cherry-pick branches tags remotes full-history"
)
_GIT_LOG = _options("0pnqsugiEF", "nSGLUMC", _GIT_FORMAT)


def _list_only(arguments: Sequence[str]) -> str | None:
    """`git branch` and `git tag` with a name create one, so that names need --list before them."""
    names = [a for a in arguments if not a.startswith("-")]
    return "a name creates something (use --list before a pattern)" if names and "--list" not in arguments else None


def _git_remote(arguments: Sequence[str]) -> str | None:
    return None if list(arguments) in ([], ["-v"], ["--verbose"]) else "only `git remote -v` is read-only"


def _git_stash(arguments: Sequence[str]) -> str | None:
    return None if list(arguments) == ["list"] else "only `git stash list` is read-only"


def _git_config(arguments: Sequence[str]) -> str | None:
    if list(arguments) in (["--list"], ["-l"]) or (
        len(arguments) == 2 and arguments[0] in ("--get", "--get-all") and not arguments[1].startswith("-")
    ):
        return None
    return "only --list and --get are read-only"


_GIT = Rule(
    subcommands={
        "status": _options("sbuvz", "u", "short branch porcelain long ignored untracked-files show-stash ahead-behind"),
        "log": _GIT_LOG,
        "show": _GIT_LOG,
        "diff": _GIT_LOG,
        "shortlog": _options("snec", "", "summary numbered email since until no-merges all"),
        "blame": _options("lstfewnpcCM", "L", "porcelain line-porcelain date since show-email root"),
        "branch": _options(
            "avrvl", "", "all remotes list verbose contains merged no-merged show-current", check=_list_only
        ),
        "tag": _options("ln", "", "list contains merged no-merged points-at sort", check=_list_only),
        "remote": Rule(any_option=True, check=_git_remote),
        "stash": Rule(any_option=True, check=_git_stash),
        "config": Rule(any_option=True, check=_git_config),
        "ls-files": _options(
            "cdmosuktvz", "x", "cached deleted modified others stage unmerged killed exclude-standard"
        ),
        "ls-tree": _options("drtlz", "", "long name-only name-status full-name full-tree abbrev"),
        "rev-parse": _options("", "", "show-toplevel abbrev-ref short verify is-inside-work-tree git-dir show-prefix"),
        "rev-list": _options("0n", "n", "count all max-count since until no-merges merges first-parent reverse"),
        "describe": _options("", "", "tags all always long dirty abbrev exact-match match"),
        "cat-file": _options("tsep"),
        "merge-base": _options("a", "", "all is-ancestor octopus fork-point"),
        "name-rev": _options("", "", "name-only tags always"),
    }
)

RULES: Mapping[str, Rule] = {
    # nothing they take writes or runs anything
    **dict.fromkeys(
        _words(
            "pwd ls cat head wc stat basename dirname realpath readlink cut tr nl tac rev paste fold expand "
            "unexpand join comm cmp md5sum sha1sum sha256sum sha512sum cksum od hexdump strings seq true false test "
            "echo printf whoami id groups uname nproc arch uptime free df du which type expr column factor numfmt cd"
        ),
        _ANY,
    ),
    "printf": Rule(any_option=True, check=lambda a: "-v sets a variable" if a and a[0].startswith("-v") else None),
    "tail": _options("0ncqvz", "nc", "lines bytes quiet silent verbose zero-terminated"),
    "grep": _options(
        "0EFGPivwxcLlqsnHhorRIazTUbyZ",
        "eABCmf",
        "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case invert-match word-regexp line-regexp count "
        "files-without-match files-with-matches quiet silent no-messages line-number with-filename no-filename "
        "only-matching recursive dereference-recursive text null include exclude exclude-dir after-context "
        "before-context context max-count regexp file color colour binary-files byte-offset",
    ),
    "egrep": _options("0ivwxcLlqsnHhorRI", "eABCm", "ignore-case invert-match count line-number include exclude"),
    "fgrep": _options("0ivwxcLlqsnHhorRI", "eABCm", "ignore-case invert-match count line-number include exclude"),
    "rg": _options(
        "0FivwxclLnNoqsSUaPHI.u",
        "eABCmgtTj",
        "fixed-strings ignore-case smart-case case-sensitive invert-match word-regexp line-regexp count count-matches "
        "files-with-matches files-without-match line-number no-line-number only-matching quiet multiline text pcre2 "
        "with-filename no-filename hidden no-ignore glob iglob type type-not type-list files max-count max-depth "
        "after-context before-context context regexp json stats sort sortr color heading no-heading",
    ),
    "find": Rule(any_option=True, check=_find, globs=True),
    "sed": Rule(any_option=True, check=_sed, globs=True),
    "sort": _options(
        "bdfgiMhnRrVcCmsuz", "kt", "ignore-case numeric-sort reverse unique key field-separator version-sort"
    ),
    "uniq": _options("0cdDiuz", "fsw", "count repeated unique ignore-case skip-fields skip-chars", max_operands=1),
    "diff": _options(
        "0qsruNaibwBEyt",
        "UCxI",
        "brief report-identical-files recursive unified context new-file text ignore-case ignore-all-space "
        "ignore-space-change ignore-blank-lines side-by-side width exclude color stat",
    ),
    "tree": _options("adfilpsughDFrtnx", "LPI", "noreport dirsfirst du prune gitignore"),
    "file": _options("bhikLNp", "", "brief mime mime-type mime-encoding dereference"),
    "jq": _options(
        "rcnsSejaC",
        "",
        "raw-output compact-output null-input slurp sort-keys exit-status join-output arg argjson tab indent",
    ),
    "date": _options("uR", "dI", "utc universal date iso-8601 rfc-3339 rfc-email", check=lambda a: _date(a)),
    "env": Rule(any_option=True, check=_env),
    "printenv": _ANY,
    "ps": _ANY,
    "command": Rule(
        any_option=True, check=lambda a: None if len(a) == 2 and a[0] in ("-v", "-V") else "runs a command without -v"
    ),
    "tar": Rule(any_option=True, check=lambda a: _tar(a)),
    "git": _GIT,
}


def _date(arguments: Sequence[str]) -> str | None:
    """A bare operand that is no +FORMAT sets the clock; the value of -d may be one."""
    values = [
        a for n, a in enumerate(arguments) if not a.startswith(("-", "+")) and (not n or arguments[n - 1] != "-d")
    ]
    return f"{values[0]} would set the clock" if values else None


def _tar(arguments: Sequence[str]) -> str | None:
    """`tar tf FILE` in its usual spellings; any other option could run a program or write."""
    if not arguments or not re.fullmatch(r"-?[tvzjJ]*f", arguments[0]) or "t" not in arguments[0]:
        return "only `tar tf FILE` is read-only"
    if any(a.startswith("-") or ":" in a for a in arguments[1:]):
        return "options after the archive are not on the list"
    return None
