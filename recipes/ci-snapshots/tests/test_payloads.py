"""The requests that this repository's configs send, pinned."""

import pytest


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_first_request(geode_wire, snapshot, choice):
    assert geode_wire("recipe=order", f"tool_choice={choice}", config_dir="conf") == snapshot


def test_a_whole_conversation(geode_wire, snapshot):
    requests = geode_wire("recipe=order", "provider.script=scripts.yaml", rounds=2, config_dir="conf")
    assert len(requests) == 2
    assert requests[1]["body"]["messages"][-1]["role"] == "tool"
    assert requests == snapshot


def test_a_named_choice_is_not_taken_by_the_gateway(geode_wire):
    """The adapter declares what the gateway takes; with `error` a config that asks for more does not get through."""
    named = ["tool_choice=named", "tool_choice.name=look_up_order", "tool_choice.on_unsupported=error"]
    with pytest.raises(Exception, match="tool_choice"):
        geode_wire("recipe=order", *named, config_dir="conf")
