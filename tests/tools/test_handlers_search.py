"""glob_files and grep_files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from geode.tools.handlers import BUILTIN_HANDLERS
from geode.tools.types import ToolContext, ToolError

FILES = {
    "a.py": "import os\nclass Foo:\n    pass\n",
    "b.txt": "foo\nFoo bar\n",
    "src/c.py": "x = 1\nfoo()\n",
    "src/deep/d.ts": "let foo = 1\n",
    "src/deep/e.tsx": "x\n",
    "node_modules/m.py": "foo\n",
    ".git/config": "foo\n",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bin.dat").write_bytes(b"foo\0\n")
    return tmp_path


def call(tool: str, workspace: Path, **arguments: Any) -> Any:
    return BUILTIN_HANDLERS[tool](**arguments, context=ToolContext(workspace))


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/c.py"]),
        ("src/**", ["src/c.py", "src/deep/d.ts", "src/deep/e.tsx"]),
        ("**/*.{ts,tsx}", ["src/deep/d.ts", "src/deep/e.tsx"]),
        ("src/*/d.??", ["src/deep/d.ts"]),
        ("[!a].txt", ["b.txt"]),
        ("**/[c-d].*", ["src/c.py", "src/deep/d.ts"]),
        ("nothing", []),
    ],
)
def test_glob(workspace: Path, pattern: str, files: list[str]) -> None:
    assert call("glob_files", workspace, pattern=pattern) == {
        "files": files,
        "count": len(files),
        "truncated": False,
        "timed_out": False,
    }


def test_glob_below_a_folder_with_limit_and_ignored(workspace: Path) -> None:
    assert call("glob_files", workspace, pattern="*.py", path="src")["files"] == ["src/c.py"]
    found = call("glob_files", workspace, pattern="**/*.py", include_ignored=True, limit=2)
    assert found == {"files": ["a.py", "node_modules/m.py"], "count": 3, "truncated": True, "timed_out": False}


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../b"])
def test_glob_may_not_lead_out(workspace: Path, pattern: str) -> None:
    with pytest.raises(ToolError, match="relative to `path`"):
        call("glob_files", workspace, pattern=pattern)


def test_grep(workspace: Path) -> None:
    assert call("grep_files", workspace, pattern=r"[fF]oo\b", context_lines=1) == {
        "matches": [
            {"file": "a.py", "line": 2, "text": "class Foo:", "before": ["import os"], "after": ["    pass"]},
            {"file": "b.txt", "line": 1, "text": "foo", "before": [], "after": ["Foo bar"]},
            {"file": "b.txt", "line": 2, "text": "Foo bar", "before": ["foo"], "after": []},
            {"file": "src/c.py", "line": 2, "text": "foo()", "before": ["x = 1"], "after": []},
            {"file": "src/deep/d.ts", "line": 1, "text": "let foo = 1", "before": [], "after": []},
        ],
        "count": 5,
        "files": ["a.py", "b.txt", "src/c.py", "src/deep/d.ts"],
        "files_searched": 5,
        "truncated": False,
        "timed_out": False,
    }


def test_grep_options(workspace: Path) -> None:
    assert call("grep_files", workspace, pattern="FOO", ignore_case=True, glob="*.py")["files"] == ["a.py", "src/c.py"]
    assert call("grep_files", workspace, pattern="foo()", literal=True)["count"] == 1
    assert call("grep_files", workspace, pattern="foo", path="src/c.py")["matches"] == [
        {"file": "src/c.py", "line": 2, "text": "foo()"}
    ]
    cut = call("grep_files", workspace, pattern="o", limit=1)
    assert (cut["count"], cut["truncated"]) == (1, True)


def test_grep_faults(workspace: Path) -> None:
    with pytest.raises(ToolError, match="pattern is no valid regular expression"):
        call("grep_files", workspace, pattern="(")
    for pattern in ("(?R)", "(a(?1)?)", "(?P<n>a(?&n)?)", "(?P<n>a(?P>n)?)", "(?0)"):
        with pytest.raises(ToolError, match="pattern calls itself"):
            call("grep_files", workspace, pattern=pattern)
    assert call("grep_files", workspace, pattern="(?R)", literal=True)["matches"] == []
    with pytest.raises(ToolError, match=r"^nope does not exist$"):
        call("grep_files", workspace, pattern="x", path="nope")
    with pytest.raises(ToolError, match=r"^bin.dat is a binary file: grep_files searches text$"):
        call("grep_files", workspace, pattern="x", path="bin.dat")
