"""The root of a tool schema: providers want one plain object there.

Anthropic answers "input_schema does not support oneOf, allOf, or anyOf at the top level", OpenAI "schema must have
type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level". What can be said by one object is
folded into it without a change in what is accepted. The rest keeps the object form: the properties of all branches,
required where all branches require; the rule itself goes into the description, and geode checks the arguments against
the original schema before a tool runs.
"""

from __future__ import annotations

import json
from typing import Any

from geode.adapters.schema_plain import ANNOTATIONS, Notes
from geode.schema_kinds import admits

__all__ = ["admits", "fold_root", "hint"]

_UNIONS = ("anyOf", "oneOf")
_LOCAL = "is checked locally, against the tool's own schema"


def fold_root(schema: dict[str, Any], notes: Notes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(an object schema without combinators at its root, the rules that it no longer says)."""
    rules: list[dict[str, Any]] = []
    out = _fold(schema, notes, rules)
    out = {"type": "object", **{k: v for k, v in out.items() if k != "type"}}
    out.setdefault("properties", {})
    return out, rules


def hint(rules: list[dict[str, Any]]) -> str:
    """The rules as text for the model, "" where there are none or they would be long."""
    text = "; ".join(json.dumps(rule, ensure_ascii=False, separators=(",", ":")) for rule in rules)
    return f"Must also satisfy (JSON Schema): {text}" if rules and len(text) <= 600 else ""


def _fold(schema: dict[str, Any], notes: Notes, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """`schema`, which admits an object, without allOf, anyOf and oneOf at its top."""
    base = {k: v for k, v in schema.items() if k not in ("allOf", *_UNIONS)}
    for part in schema.get("allOf", ()):
        base = _merge(base, _fold(part, notes, rules), notes, rules)
    for key in _UNIONS:
        if key in schema:
            base = _merge(base, _union(key, schema[key], notes, rules), notes, rules)
    return base


def _said(schema: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in schema.items() if k not in ANNOTATIONS}


def _merge(a: dict[str, Any], b: dict[str, Any], notes: Notes, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Both at once. What cannot be said together goes to `rules`."""
    out = {**a, **{k: v for k, v in b.items() if k not in a}}
    pa, pb = a.get("properties", {}), b.get("properties", {})
    if pa or pb or "properties" in out:
        both = {n: pb[n] if n not in pa else pa[n] if n not in pb else _both(pa[n], pb[n]) for n in {**pa, **pb}}
        out["properties"] = both
    if "required" in a or "required" in b:
        out["required"] = list(dict.fromkeys([*a.get("required", ()), *b.get("required", ())]))
    if "type" in a and "type" in b:
        out["type"] = a["type"]  # the root is an object in the end
    for key in ("minProperties", "maxProperties"):
        if key in a and key in b:
            out[key] = (max if key.startswith("min") else min)(a[key], b[key])
    for key in ("additionalProperties", "patternProperties"):
        if key in a or key in b:
            _merge_open(key, a, b, out, notes, rules)
    handled = {"properties", "required", "type", "minProperties", "maxProperties"}
    handled |= {"additionalProperties", "patternProperties"} | ANNOTATIONS
    if "unevaluatedProperties" in b:
        # it looks at its own branch's properties only
        out = {k: v for k, v in out.items() if k != "unevaluatedProperties" or k in a}
        _leave({"unevaluatedProperties": b["unevaluatedProperties"], **_listed(pb)}, notes, rules)
        handled |= {"unevaluatedProperties"}
    conditions = ("if", "then", "else")
    if any(k in a for k in conditions) and any(k in b for k in conditions):
        for key in conditions:
            out.pop(key, None)
        for side in (a, b):
            _leave({k: side[k] for k in conditions if k in side}, notes, rules)
        handled |= set(conditions)
    for key in _said(a).keys() & _said(b).keys() - handled:
        if a[key] != b[key]:
            _leave({key: b[key]}, notes, rules)
    return out


def _merge_open(
    key: str, a: dict[str, Any], b: dict[str, Any], out: dict[str, Any], notes: Notes, rules: list[dict[str, Any]]
) -> None:
    """What either side says of properties that it does not list holds for those that only the other lists."""
    if key == "patternProperties":
        if a.get(key) != b.get(key) and key in a and key in b:
            out.pop(key)
            for side in (a, b):
                _leave({key: side[key]}, notes, rules)
        return
    pa, pb = a.get("properties", {}), b.get("properties", {})
    out.pop(key, None)
    closed = []
    for side, own, other in ((a, pa, pb), (b, pb, pa)):
        if side.get(key, True) in (True, {}):
            continue
        patterns = side.get("patternProperties")
        if set(other) <= set(own) and out.get("patternProperties") == patterns:
            closed.append(side[key])
        else:
            listed: dict[str, Any] = {"properties": {name: {} for name in own}}
            if patterns:
                listed["patternProperties"] = patterns
            _leave({key: side[key], **listed}, notes, rules)
    if closed:
        out[key] = False if False in closed else closed[0] if len(closed) == 1 else {"allOf": closed}


def _listed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {name: {} for name in properties}} if properties else {}


def _leave(rule: dict[str, Any], notes: Notes, rules: list[dict[str, Any]]) -> None:
    rules.append(rule)
    notes.add(f"the root's {next(iter(rule))} cannot be sent and {_LOCAL}")


def _both(a: Any, b: Any) -> Any:
    if a == b or b == {}:
        return a
    return b if a == {} else {"allOf": [a, b]}


def _union(key: str, branches: list[Any], notes: Notes, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """One object for branches of which one (oneOf) or at least one (anyOf) holds."""
    kinds = [admits(b) for b in branches]
    objects = [b if isinstance(b, dict) else {} for b, k in zip(branches, kinds, strict=True) if "object" in k]
    explicit = sorted(
        {k for b in branches for k in admits(b) if isinstance(b, dict) and len(admits(b)) < 7} - {"object"}
    )
    if explicit:
        notes.add(f"the root's {key} also admits {', '.join(explicit)}: arguments are always an object")
    if len(objects) == 1:
        return _fold(objects[0], notes, rules)
    inner: list[dict[str, Any]] = []
    quiet = Notes()
    folded = [_fold(b, quiet, inner) for b in objects]
    exact = None if inner else _exact(key, folded)
    if exact is not None:
        return exact
    rules.append({key: branches})
    notes.add(f"the root's {key} cannot be sent and {_LOCAL}")
    return _loose(folded)


def _exact(key: str, branches: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The one object that accepts just the same: branches that are alike but for one property's schema."""
    said = [{k: v for k, v in _said(b).items() if k != "type"} for b in branches]
    if key == "anyOf" and all(s == said[0] for s in said):
        return _said(branches[0])
    if any({k: v for k, v in s.items() if k not in ("properties", "required")} != _rest(said[0]) for s in said):
        return None
    names = set(said[0].get("properties", {}))
    required = set(said[0].get("required", ()))
    if any(set(s.get("properties", {})) != names or set(s.get("required", ())) != required for s in said):
        return None
    differing = [n for n in said[0]["properties"] if len({_key(s["properties"][n]) for s in said}) > 1] if names else []
    if len(differing) != 1:
        return None
    name = differing[0]
    if key == "oneOf" and name not in required:
        return None  # without the property every branch holds, and oneOf fails
    options = [s["properties"][name] for s in said]
    merged = _options(options) if key == "anyOf" or _disjoint(options) else {"oneOf": options}
    return {**_said(branches[0]), "properties": {**branches[0]["properties"], name: merged}}


def _rest(said: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in said.items() if k not in ("properties", "required")}


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _constants(option: Any) -> list[Any] | None:
    """The values of a schema that lists them and says nothing else (beside a type that they all have)."""
    if not isinstance(option, dict) or not _said(option).keys() <= {"type", "const", "enum"}:
        return None
    values = [option["const"]] if "const" in option else option.get("enum")
    if values is None or ("const" in option and "enum" in option):
        return None
    if not all(isinstance(v, str) for v in values) or option.get("type", "string") != "string":
        return None
    return list(values)


def _disjoint(options: list[Any]) -> bool:
    values = [_constants(o) for o in options]
    flat = [v for vs in values if vs is not None for v in vs]
    return None not in values and len(flat) == len(set(flat))


def _options(options: list[Any]) -> Any:
    """One schema for any of `options`: a list of constants where they are constants."""
    distinct = list({_key(o): o for o in options}.values())
    if len(distinct) == 1:
        return distinct[0]
    constants = [_constants(o) for o in distinct]
    if None not in constants:
        values = list(dict.fromkeys(v for vs in constants if vs for v in vs))
        notes = {k: v for k, v in distinct[0].items() if k in ("title", "description")}
        return {**notes, "type": "string", "enum": values}
    return {} if {} in distinct else {"anyOf": distinct}


def _loose(branches: list[dict[str, Any]]) -> dict[str, Any]:
    """The object form of a union: all properties, required where every branch requires."""
    names = list(dict.fromkeys(n for b in branches for n in b.get("properties", {})))
    out: dict[str, Any] = {}
    if names:
        out["properties"] = {
            n: _options([b["properties"][n] for b in branches if n in b.get("properties", {})]) for n in names
        }
    required = [n for n in branches[0].get("required", ()) if all(n in b.get("required", ()) for b in branches)]
    if required:
        out["required"] = required
    if all(b.get("additionalProperties") is False and "patternProperties" not in b for b in branches):
        out["additionalProperties"] = False
    return out
