"""A small MCP server over stdio, in plain JSON-RPC of the 2025 protocol: quick to start, and able to misbehave.

Arguments: words that change it: `dies` (exits before it answers), `silent` (never answers), `slow` (answers its first
request after half a second), `circle` (its tool list never ends), `wrong` (its tool list is none), `child` (leaves a
sleeping child behind), `deaf` (does not end when its input does, nor at SIGTERM).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

WORDS = set(sys.argv[1:])
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def tool(name: str, description: str = "", schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema or {"type": "object"}, **more}


TOOLS = [
    tool(
        "echo", "Says it again.", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    ),
    tool("env", "One environment variable.", {"type": "object", "properties": {"name": {"type": "string"}}}),
    tool("files.read", "A name with a dot.", annotations={"readOnlyHint": True}),
    tool(
        "place",
        "Takes a schema with definitions.",
        {
            "type": "object",
            "properties": {"point": {"$ref": "#/$defs/point"}},
            "required": ["point"],
            "$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
        },
    ),
    tool("wipe", "Deletes everything.", annotations={"destructiveHint": True}),
    tool("picture"),
    tool("media"),
    tool("structured"),
    tool("refuse"),
    tool("grow", "Adds a tool."),
    tool("shout", "Writes to standard error and, by mistake, to standard output."),
    tool("hang", "Never answers."),
    tool("crash"),
    tool("broken", "Its schema is none.", {"type": "object", "properties": {"x": {"type": "nothing"}}}),
    tool("pid"),
]


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    match name:
        case "echo":
            return text(arguments["text"])
        case "env":
            return text(os.environ.get(arguments["name"], "(not set)"))
        case "place":
            return text(str(arguments["point"]["x"]))
        case "picture":
            return {"content": [text("look")["content"][0], {"type": "image", "mimeType": "image/png", "data": PIXEL}]}
        case "media":
            resource = {"uri": "memo://1", "mimeType": "text/plain", "text": "inside"}
            return {
                "content": [
                    {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
                    {"type": "resource_link", "uri": "memo://2", "name": "two", "description": "the second"},
                    {"type": "resource", "resource": resource},
                    {"type": "resource", "resource": {"uri": "memo://3", "mimeType": "image/png", "blob": PIXEL}},
                ]
            }
        case "structured":
            return text("a summary", structuredContent={"count": 2, "items": ["a", "b"]})
        case "refuse":
            if why := arguments.get("why"):
                raise PermissionError(why)  # an error of the server's own, whose code the client uses too
            return text("not today", isError=True)
        case "grow":
            TOOLS.append(tool(f"grown_{len(TOOLS)}"))
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            return text("grown")
        case "shout":
            print(f"first {os.environ.get('SHOUTED', '')} line", file=sys.stderr, flush=True)
            print("x" * 100_000, file=sys.stderr, flush=True)
            print("this is no JSON", flush=True)
            return text("done")
        case "hang":
            return None
        case "crash":
            os._exit(3)
        case "pid":
            return text(str(os.getpid()))
        case _:
            return text(name)


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "raw", "version": "1"},
        }
    if method == "tools/list":
        if "wrong" in WORDS:
            return {"tools": [{"name": "no_schema"}]}
        start = int(params.get("cursor") or 0)
        last = start + 4 >= len(TOOLS)
        if "circle" in WORDS:
            return {"tools": TOOLS[:4], "nextCursor": "4"}
        return {"tools": TOOLS[start : start + 4], **({} if last else {"nextCursor": str(start + 4)})}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    raise LookupError(method)


def main() -> None:
    if "dies" in WORDS:
        sys.exit("no licence found")
    if "child" in WORDS:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
        TOOLS.insert(0, tool("child", f"{child.pid}"))
    if "deaf" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        if "silent" in WORDS:
            continue
        if "slow" in WORDS:
            time.sleep(0.5)
            WORDS.discard("slow")
        message = json.loads(line)
        if "id" not in message:
            continue
        try:
            result = answer(message["method"], message.get("params") or {})
        except PermissionError as refusal:
            send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": str(refusal)}})
            continue
        except LookupError:
            error = {"code": -32601, "message": "Method not found"}
            send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            continue
        if result is not None:
            send({"jsonrpc": "2.0", "id": message["id"], "result": result})
    if "deaf" in WORDS:
        time.sleep(600)


main()
