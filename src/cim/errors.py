"""What a user is told. Imports nothing heavy: the command line reads it first."""

from collections.abc import Iterable
from difflib import get_close_matches


class CimError(Exception):
    """Something a user can act on, in one line."""

    exit_code = 1


class UserError(CimError):
    """The user's words are wrong: the line names the bad value and the good ones."""

    exit_code = 2


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return UserError(f"{what} {name!r} is unknown; {hint}known: {', '.join(names)}")
