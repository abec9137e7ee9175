"""The runs stored of a machine over time: how each point's speed spread from run to run, and when it changed."""
