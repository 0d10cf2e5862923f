"""The house rules a machine can check."""

import ast
import re
from pathlib import Path

from cim.methods import METHODS

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "cim"
# Imports point backwards along this line only.
ORDER = [
    ["errors"],
    ["types"],
    ["parts"],
    ["returns", "memory", "stats", "runs"],
    ["methods", "agents", "coefficient", "envs"],
    ["collect", "selection", "bonus"],
    ["train"],
    ["evaluate", "options"],
    ["launch"],
    ["progress", "video", "plots"],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


def room(path):
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path):
    """The room of every import of ours at the top of a file; those inside functions may wait."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cim."):
            yield node.module.split(".")[1]


def test_imports_point_one_way():
    wrong = []
    for path in SRC.rglob("*.py"):
        if path.name == "__init__.py" and path.parent == SRC:
            continue
        for other in imports(path):
            if other != room(path) and RANK[other] >= RANK[room(path)]:
                wrong.append(f"{path.relative_to(SRC)} imports {other}")
    assert not wrong


def test_nothing_in_methods_knows_an_agent_and_nothing_in_agents_knows_a_method():
    for here, there in (("methods", {"agents", "envs"}), ("agents", {"methods", "envs"})):
        for path in (SRC / here).glob("*.py"):
            assert not there & set(imports(path)), path


def test_figures_read_run_folders_and_nothing_else():
    for path in (SRC / "plots").glob("*.py"):
        assert set(imports(path)) <= {"errors", "runs", "stats", "types", "plots"}, path


def test_only_one_file_writes():
    """Besides runs.py: figures save themselves, the video too."""
    writes = re.compile(r"\.write_text|\.write_bytes|open\([^)]*[\"'][wa]b?[\"']|np\.save")
    for path in SRC.rglob("*.py"):
        if path.name != "runs.py" and writes.search(path.read_text()):
            raise AssertionError(path)


def test_every_method_cites_its_paper_and_its_equation():
    for name, method in METHODS.items():
        text = (SRC / "methods" / f"{name}.py").read_text().split('"""')[1]
        if method.category != "control":
            assert "https://arxiv.org" in text, name
            assert "=" in text, name


def test_the_tour_names_files_that_exist_each_once_and_in_the_order_of_imports():
    tour = (ROOT / "docs" / "TOUR.md").read_text()
    stops = re.findall(r"^## \d+\. `([^`]+)`", tour, flags=re.M)
    assert len(stops) >= 10
    assert len(set(stops)) == len(stops)
    for stop in stops:
        assert (SRC / stop).exists(), stop


def test_every_option_says_what_it_is():
    import dataclasses

    from cim.agents import AGENTS
    from cim.coefficient import COEFFICIENTS
    from cim.train import Config

    for of in [Config, *METHODS.values(), *AGENTS.values(), *COEFFICIENTS.values()]:
        for field in dataclasses.fields(of):
            assert field.metadata.get("help"), f"{of.__name__}.{field.name}"


def test_the_pages_say_what_the_code_says():
    """Where this fails: make docs."""
    import importlib.util

    place = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert place is not None
    assert place.loader is not None
    generate = importlib.util.module_from_spec(place)
    place.loader.exec_module(generate)
    for path, write in generate.PAGES.items():
        assert write(path.read_text()) == path.read_text(), path
