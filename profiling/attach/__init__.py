"""Observation of a user's script from inside its process: step times, waits for input, traces, and an experiment.

`injected/sitecustomize.py` loads this package in the script's interpreter under the name `_accelbench_attach`. That
interpreter may be without accelbench and its requirements, so the modules import each other relatively and use only
what every interpreter has loaded at its start. One module per framework adds the hooks after the script has imported
the framework itself.
"""
