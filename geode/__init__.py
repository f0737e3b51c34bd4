"""geode: a declarative, config-driven runner of one provider-neutral tool loop."""

__version__ = "0.1.0"
