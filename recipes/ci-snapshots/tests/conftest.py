"""Snapshots as JSON files, one for each test, with the keys in the order in which they are sent."""

import json
from pathlib import Path

import pytest
from syrupy.extensions.json import JSONSnapshotExtension


class AsSent(JSONSnapshotExtension):
    def serialize(self, data, **kwargs):
        return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


@pytest.fixture
def snapshot(snapshot):
    return snapshot.use_extension(AsSent)


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch):
    """The paths in `conf/` are relative to the repository."""
    monkeypatch.chdir(Path(__file__).parent.parent)
