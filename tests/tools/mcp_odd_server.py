"""An MCP server in plain Python that starts at once and does what it is told to in its one argument, JSON:

``tools`` (what it lists, ``page`` at a time), ``result`` (of any call), ``greeting`` (a line that is no message),
``silent`` (methods it never answers), ``says`` (to stderr, ``times`` over), ``exits`` (at once), ``errors`` (the
JSON-RPC error of any call).
"""

from __future__ import annotations

import json
import sys
from typing import Any

told: dict[str, Any] = json.loads(sys.argv[1])
tools = told.get("tools", [])
page = told.get("page", 1000)
if "says" in told:
    print(told["says"] * told.get("times", 1), file=sys.stderr, flush=True)
if "exits" in told:
    sys.exit(told["exits"])
if "greeting" in told:
    print(told["greeting"], flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    method, result, error = asked["method"], {}, None
    if "id" not in asked or method in told.get("silent", ()):
        continue
    if method == "initialize":
        result = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        }
    elif method == "tools/list":
        start = int((asked.get("params") or {}).get("cursor") or 0)
        result = {"tools": tools[start : start + page]}
        if start + page < len(tools):
            result["nextCursor"] = str(start + page)
    elif method == "tools/call":
        error = told.get("errors")
        result = told.get("result", {"content": [{"type": "text", "text": json.dumps(asked["params"])}]})
    answer = {"error": error} if error else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
