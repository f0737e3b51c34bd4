"""What all parts of the settings are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

__all__ = ["STRICT", "Count", "Dollars", "Seconds", "Share"]

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Dollars = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)
"""Every part: frozen, unknown keys refused, no NaN or infinity."""
