"""What a user is told. Imports nothing, so that the command line can."""


class CimError(Exception):
    """Something a user can act on, in one line."""

    exit_code = 1


class UserError(CimError):
    """The user's words are wrong: the line names the bad value and the good ones."""

    exit_code = 2
