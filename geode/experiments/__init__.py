"""Experiments: sweeps, resume, replay."""
