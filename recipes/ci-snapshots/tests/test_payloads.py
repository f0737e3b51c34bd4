"""The requests that this repository's configs send, pinned."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
CONF = HERE / "conf"
COMMON = (
    "adapter=my-gateway",
    "toolset=mine",
    f"tools.definitions=[{HERE}/tools/definitions.json]",
    "task=question",
    "task.prompt='Where is order 17?'",
)


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_first_request(geode_wire, snapshot, choice):
    assert geode_wire(*COMMON, f"tool_choice={choice}", config_dir=CONF) == snapshot


def test_a_whole_conversation(geode_wire, snapshot):
    requests = geode_wire(*COMMON, f"provider.script={HERE}/scripts.yaml", rounds=2, config_dir=CONF)
    assert len(requests) == 2
    assert requests[1]["body"]["messages"][-1]["role"] == "tool"
    assert requests == snapshot


def test_a_named_choice_is_not_taken_by_the_gateway(geode_wire):
    """The adapter declares what the gateway takes; with `error` a config that asks for more does not get through."""
    with pytest.raises(Exception, match="tool_choice"):
        geode_wire(
            *COMMON,
            "tool_choice=named",
            "tool_choice.name=look_up_order",
            "tool_choice.on_unsupported=error",
            config_dir=CONF,
        )
