"""Every file here but base.py holds one method; its file name is its name on the command line."""

import importlib
import pkgutil

from cim.methods.base import IntrinsicMethod


def _the_method(name: str) -> type[IntrinsicMethod]:
    module = importlib.import_module(f"{__name__}.{name}")
    [method] = [
        c
        for c in vars(module).values()
        if isinstance(c, type)
        and issubclass(c, IntrinsicMethod)
        and c.__module__ == module.__name__
    ]
    return method


METHODS = {m.name: _the_method(m.name) for m in pkgutil.iter_modules(__path__) if m.name != "base"}
NAMES = {method: name for name, method in METHODS.items()}
