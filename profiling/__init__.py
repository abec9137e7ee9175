"""The way in which anything is measured, whatever it is: no benchmark, model or axis is known here by its name."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
"""The folder that this package and its three neighbours lie in."""
