"""Words -> a Config, and back: flags and config.json are the fields of its dataclasses.

A flag is a field's path (`--steps`, `--method.alignment`); a part is chosen by its name (`--method
cim`). In JSON a part carries that name beside its fields.
"""

import dataclasses
import sys
import types
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import cim
from cim.agents import AGENTS
from cim.coefficient import COEFFICIENTS
from cim.methods import METHODS
from cim.train import Config
from cim.types import Area, UserError, unknown

PARTS: dict[str, dict[str, type]] = {
    "method": dict(METHODS),
    "agent": dict(AGENTS),
    "coefficient": dict(COEFFICIENTS),
}
FORMAT = 1  # of config.json
SINCE: dict[str, Any] = {"sim": "cpu", "contacts": None, "constraints": None}  # younger than it


def part(kind: str, name: str) -> type:
    if name not in PARTS[kind]:
        raise unknown(kind, name, PARTS[kind])
    return PARTS[kind][name]


def name_of(kind: str, value: Any) -> str:
    return next(name for name, of in PARTS[kind].items() if type(value) is of)


def flags(config: Config) -> dict[str, tuple[dataclasses.Field, Any, Any]]:
    """Every flag of a run made of these parts: its field, its type and its value."""
    found = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        found[field.name] = (field, get_type_hints(Config)[field.name], value)
        if field.name in PARTS:
            hints = get_type_hints(type(value))
            for inner in dataclasses.fields(value):
                path = f"{field.name}.{inner.name}"
                found[path] = (inner, hints[inner.name], getattr(value, inner.name))
    return {path.replace("_", "-"): entry for path, entry in found.items()}


def configure(
    words: dict[str, str], preset: str | None = None, base: Config | None = None
) -> Config:
    """The base (or the defaults) with the user's words in place."""
    config = base or Config()
    for kind in PARTS:
        if kind in words and words[kind] != name_of(kind, getattr(config, kind)):
            config = dataclasses.replace(config, **{kind: part(kind, words[kind])()})
    if preset is not None:
        config = dataclasses.replace(config, method=type(config.method).preset(preset))
    known = flags(config)
    for path, word in words.items():
        if path in PARTS:
            continue
        if path not in known:
            near = get_close_matches(path, known, n=1, cutoff=0.5)
            hint = f"did you mean --{near[0]}? " if near else ""
            raise UserError(f"option --{path} is unknown; {hint}cim train --help lists them")
        config = _put(config, path, read(f"--{path}", known[path][1], word))
    return config


def _put(config: Config, path: str, value: Any) -> Config:
    head, _, tail = path.replace("-", "_").partition(".")
    inner = dataclasses.replace(getattr(config, head), **{tail: value}) if tail else value
    return dataclasses.replace(config, **{head: inner})


def read(flag: str, kind: Any, word: str) -> Any:
    """A word as a value of this type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        [some] = [k for k in inner if k is not type(None)]
        return None if word.lower() == "none" else read(flag, some, word)
    if origin is Literal:
        return _one_of(flag, word, inner)
    if origin is tuple:
        items = [w for w in word.split(",") if w]
        if inner[-1] is not Ellipsis and len(items) != len(inner):
            raise UserError(f"{flag} = {word!r}: {len(inner)} values with commas between them")
        return tuple(read(flag, inner[0], item) for item in items)
    if kind is Area:
        x0, x1, y0, y1, *cells = read(flag, tuple[(float,) * 6], word)
        return Area((x0, x1), (y0, y1), (int(cells[0]), int(cells[1])))
    if kind is bool:
        return _one_of(flag, word.lower(), ("true", "false")) == "true"
    return word if kind is str else _number(flag, kind, word)


def _one_of(flag: str, word: str, known: tuple[str, ...]) -> str:
    if word not in known:
        raise UserError(f"{flag} = {word!r}: one of {', '.join(known)}")
    return word


def _number(flag: str, kind: type, word: str) -> int | float:
    try:
        number = float(word)
        if kind is int and number != int(number):
            raise ValueError
    except (ValueError, OverflowError) as error:
        wanted = "a whole number" if kind is int else "a number"
        raise UserError(f"{flag} = {word!r}: {wanted}") from error
    return kind(number)


def to_json(config: Config) -> dict[str, Any]:
    content: dict[str, Any] = {"format": FORMAT, "cim": cim.__version__}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in PARTS:
            value = {"name": name_of(field.name, value)} | dataclasses.asdict(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = dataclasses.asdict(value)
        content[field.name] = value
    return content


def from_json(content: dict[str, Any], source: str) -> Config:
    if content.get("format", FORMAT + 1) > FORMAT:
        raise UserError(
            f"{source} is of format {content.get('format')}, written by cim {content.get('cim')}; "
            f"this one ({cim.__version__}) reads up to {FORMAT}: upgrade cim"
        )
    values, content = {}, SINCE | content
    for field in dataclasses.fields(Config):
        if field.name not in content:
            raise UserError(f"{source} lacks {field.name!r}")
        value = content[field.name]
        if field.name in PARTS:
            of = part(field.name, value.get("name", "?"))
            value = _fill(of, {k: v for k, v in value.items() if k != "name"}, source)
        elif field.name == "area" and value is not None:
            value = _fill(Area, value, source)
        values[field.name] = _tuples(value)
    return Config(**values)


def _fill(of: type, values: dict[str, Any], source: str) -> Any:
    known = {field.name for field in dataclasses.fields(of)}
    for name in values:
        if name not in known:
            raise unknown(f"{source}: option", name, sorted(known))
    return of(**{name: _tuples(value) for name, value in values.items()})


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def words_for(kind: Any) -> str:
    """How a value of this type is written."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return words_for(next(k for k in inner if k is not type(None)))
    if origin is Literal:
        return "|".join(map(str, inner))
    if origin is tuple:
        return f"{words_for(inner[0])},..."
    if kind is Area:
        return "X0,X1,Y0,Y1,COLUMNS,ROWS"
    return {int: "N", float: "X", bool: "true|false", str: "NAME"}[kind]


def list_methods() -> list[dict[str, Any]]:
    """The table of methods, for people and machines."""
    return [
        {
            "name": name,
            "category": method.category,
            "skills": method.skill_kinds,
            "presets": list(method.presets),
            "about": (sys.modules[method.__module__].__doc__ or "").split("\n")[0],
            "options": [
                {
                    "name": field.name.replace("_", "-"),
                    "default": field.default,
                    "values": words_for(get_type_hints(method)[field.name]),
                    "help": field.metadata.get("help", ""),
                }
                for field in dataclasses.fields(method)
            ],
        }
        for name, method in METHODS.items()
    ]
