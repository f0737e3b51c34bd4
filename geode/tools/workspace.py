"""The workspace: the one folder that the file tools may see, and a way to open files in it that nothing can bend.

Every path is walked component by component from a directory descriptor of the root, each step opened with O_NOFOLLOW
(what Linux calls RESOLVE_BENEATH). A symbolic link is read and walked by hand, so a link that stays inside works and
one that leads out is refused; since no step trusts a path that was checked earlier, swapping a folder for a link in
between (a race) cannot lead out either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from geode.tools.types import ToolError

__all__ = ["IGNORED_DIRS", "Entry", "Place", "Workspace"]

_DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_LINKS = 40
_MAX_DEPTH = 64
_MAX_PARTS = 128

IGNORED_DIRS = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".idea",
        ".vscode",
    }
)
"""Folders that searches skip unless they are asked to look into them."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads: an open descriptor of its folder, the last component, the path relative to the root.

    `name` is never a symbolic link at the time of the walk; it may not exist. "" is the root itself.
    """

    folder: int
    name: str
    relative: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that a walk found. `folder` is open only while the walk stands at this entry."""

    folder: int
    name: str
    relative: str
    link: bool


class Workspace:
    """Opens, lists and writes what is inside `root`. Raises ToolError with a text that is written for the model."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        # files of these file systems are doors into the kernel and other processes, never documents
        self._closed_devices = _devices("/proc", "/sys", "/dev")

    @contextlib.contextmanager
    def place(self, path: str, *, create_parents: bool = False) -> Iterator[Place]:
        """Walks to `path` (relative, or absolute below the root). Missing folders are made where asked."""
        pending = self._components(path)
        names: list[str] = []
        links = 0
        with contextlib.ExitStack() as stack:
            try:
                folders = [_owned(stack, os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))]
            except OSError as error:
                raise ToolError(f"the workspace cannot be opened: {error.strerror}") from None
            while pending:
                part = pending.pop(0)
                if part == "..":
                    if not names:
                        raise _outside(path)
                    names.pop()
                    folders.pop()
                    continue
                try:
                    target = os.readlink(part, dir_fd=folders[-1])
                except FileNotFoundError:
                    target = None
                except OSError as error:
                    if error.errno != errno.EINVAL:
                        raise _fault(path, error) from None
                    target = None
                if target is not None:
                    links += 1
                    if links > _MAX_LINKS:
                        raise ToolError(f"{path}: too many symbolic links")
                    if target.startswith("/"):
                        inside = self._below_root(target)
                        if inside is None:
                            raise _outside(path)
                        del names[:], folders[1:]
                        pending = inside + pending
                    else:
                        pending = [p for p in target.split("/") if p not in ("", ".")] + pending
                    continue
                if not pending:
                    yield Place(folders[-1], part, "/".join([*names, part]))
                    return
                folders.append(_owned(stack, self._enter(path, part, folders[-1], create_parents)))
                names.append(part)
            yield Place(folders[-1], "", "/".join(names) or ".")

    def open_file(self, place: Place) -> int:
        """A descriptor of a regular file for reading. Devices, pipes and sockets are refused without opening them."""
        if not place.name:
            raise ToolError(f"{place.relative} is a folder: use glob_files to list it")
        try:
            self._check_regular(place.relative, os.stat(place.name, dir_fd=place.folder, follow_symlinks=False))
            descriptor = os.open(place.name, _FILE_FLAGS, dir_fd=place.folder)
        except OSError as error:
            raise _fault(place.relative, error) from None
        try:
            self._check_regular(place.relative, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[Place]:
        """A place whose `folder` is the descriptor of the folder that `path` names, with name ""."""
        with self.place(path) as place:
            if not place.name:
                yield place
                return
            descriptor = self._enter(path, place.name, place.folder, create=False)
            try:
                yield Place(descriptor, "", place.relative)
            finally:
                os.close(descriptor)

    def write(self, place: Place, data: bytes) -> bool:
        """Puts `data` in place of the file at once (temporary file, then rename). True where the file is new."""
        if not place.name:
            raise ToolError(f"{place.relative} is a folder")
        if any(part.lower() == ".git" for part in place.relative.split("/")):
            raise ToolError(
                f"{place.relative}: files below .git are not written (hooks and settings there run programs)"
            )
        mode: int | None = None
        try:
            info = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _fault(place.relative, error) from None
        else:
            self._check_regular(place.relative, info)
            mode = stat.S_IMODE(info.st_mode)
        temporary = f".geode-{secrets.token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o666, dir_fd=place.folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    if mode is not None:
                        os.fchmod(file.fileno(), mode)
                    os.fsync(file.fileno())
                os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=place.folder)
                raise
        except OSError as error:
            raise _fault(place.relative, error) from None
        return mode is None

    def walk(self, start: Place, *, include_ignored: bool = False) -> Iterator[Entry]:
        """Every file below `start`, in sorted order, folders never followed through links, nothing special."""
        prefix = "" if start.relative == "." else start.relative + "/"
        yield from self._walk(start.folder, prefix, include_ignored, 0)

    def _walk(self, folder: int, prefix: str, include_ignored: bool, depth: int) -> Iterator[Entry]:
        try:
            with os.scandir(folder) as scan:
                found = sorted(
                    (e.name, e.is_dir(follow_symlinks=False), e.is_symlink(), e.is_file(follow_symlinks=False))
                    for e in scan
                )
        except OSError:
            return
        for name, is_dir, is_link, is_file in found:
            if is_dir:
                if depth >= _MAX_DEPTH or (name in IGNORED_DIRS and not include_ignored):
                    continue
                try:
                    child = self._enter(prefix + name, name, folder, create=False)
                except ToolError:
                    continue
                try:
                    yield from self._walk(child, f"{prefix}{name}/", include_ignored, depth + 1)
                finally:
                    os.close(child)
            elif is_file or (is_link and self._leads_to_file(prefix + name)):
                yield Entry(folder, name, prefix + name, is_link)

    def _leads_to_file(self, path: str) -> bool:
        """A link counts as a file only where it stays inside: what lies outside is not even asked about."""
        try:
            with self.place(path) as place:
                return stat.S_ISREG(os.stat(place.name or ".", dir_fd=place.folder, follow_symlinks=False).st_mode)
        except (ToolError, OSError):
            return False

    def _enter(self, path: str, part: str, folder: int, create: bool) -> int:
        try:
            try:
                descriptor = os.open(part, _DIR_FLAGS, dir_fd=folder)
            except FileNotFoundError:
                if not create:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o777, dir_fd=folder)
                descriptor = os.open(part, _DIR_FLAGS, dir_fd=folder)
        except OSError as error:
            raise _fault(path, error) from None
        if os.fstat(descriptor).st_dev in self._closed_devices:
            os.close(descriptor)
            raise ToolError(f"{path}: system files are outside of what the file tools open")
        return descriptor

    def _check_regular(self, relative: str, info: os.stat_result) -> None:
        if stat.S_ISDIR(info.st_mode):
            raise ToolError(f"{relative} is a folder: use glob_files to list it")
        if not stat.S_ISREG(info.st_mode) or info.st_dev in self._closed_devices:
            raise ToolError(f"{relative} is a {_kind(info.st_mode)}, not a regular file")

    def _components(self, path: str) -> list[str]:
        if "\0" in path:
            raise ToolError("the path holds a null byte")
        if path.count("/") > _MAX_PARTS:
            raise ToolError("the path has too many components")
        if not path.startswith("/"):
            return [part for part in path.split("/") if part not in ("", ".")]
        inside = self._below_root(path)
        if inside is None:
            raise _outside(path)
        return inside

    def _below_root(self, path: str) -> list[str] | None:
        parts = [part for part in PurePosixPath(path).parts[1:] if part != "."]
        root = self.root.parts[1:]
        if ".." in parts[: len(root)] or tuple(parts[: len(root)]) != root:
            return None
        return parts[len(root) :]


def _owned(stack: contextlib.ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _devices(*paths: str) -> frozenset[int]:
    found = set()
    for path in paths:
        with contextlib.suppress(OSError):
            found.add(os.stat(path).st_dev)
    with contextlib.suppress(OSError):
        found.discard(os.stat("/").st_dev)
    return frozenset(found)


def _outside(path: str) -> ToolError:
    return ToolError(f"{path} is outside of the workspace; paths are relative to the workspace root")


def _fault(path: str, error: OSError) -> ToolError:
    if error.errno == errno.ENOENT:
        return ToolError(f"{path} does not exist")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return ToolError(f"{path}: a part of the path is not a folder (or a link that changed meanwhile)")
    return ToolError(f"{path}: {error.strerror or type(error).__name__}")


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISFIFO, "named pipe"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "character device"),
        (stat.S_ISBLK, "block device"),
        (stat.S_ISLNK, "symbolic link"),
    ):
        if test(mode):
            return name
    return "special file"
