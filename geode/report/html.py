"""The report as one HTML page that needs nothing else: no script, no network; everything from outside is escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geode.contract import Block, ImageBlock, ReasoningBlock, TextBlock, ToolResultBlock, ToolUseBlock
from geode.report.summary import RunSummary, add_stats
from geode.report.tables import name_of

__all__ = ["html_report"]

_IMAGE = re.compile(r"image/(png|jpeg|gif|webp)\Z")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*\Z")

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>geode report: {{ title }}</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --bad: #c33; --good: #282; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); padding: .6rem; margin: .4rem 0; }
.m { border-left: 3px solid var(--line); padding: 0 .8rem; margin: .8rem 0; }
.assistant { border-color: #46c; }
.who { font-size: .8em; opacity: .7; }
.bad { color: var(--bad); } .good { color: var(--good); }
details > summary { cursor: pointer; }
img { max-width: 100%; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<table>
<tr><th>run</th><th>reason</th><th>adapter</th><th>model</th><th class="n">rounds</th><th class="n">calls</th>
<th class="n">tokens</th><th class="n">cost</th><th class="n">time</th></tr>
{% for run in runs %}
<tr><td><a href="#run{{ loop.index }}">{{ run.name }}</a></td>
<td class="{{ 'good' if run.answered else 'bad' }}">{{ run.reason }}</td>
<td>{{ run.adapter }}</td><td>{{ run.model }}</td><td class="n">{{ run.rounds }}</td>
<td class="n">{{ run.tool_calls }}</td><td class="n">{{ run.tokens }}</td><td class="n">{{ run.cost }}</td>
<td class="n">{{ run.elapsed }}</td></tr>
{% endfor %}
</table>
{% if tools %}
<h2>Tools</h2>
<table>
<tr><th>tool</th><th class="n">calls</th><th class="n">errors</th><th class="n">denied</th><th class="n">mean</th>
<th class="n">longest</th></tr>
{% for t in tools %}
<tr><td>{{ t.name }}</td><td class="n">{{ t.calls }}</td><td class="n">{{ t.errors }}</td>
<td class="n">{{ t.denied }}</td>
<td class="n">{{ '%.2f'|format(t.mean_s) }} s</td><td class="n">{{ '%.2f'|format(t.longest_s) }} s</td></tr>
{% endfor %}
</table>
{% endif %}
{% for run in runs %}
<h2 id="run{{ loop.index }}">{{ run.name }}</h2>
<p>{{ run.reason }} · {{ run.adapter }} {{ run.model }} · started {{ run.started }} UTC
{%- if run.resumed %} · resumed {{ run.resumed }} time{{ 's' if run.resumed > 1 }}{% endif %}
{%- if run.scripted %} · scripted, no model{% endif %}</p>
{% for line in run.errors %}<p class="bad">{{ line }}</p>
{% endfor %}
{% for line in run.notices %}<p class="who">{{ line }}</p>
{% endfor %}
{% for message in run.messages %}
<div class="m {{ message.role }}"><div class="who">{{ message.role }}</div>
{% for block in message.blocks %}
{% if block.kind == 'text' %}<pre>{{ block.text }}</pre>
{% elif block.kind == 'image' %}<img alt="image" src="{{ block.source }}">
{% else %}<details{% if block.kind == 'call' %} open{% endif %}>
<summary class="{{ 'bad' if block.bad }}">{{ block.title }}</summary>
<pre>{{ block.text }}</pre>
{% for source in block.images %}<img alt="image" src="{{ source }}">{% endfor %}
</details>
{% endif %}
{% endfor %}
</div>
{% endfor %}
{% endfor %}
</body>
</html>
"""


def html_report(runs: Sequence[RunSummary], base: Path) -> str:
    """The page."""
    from jinja2 import Environment

    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_PAGE)
    page = template.render(title=base.name, runs=[_run(run, base) for run in runs], tools=add_stats(runs))
    return page.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate of a model's has no place in a file


def _run(run: RunSummary, base: Path) -> dict[str, Any]:
    names: dict[str, str] = {}
    for message in run.messages:
        names.update({use.id: use.name for use in message.tool_uses})
    return {
        "name": name_of(run, base),
        "reason": run.reason,
        "answered": run.answered,
        "adapter": run.adapter,
        "model": run.model,
        "rounds": run.rounds,
        "tool_calls": run.tool_calls,
        "tokens": f"{run.usage.total_tokens:,}",
        "cost": f"${run.cost:.4f}",
        "elapsed": f"{run.elapsed_s:.1f} s",
        "started": run.started,
        "resumed": run.resumed,
        "scripted": run.scripted,
        "errors": run.errors,
        "notices": run.notices,
        "messages": [{"role": m.role, "blocks": [_block(b, names) for b in m.content]} for m in run.messages],
    }


def _block(block: Block, names: dict[str, str]) -> dict[str, Any]:
    match block:
        case TextBlock():
            return {"kind": "text", "text": block.text}
        case ImageBlock():
            source = _source(block)
            return {"kind": "image", "source": source} if source else {"kind": "text", "text": "(an image)"}
        case ReasoningBlock():
            return {"kind": "reasoning", "title": "reasoning", "text": block.text or "(not readable)"}
        case ToolUseBlock():
            shown = json.dumps(block.input, ensure_ascii=False, indent=2) if block.fault is None else block.arguments
            return {"kind": "call", "title": f"calls {block.name}", "text": shown or "", "bad": block.fault is not None}
        case ToolResultBlock():
            title = f"{'error' if block.is_error else 'result'} of {names.get(block.tool_use_id, block.tool_use_id)}"
            images = [] if isinstance(block.content, str) else [b for b in block.content if isinstance(b, ImageBlock)]
            sources = [source for image in images if (source := _source(image))]
            return {"kind": "result", "title": title, "text": block.text, "bad": block.is_error, "images": sources}


def _source(image: ImageBlock) -> str:
    """A data URL, for what is an image indeed; else nothing."""
    if _IMAGE.match(image.media_type) and _BASE64.match(image.data):
        return f"data:{image.media_type};base64,{''.join(image.data.split())}"
    return ""
