"""The command line as a stranger meets it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cim.cli import run
from cim.options import configure, flags, read
from cim.train import Config
from cim.types import Area, UserError

FAST = ["--env", "PointWorld", "--steps", "200", "--num-envs", "4", "--rollout", "25"]
FAST += [
    "--method.width",
    "8",
    "--method.minibatch",
    "16",
    "--method.passes",
    "1",
    "--evaluation-episodes",
    "21",
]


def said(capsys, *words):
    code = run(words)
    out, err = capsys.readouterr()
    return code, out, err


def test_help_lists_the_commands_without_loading_jax(capsys):
    code, out, _ = said(capsys, "--help")
    assert code == 0
    for command in ("train", "evaluate", "figure", "video", "methods", "envs"):
        assert f"\n  {command} " in out
    script = "import sys; from cim.cli import run; run(['--help']); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


def test_importing_cim_is_light():
    start = time.perf_counter()
    script = "import cim, sys; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
    assert time.perf_counter() - start < 2  # the interpreter's own start included


@pytest.mark.parametrize("command", ["evaluate", "figure", "video", "methods", "envs"])
def test_every_command_answers_help(capsys, command):
    with pytest.raises(SystemExit) as end:
        run([command, "--help"])
    assert end.value.code == 0
    assert f"usage: cim {command}" in capsys.readouterr().out


def test_the_help_of_train_shows_every_option_of_the_chosen_parts(capsys):
    code, out, _ = said(capsys, "train", "--agent", "ddpg", "--help")
    assert code == 0
    for path in flags(configure({"agent": "ddpg"})):
        assert f"--{path}" in out
    assert "--agent.target-rate" in out
    assert "--agent.epochs" not in out


def test_train_evaluate_and_figure(capsys, tmp_path):
    folder = str(tmp_path / "R")
    code, out, err = said(
        capsys, "train", "--method", "cim", *FAST, "--seeds", "2", "--out", folder
    )
    assert (code, out) == (0, "")
    assert "coverage" in err
    code, out, _ = said(capsys, "evaluate", folder, "--episodes", "22", "--json")
    report = json.loads(out)
    assert (report["method"], report["env"], report["steps"]) == ("cim", "PointWorld", 200)
    assert {"mean", "std", "per_seed", "bins", "episodes"} <= set(report["coverage"])
    assert len(report["return"]["per_seed"]) == 2
    assert "recognised" in report["diversity"]
    assert report["metric_version"] == 1
    code, out, _ = said(capsys, "figure", folder)
    assert code == 0
    for path in out.split():
        assert Path(path).read_bytes()[:4] in (b"\x89PNG", b"%PDF")


def test_methods_and_envs_speak_json(capsys):
    _, out, _ = said(capsys, "methods", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["cim"]["category"] == "competence"
    assert rows["cim"]["skills"] == "both"
    assert {"alignment", "neighbours", "k"} <= {o["name"] for o in rows["cim"]["options"]}
    _, out, _ = said(capsys, "envs", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert {"Ant", "Humanoid", "HalfCheetah", "FetchPush", "PointMaze"} <= set(rows)
    assert (rows["Ant"]["observation"], rows["Ant"]["time_limit"]) == (29, 200)
    assert {"sims", "action"} <= set(rows["Ant"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tran"], "'tran' is unknown; known: train"),
        (["train", "--method", "cimm"], "did you mean cim"),
        (["train", "--env", "Antt"], "did you mean Ant"),
        (["train", "--env", "gym:Nope-v0"], "cannot make 'Nope-v0'"),
        (["train", "--method.alignmnt", "mse"], "did you mean --method.alignment?"),
        (["train", "--method.alignment", "mze"], "one of cim, mse, vmf, lsd, cic, becl"),
        (["train", "--method.clamp", "maybe"], "one of true, false"),
        (["train", "--steps", "many"], "a whole number"),
        (["train", "--steps", "1.5"], "a whole number"),
        (["train", "--steps"], "needs a value"),
        (["train", "Ant"], "is not an option"),
        (["train", "--preset", "papr"], "official, paper"),
        (["train", "--method.k", "400"], "k must be below 300"),
        (["train", "--position", "0"], "2 values"),
        (["evaluate", "nowhere"], "does not exist"),
        (["evaluate", "."], "no config.json"),
        (["evaluate", ".", "--episodes", "0"], "at least 1"),
        (["figure", "nowhere"], "does not exist"),
        (["video", "nowhere"], "does not exist"),
        (["evaluate"], "required"),
    ],
)
def test_a_mistake_ends_in_one_line_and_exit_code_two(capsys, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    code, out, err = said(capsys, *words)
    assert code == 2
    assert says in err
    assert out == ""
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_disk_that_cannot_be_written_is_one_line(capsys):
    code, _, err = said(capsys, "train", *FAST, "--out", "/proc/nothing/here")
    assert code == 2
    assert err.startswith("cim: cannot write")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("kind", "word", "value"),
    [
        (int, "20e6", 20_000_000),
        (float, "3e-4", 3e-4),
        (bool, "False", False),
        (int | None, "none", None),
        (tuple[int, ...], "", ()),
        (tuple[int, ...], "0,1", (0, 1)),
        (tuple[int, int] | None, "3,4", (3, 4)),
        (Area | None, "-1,1,0,2,4,8", Area((-1.0, 1.0), (0.0, 2.0), (4, 8))),
    ],
)
def test_words_become_values(kind, word, value):
    assert read("--x", kind, word) == value


def test_a_preset_is_a_start_and_words_go_on_top():
    config = configure({"method.k": "5", "method.clamp": "true"}, preset="paper")
    assert (config.method.neighbours, config.method.k, config.method.clamp) == ("skill", 5, True)


def test_words_of_another_method_are_refused():
    with pytest.raises(UserError, match="--method.k"):
        configure({"method": "none", "method.k": "5"})


def test_the_defaults_are_those_of_the_library():
    assert configure({}) == Config()
