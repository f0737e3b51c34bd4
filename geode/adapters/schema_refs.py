"""`$ref` in tool schemas: put in place where that ends, kept or loosened where a schema refers to itself.

A definition is copied to each place that names it, so that no backend has to resolve anything. A recursive one cannot
be: it stays a `$ref` into `$defs` where the dialect takes that, else its inner use accepts anything of its type.
"""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import unquote

from geode.adapters.schema_plain import ANNOTATIONS, CannotSend, Notes, map_subschemas

__all__ = ["drop_dangling", "resolve_refs"]

MAX_INLINED = 10_000
"""Most schemas that inlining may write; beyond it the definitions stay shared. (Doubling chains of references grow
exponentially when inlined.)"""

MAX_DEPTH = 60
"""Deepest nesting of schemas that inlining may make."""

_TIED = (
    {"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"},
    {"items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "unevaluatedItems"},
    {"if", "then", "else"},
)
"""Keywords that read each other: schemas that share such a group cannot be merged key by key."""


class _TooMuch(Exception):
    pass


def resolve_refs(root: Any, recursive: Literal["keep", "loosen"], notes: Notes) -> Any:
    """`root` (plain JSON) with its references put in place. `$defs` is there afterwards only where a `$ref` is.

    recursive: `keep` leaves recursive references as `$ref` into `$defs`; `loosen` lets the inner use accept anything
    of the target's type.
    """
    if not isinstance(root, dict):
        return root
    document = _Document(root, notes)
    if not document.has_refs:
        return document.strip(root)
    try:
        return _Inliner(document, recursive, notes, keep_all=False).run()
    except _TooMuch:
        notes.add(f"definitions stay shared by $ref: written out they would be over {MAX_INLINED} schemas")
        return _Inliner(document, recursive, notes, keep_all=True).run()


def drop_dangling(root: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """`root` without references to what is not in its `$defs` (they can come up where a repair made a schema)."""
    defs = root.get("$defs", {})

    def visit(sub: Any, _: str) -> Any:
        if not isinstance(sub, dict):
            return sub
        sub = map_subschemas(sub, visit)
        if "$ref" in sub and sub["$ref"].removeprefix("#/$defs/") not in defs:
            notes.add(f"the reference {sub.pop('$ref')!r} leads nowhere in this schema: anything is accepted there")
        return sub

    return dict(visit(root, ""))


def _parts(pointer: str) -> list[str]:
    return [unquote(p).replace("~1", "/").replace("~0", "~") for p in pointer.split("/")]


class _Document:
    """A schema document and what its references mean."""

    def __init__(self, root: dict[str, Any], notes: Notes) -> None:
        self.root = root
        self.notes = notes
        self.anchors: dict[str, Any] = {}
        self.has_refs = False
        self.size = 0
        self._targets: dict[str, tuple[str, Any] | None] = {}
        self._scan(root)

    def _scan(self, schema: Any) -> None:
        def visit(sub: Any, _: str) -> Any:
            if isinstance(sub, dict):
                self.size += 1
                for key, sign in (("$anchor", "#"), ("$dynamicAnchor", "#"), ("$id", ""), ("id", "")):
                    if isinstance(sub.get(key), str):
                        self.anchors.setdefault(sign + sub[key], sub)
                if any(key in sub for key in ("$ref", "$dynamicRef", "$recursiveRef")):
                    self.has_refs = True
                map_subschemas(sub, visit)
            return sub

        visit(schema, "")

    def target(self, ref: Any) -> tuple[str, Any] | None:
        """(canonical name, schema) of a reference; None where it leads nowhere."""
        if not isinstance(ref, str):
            return None
        if ref not in self._targets:
            self._targets[ref] = self._find(ref)
        return self._targets[ref]

    def _find(self, ref: str) -> tuple[str, Any] | None:
        own = self.root.get("$id")
        if isinstance(own, str) and own and ref.startswith(own) and ref[len(own) :][:1] in ("", "#"):
            ref = ref[len(own) :] or "#"
        if ref in ("#", "#/"):
            return "#", self.root
        if ref in self.anchors:
            return ref, self.anchors[ref]
        if ref.startswith("#/"):
            found: Any = self.root
            for part in _parts(ref[2:]):
                if isinstance(found, dict) and part in found:
                    found = found[part]
                elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                    found = found[int(part)]
                else:
                    break
            else:
                if isinstance(found, (dict, bool)):
                    return "#/" + unquote(ref[2:]), found
                return None
        if "://" in ref:
            return None
        name = _parts(ref.rsplit("/", 1)[-1].lstrip("#"))[0]
        for table in ("$defs", "definitions"):
            defs = self.root.get(table)
            if isinstance(defs, dict) and isinstance(defs.get(name), (dict, bool)):
                return f"#/{table}/{name}", defs[name]
        return None

    def recursive(self) -> frozenset[str]:
        """The targets that lead back to themselves."""
        edges: dict[str, set[str]] = {}

        def refs(schema: Any, found: set[str]) -> None:
            def visit(sub: Any, path: str) -> Any:
                if isinstance(sub, dict) and not path.startswith(("$defs.", "definitions.")):
                    refs(sub, found)
                return sub

            if not isinstance(schema, dict):
                return
            target = self.target(schema.get("$ref"))
            if target is not None:
                found.add(target[0])
                pending.append(target)
            map_subschemas(schema, visit)

        pending: list[tuple[str, Any]] = []
        refs(self.root, edges.setdefault("", set()))
        while pending:
            name, schema = pending.pop()
            if name not in edges:
                refs(schema, edges.setdefault(name, set()))

        def reaches(start: str) -> bool:
            seen: set[str] = set()
            todo = list(edges[start])
            while todo:
                name = todo.pop()
                if name == start:
                    return True
                if name not in seen:
                    seen.add(name)
                    todo.extend(edges.get(name, ()))
            return False

        return frozenset(name for name in edges if name and reaches(name))

    @staticmethod
    def strip(schema: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in schema.items() if k not in ("$defs", "definitions")}


class _Inliner:
    def __init__(self, document: _Document, recursive: str, notes: Notes, *, keep_all: bool) -> None:
        self.document = document
        self.loosen = recursive == "loosen" and not keep_all
        self.keep_all = keep_all
        self.notes = notes
        self.recursive = document.recursive()
        self.defs: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        self.pending: list[tuple[str, Any]] = []
        self.written = 0
        self.limit = max(MAX_INLINED, 2 * document.size)

    def run(self) -> Any:
        out = self._visit(self.document.root, (), 0, at_root=frozenset())
        while self.pending:
            short, target = self.pending.pop()
            self.defs[short] = self._visit(target, (), 0)
        if isinstance(out, dict) and self.defs:
            out["$defs"] = self.defs
        return out

    def _visit(self, schema: Any, stack: tuple[str, ...], depth: int, at_root: frozenset[str] | None = None) -> Any:
        """`at_root`: the references followed so far, where `schema` is the root or a branch of it: those must be
        object schemas in place, so their references are always followed."""
        if not isinstance(schema, dict):
            return schema
        self.written += 1
        if self.written > self.limit or depth > MAX_DEPTH:
            if self.keep_all:
                self._stop_if_endless()
            else:
                raise _TooMuch
        if any(key in schema for key in ("$dynamicRef", "$recursiveRef")):
            self.notes.add("a dynamic reference accepts anything here and is checked locally")
        rest = {
            k: v for k, v in self.document.strip(schema).items() if k not in ("$ref", "$dynamicRef", "$recursiveRef")
        }

        def below(sub: Any, path: str) -> Any:
            branch = at_root if path.startswith(("allOf.", "anyOf.", "oneOf.")) else None
            return self._visit(sub, stack, depth + 1, branch)

        own = map_subschemas(rest, below)
        if "$ref" not in schema:
            return own
        found = self.document.target(schema["$ref"])
        if found is None:
            self.notes.add(f"the reference {schema['$ref']!r} leads nowhere in this schema: anything is accepted there")
            return own
        name, target = found
        if at_root is not None:
            if name in at_root or target is self.document.root:
                self.notes.add("the root refers to itself: any object is accepted")
                return own
            if name in self.recursive:
                self._say_recursive(name)
            return _join(self._visit(target, (*stack, name), depth + 1, at_root | {name}), own)
        if name in self.recursive:
            self._say_recursive(name)
        if self.loosen:
            if name in stack:
                return _join(_loosened(target), own)
            return _join(self._visit(target, (*stack, name), depth + 1), own)
        if name in self.recursive or self.keep_all:
            return {"$ref": f"#/$defs/{self._define(name, target)}", **own}
        return _join(self._visit(target, (*stack, name), depth + 1), own)

    def _stop_if_endless(self) -> None:
        if self.written > 4 * self.limit:
            raise CannotSend("its references multiply without end")

    def _say_recursive(self, name: str) -> None:
        short = name.rsplit("/", 1)[-1] if name != "#" else "the root"
        how = "its inner use accepts anything of its type, checked locally" if self.loosen else "kept as $ref"
        self.notes.add(f"{short} is recursive: {how}")

    def _define(self, name: str, target: Any) -> str:
        if name not in self.names:
            base = re.sub(r"[^a-zA-Z0-9_.-]", "_", name.rsplit("/", 1)[-1].strip("#"))[:60] or "root"
            short, number = base, 2
            while short in self.defs:
                short, number = f"{base}_{number}", number + 1
            self.names[name] = short
            self.defs[short] = {}
            self.pending.append((short, target))
        return self.names[name]


def _loosened(target: Any) -> dict[str, Any]:
    if not isinstance(target, dict):
        return {}
    return {k: target[k] for k in ("type", "description") if isinstance(target.get(k), (str, list))}


def _join(target: Any, own: dict[str, Any]) -> Any:
    """One schema that says what both say. Where a reference has annotations beside it, those of the place win."""
    if not own:
        return target
    if not isinstance(target, dict):
        return own if target is True else {"not": {}}
    says = {k for k in own if k not in ANNOTATIONS}
    told = {k for k in target if k not in ANNOTATIONS}
    tied = any(says & group and told & group for group in _TIED)
    if not tied and all(own[k] == target[k] for k in says & told):
        return {**target, **own}
    return {**own, "allOf": [target, *own["allOf"]] if isinstance(own.get("allOf"), list) else [target]}
