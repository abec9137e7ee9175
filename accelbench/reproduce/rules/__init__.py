"""The rules by which claims are decided: each is a class with its parameters, and one function that judges.

A rule is named in a claim's file. Its function takes the points that decide and the evidence, and returns a verdict or
raises `CannotTell`. Confirmed and refuted need every interval wholly on that side.
"""
