"""A second module with the first one's task."""

from forked.plain import prepare

__all__ = ["prepare"]
