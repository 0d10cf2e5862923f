"""Write what the code knows into the pages: docs/methods.md below its marker, README's table.

python docs/generate.py       `make docs`; a test fails where the pages are not what this writes
"""

import dataclasses
import sys
from pathlib import Path

from cim.methods import METHODS
from cim.options import list_methods

ROOT = Path(__file__).parents[1]
MARKER = "<!-- generated from src/cim/methods by `make docs`: change it there -->"
END = "<!-- end of what is generated -->"
ORDER = ("knowledge", "data", "competence", "control")


def docstring(name: str) -> tuple[str, str]:
    """The first sentence and the rest of what a method's file says of itself."""
    text = (sys.modules[METHODS[name].__module__].__doc__ or "").strip()
    head, _, body = text.partition("\n\n")
    return " ".join(head.split()), body


def by_category() -> list[dict]:
    rows = list_methods()
    return sorted(rows, key=lambda row: (ORDER.index(row["category"]), row["name"]))


def word(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def section(row: dict) -> str:
    name = row["name"]
    method, (head, body) = METHODS[name], docstring(name)
    skills = {"none": "none", "both": "continuous or discrete"}.get(row["skills"], row["skills"])
    about = f"Category: {row['category']}. Skills: {skills}. Reads: {method.needs}."
    if method.skill_kinds != "none":
        about += f" To fine-tune: `selection.{method.selection}`."
    lines = [f"## `{name}`", "", head, "", about, "", body, ""]
    if row["options"]:
        lines += options(name)
    return "\n".join(lines).strip()


def options(name: str) -> list[str]:
    method = METHODS[name]
    presets = {k: v for k, v in method.presets.items() if v}
    heads = ["`--method.`", "default", *(f"`{p}`" for p in presets), ""]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for field in dataclasses.fields(method):
        changed = [word(p[field.name]) if field.name in p else "" for p in presets.values()]
        cells = [field.name.replace("_", "-"), word(field.default), *changed]
        lines.append("| " + " | ".join([*cells, field.metadata["help"]]) + " |")
    return lines


def methods_page(old: str) -> str:
    head = old.partition(MARKER)[0].rstrip()
    sections = "\n\n".join(section(row) for row in by_category())
    return f"{head}\n\n{MARKER}\n\n{sections}\n"


def readme(old: str) -> str:
    before, _, rest = old.partition(MARKER)
    after = rest.partition(END)[2]
    lines = ["| method | category | skills | |", "|---|---|---|---|"]
    for row in by_category():
        head, _ = docstring(row["name"])
        said = head.partition(" https://")[0].rstrip(".")
        skills = "" if row["skills"] == "none" else row["skills"]
        lines.append(f"| `{row['name']}` | {row['category']} | {skills} | {said} |")
    table = "\n".join(lines)
    return f"{before}{MARKER}\n\n{table}\n\n{END}{after}"


PAGES = {ROOT / "docs" / "methods.md": methods_page, ROOT / "README.md": readme}


def main() -> None:
    for path, write in PAGES.items():
        path.write_text(write(path.read_text()))
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
