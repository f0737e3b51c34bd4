"""The script format and its player, through `Script.load` and `ScriptPlayer.next`."""

from __future__ import annotations

import textwrap

import pytest

from geode.contract import AdapterError, StopReason, ToolChoice
from geode.script import Script, ScriptFormatError, ScriptPlayer, ScriptResult, ScriptUsage, ScriptView


def play(*turns: object, view: ScriptView | None = None):
    return ScriptPlayer(Script.load({"turns": list(turns)})).next(view or ScriptView())


def view(**fields: object) -> ScriptView:
    return ScriptView(**fields)


def test_loads_a_yaml_file(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        textwrap.dedent("""
        name: demo
        turns:
          - reasoning: First I look.
            text: Looking.
            tool_calls: [{name: grep, input: {pattern: a}}]
            usage: {input: 10, output: 5, cache_read: 3, reasoning: 2}
          - done_by: nobody
        """).replace("  - done_by: nobody\n", "  - text: Done.\n")
    )
    player = ScriptPlayer(Script.load(path))
    first, second = player.next(ScriptView()), player.next(ScriptView())
    assert (first.text, first.stop, first.tool_calls[0].arguments) == (
        "Looking.",
        StopReason.TOOL_USE,
        '{"pattern":"a"}',
    )
    assert first.usage == ScriptUsage(input=10, output=5, cache_read=3, reasoning=2)
    assert [r.text for r in first.reasoning] == ["First I look."]
    assert (second.text, second.stop) == ("Done.", StopReason.END_TURN)
    player.assert_consumed()


@pytest.mark.parametrize(
    ("script", "faults"),
    [
        ({"turns": [{"txt": "x"}]}, ["turns[0].txt: unknown key; did you mean text?"]),
        ({}, ["script: needs turns or conversations"]),
        ({"turns": [{"repeat": 0}]}, None),
        (
            {"turns": [{"tool_calls": [{"name": "a", "input": {}, "arguments": "{}"}]}]},
            ["turns[0].tool_calls[0]: give input or arguments, not both"],
        ),
        (
            {"turns": [{"expect": {"tool_choice": "maybe"}}]},
            [
                "turns[0].expect.tool_choice: 'maybe' is not one of auto, none, required, absent, tool:NAME "
                "(given: 'maybe')"
            ],
        ),
        (
            {"conversations": [{"match": "(", "turns": [{"text": "a"}]}]},
            [
                "conversations[0].match: is no regular expression: missing ), unterminated subpattern at position 0 "
                "(given: '(')"
            ],
        ),
    ],
)
def test_faults_are_one_line_each_with_path(script, faults):
    with pytest.raises(ScriptFormatError) as caught:
        Script.load(script)
    if faults is not None:
        assert caught.value.faults == faults
    assert all(line.startswith("script: ") for line in str(caught.value).splitlines())


def test_a_missing_file_and_a_list_are_faults(tmp_path):
    with pytest.raises(ScriptFormatError, match="cannot be read: No such file"):
        Script.load(tmp_path / "none.yaml")
    (tmp_path / "l.yaml").write_text("[1]")
    with pytest.raises(ScriptFormatError, match="a script is a mapping, not list"):
        Script.load(tmp_path / "l.yaml")


def test_templates_read_the_request_and_keep_native_types():
    results = [
        ScriptResult("a", "grep", '{"total": 3, "items": ["x", "y"], "values": {"k": 1}}'),
        ScriptResult("b", "read", "plain"),
    ]
    turn = play(
        {
            "text": "{{ results|length }} results, {{ result('grep').json['items']|join('+') }} for {{ user }}",
            "tool_calls": [
                {
                    "name": "{{ tools[0] }}",
                    "input": {
                        "n": "{{ result('grep').json.total }}",
                        "all": "{{ result('grep').json.items }}",
                        "half": "{{ result('grep').json.total / 2 }}",
                        "label": "n={{ result('grep').json.total }}",
                        "deep": [{"k": "{{ result('grep').json.values.k == 1 }}"}],
                    },
                }
            ],
        },
        view=view(results=results, user="Ann", tools=("grep", "read")),
    )
    assert turn.text == "2 results, x+y for Ann"
    assert turn.tool_calls[0].name == "grep"
    assert turn.tool_calls[0].arguments == '{"n":3,"all":["x","y"],"half":1.5,"label":"n=3","deep":[{"k":true}]}'


def test_a_whole_input_may_be_one_expression():
    results = [ScriptResult("a", "grep", '{"next": {"page": 2}}')]
    turn = play({"tool_calls": [{"name": "x", "input": "{{ results[-1].json.next }}"}]}, view=view(results=results))
    assert turn.tool_calls[0].arguments == '{"page":2}'


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (
            {"text": "{{ result('grep').text }}"},
            "turns[0].text: LookupError: no result of grep yet (there are: read)",
        ),
        (
            {"tool_calls": [{"name": "x", "input": {"a": "{{ results[0].json.a }}"}}]},
            "turns[0].tool_calls[0].input: ValueError: the result of read is no JSON: 'plain'",
        ),
        ({"text": "{{ nothing }}"}, "turns[0].text: UndefinedError: 'nothing' is undefined"),
        (
            {"tool_calls": [{"name": "x", "input": {"a": "{{ nothing }}"}}]},
            "turns[0].tool_calls[0].input: UndefinedError: 'nothing' is undefined",
        ),
        (
            {"tool_calls": [{"name": "x", "input": "{{ 3 }}"}]},
            "turns[0].tool_calls[0].input: TypeError: gave int, not a mapping",
        ),
    ],
)
def test_a_template_error_names_turn_and_field(turn, message):
    with pytest.raises(AdapterError) as caught:
        play(turn, view=view(results=[ScriptResult("r", "read", "plain")]))
    assert caught.value.message == f"script script: {message}"
    assert caught.value.kind == "script"


def test_templates_are_sandboxed():
    with pytest.raises(AdapterError, match=r"turns\[0\]\.text: SecurityError"):
        play({"text": "{{ ''.__class__.__mro__ }}"})


def test_a_template_that_does_not_compile_is_a_format_fault():
    with pytest.raises(ScriptFormatError) as caught:
        play({"text": "{% if %}"})
    assert caught.value.faults == [
        "turns[0].text: TemplateSyntaxError: Expected an expression, got 'end of statement block'"
    ]


def test_repeat_and_exhaustion():
    player = ScriptPlayer(Script.load({"turns": [{"text": "{{ repetition }}", "repeat": 2}, {"text": "end"}]}))
    assert player.remaining == 3
    assert [player.next(ScriptView()).text for _ in range(3)] == ["0", "1", "end"]
    assert player.remaining == 0
    with pytest.raises(AdapterError) as caught:
        player.next(view(request=4))
    assert caught.value.message == "script script: turns is over: it holds 3 turns, and request 4 wants one more"


def test_assert_consumed_says_what_is_left():
    player = ScriptPlayer(
        Script.load(
            {
                "name": "two",
                "conversations": [{"match": "child", "turns": [{"text": "c"}]}],
                "turns": [{"text": "a", "repeat": 3}, {"text": "b"}],
            }
        )
    )
    player.next(view(first_user="parent"))
    with pytest.raises(AssertionError) as caught:
        player.assert_consumed()
    assert str(caught.value) == (
        "script two was not played to its end: conversations[0].turns[0]: 1 not played; turns[0]: 3 not played"
    )


def test_forever_counts_as_played_after_once():
    player = ScriptPlayer(Script.load({"turns": [{"text": "a", "repeat": "forever"}]}))
    assert player.remaining == 1
    assert {player.next(ScriptView()).text for _ in range(5)} == {"a"}
    player.assert_consumed()


def test_conversations_are_matched_on_the_first_user_text():
    player = ScriptPlayer(
        Script.load(
            {
                "conversations": [
                    {"match": "^Count", "each": True, "turns": [{"text": "1"}, {"text": "2"}]},
                    {"match": "never", "optional": True, "turns": [{"text": "x"}]},
                ],
                "turns": [{"text": "main"}],
            }
        )
    )
    texts = [player.next(view(first_user=f)).text for f in ("Count a", "Do it", "Count b", "Count a", "Count b")]
    assert texts == ["1", "main", "1", "2", "2"]
    player.assert_consumed()


def test_no_conversation_matches():
    script = Script.load({"conversations": [{"match": "x", "turns": [{"text": "a"}]}]})
    with pytest.raises(AdapterError) as caught:
        ScriptPlayer(script).next(view(first_user="hello"))
    assert caught.value.message == (
        "script script: no conversation matches the first user text 'hello' (patterns: 'x')"
    )


@pytest.mark.parametrize(
    ("expect", "problem"),
    [
        ({"tool_choice": "none"}, "tool_choice none, got 'auto'"),
        ({"tool_choice": "auto"}, None),
        ({"tools": ["b", "a"]}, None),
        ({"tools": "a"}, "tools ['a'], got ['a', 'b']"),
        ({"with_tools": ["c"]}, "tool c, got ['a', 'b']"),
        ({"without_tools": "a"}, "no tool a, got ['a', 'b']"),
        ({"last_is_error": True}, "last result is_error True, got False"),
        ({"last_result": "nope"}, "last result with 'nope', got 'fine'"),
        ({"results": 2}, "2 tool results, got 1"),
        ({"user": "bye"}, "user text with 'bye', got 'hello'"),
        ({"system": "Be", "max_tokens": 10, "thinking": True}, None),
        ({"max_tokens": 11}, "max_tokens 11, got 10"),
    ],
)
def test_expect(expect, problem):
    seen = view(
        system="Be brief",
        user="hello",
        tools=("a", "b"),
        tool_choice=ToolChoice("auto"),
        results=[ScriptResult("1", "a", "fine")],
        max_tokens=10,
        thinking=True,
    )
    if problem is None:
        assert play({"text": "ok", "expect": expect}, view=seen).text == "ok"
        return
    with pytest.raises(AdapterError) as caught:
        play({"text": "ok", "expect": expect}, view=seen)
    assert caught.value.message == f"script script: turns[0] expects {problem}"
