"""Errors that end the command with one line saying what to do."""


class UserError(Exception):
    """The command was used wrongly, or the machine lacks what was asked for: exit status 2."""

    exit_status = 2


class RunBroken(UserError):
    """The run could not go on (a full disk, say); the message says what of it is kept: exit status 1."""

    exit_status = 1


class DataDamaged(UserError):
    """What is stored cannot be read: exit status 1."""

    exit_status = 1


class Interrupted(UserError):
    """The run was ended early, by Ctrl-C or a scheduler, and can be gone on with: exit status 130."""

    exit_status = 130
