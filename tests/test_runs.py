"""What a run folder promises: whole files, the same numbers after a kill, one line for trouble."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import cim.options
import cim.runs
from cim.agents.ppo import PPO
from cim.launch import Diverged, evaluate_run, launch, launch_together, load
from cim.methods.base import IntrinsicMethod
from cim.methods.cim import CIM
from cim.methods.rnd import RND
from cim.options import from_json, to_json
from cim.runs import CorruptCheckpoint, Run, atomic
from cim.train import Config, resolve
from cim.types import UserError

WORDS = [
    "train", "--env", "PointWorld", "--steps", "3000", "--num-envs", "4", "--rollout", "25",
    "--method.width", "8", "--method.minibatch", "16", "--method.passes", "1",
    "--agent.width", "8", "--agent.epochs", "1",
    "--seeds", "2", "--evaluations", "3", "--evaluation-episodes", "5", "--checkpoints", "15",
]  # fmt: skip
CLOCK = ("wall_s",)


def small(method_of=None, **changes):
    method, agent = method_of or CIM(width=8, passes=1, minibatch=16), PPO(width=8, epochs=1)
    base = {"steps": 400, "num_envs": 4, "rollout": 25, "evaluations": 2, "evaluation_episodes": 5}
    return Config(method, "PointWorld", agent, **(base | changes))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return launch(small(seeds=2), tmp_path_factory.mktemp("runs") / "whole")


def lines(run):
    return [{k: v for k, v in line.items() if k not in CLOCK} for line in run.metrics]


def arrays(run):
    with np.load(run.checkpoints[-1]) as file:
        return {name: file[name] for name in file.files}


def test_a_run_is_a_folder_anybody_can_read(run):
    assert json.loads((run.folder / "config.json").read_text())["method"]["name"] == "cim"
    steps = [line["step"] for line in run.metrics if "iteration" in line]
    assert steps == [100, 200, 300, 400]
    assert [line["step"] for line in run.metrics if "evaluation/coverage" in line] == [200, 400]
    assert all(len(line["bonus/projection"]) == 2 for line in run.metrics if "iteration" in line)
    assert list(run.folder.glob("tensorboard/seed_1/events*"))
    report = run.read_result("evaluation")
    assert (report["steps"], report["metric_version"], report["episodes"]) == (400, 1, 5)
    assert len(run.checkpoints) == 3


def test_rerunning_its_configuration_repeats_it(run, tmp_path):
    config = from_json(run.config, "config.json")
    again = launch(config, tmp_path / "again")
    assert lines(again) == lines(run)
    for name, array in arrays(run).items():
        np.testing.assert_array_equal(arrays(again)[name], array, err_msg=name)


def test_a_run_killed_in_the_middle_goes_on_as_if_nothing_had_happened(tmp_path):
    """kill -9 while it trains; resumed, every array and every line equals the uninterrupted run."""
    command = [sys.executable, "-m", "cim.cli", *WORDS, "--out"]
    subprocess.run([*command, tmp_path / "whole"], check=True, capture_output=True)
    victim = subprocess.Popen([*command, tmp_path / "cut"], stderr=subprocess.DEVNULL)
    saved = tmp_path / "cut" / "checkpoints"
    for _ in range(6000):
        if victim.poll() is not None or (saved.exists() and any(saved.glob("step_*.npz"))):
            break
        time.sleep(0.01)
    assert victim.poll() is None, "it ended before it could be killed"
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert len(Run(tmp_path / "cut").metrics) < len(Run(tmp_path / "whole").metrics)
    subprocess.run([*command, tmp_path / "cut", "--resume"], check=True, capture_output=True)
    whole, cut = Run(tmp_path / "whole"), Run(tmp_path / "cut")
    assert lines(cut) == lines(whole)
    for name, array in arrays(whole).items():
        np.testing.assert_array_equal(arrays(cut)[name], array, err_msg=name)


def test_asked_to_stop_it_saves_and_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "cim.cli", *WORDS, "--steps", "3000000", "--checkpoints", "1"]
    process = subprocess.Popen(
        [*command, "--evaluations", "0", "--out", tmp_path / "r"], stderr=subprocess.PIPE, text=True
    )
    metrics = tmp_path / "r" / "metrics.jsonl"
    for _ in range(6000):
        if metrics.exists() and metrics.read_text().count("\n") > 2:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "cim train --resume --out" in said
    assert len(Run(tmp_path / "r").checkpoints) == 1


def test_loading_gives_what_was_learned(run):
    config, learners = load(run.folder)
    assert config == resolve(small(seeds=2))
    stored = arrays(run)["['learners'].agent.actor.model.net.layers[0].weight"]
    np.testing.assert_array_equal(learners.agent.actor.model.net.layers[0].weight, stored)


def test_evaluating_twice_gives_the_same_report(run):
    assert evaluate_run(run.folder, 7) == evaluate_run(run.folder, 7)


def test_a_configuration_survives_json():
    config = resolve(small(position=(0, 1), seeds=3))
    assert from_json(json.loads(json.dumps(to_json(config))), "here") == config


def test_a_configuration_of_the_future_is_refused(run, tmp_path):
    content = run.config | {"format": 99, "cim": "9.0"}
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"format 99, written by cim 9\.0.*upgrade"):
        load(tmp_path)


def test_an_option_it_does_not_know_is_refused(run):
    content = run.config
    content["method"] |= {"neighbors": 3}
    with pytest.raises(UserError, match="did you mean neighbours"):
        from_json(content, "config.json")


def test_a_folder_that_holds_a_run_is_not_overwritten(run):
    before = (run.folder / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match="--resume.*--overwrite"):
        launch(small(), run.folder)
    assert (run.folder / "metrics.jsonl").read_bytes() == before


def test_a_folder_with_something_else_in_it_is_not_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UserError, match="not empty and not a run"):
        launch(small(), tmp_path, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_overwriting_leaves_nothing_of_the_old_run(tmp_path):
    launch(small(steps=800), tmp_path / "r")
    fresh = launch(small(steps=100), tmp_path / "r", overwrite=True)
    assert [line["step"] for line in fresh.metrics if "iteration" in line] == [100]
    assert [p.name for p in fresh.checkpoints] == ["step_000000000100.npz"]


def test_resuming_with_other_settings_is_refused(run):
    with pytest.raises(UserError, match="steps = 400, not 800"):
        launch(small(seeds=2, steps=800), run.folder, resume=True)


def test_resuming_a_finished_run_changes_nothing(run):
    before = lines(run)
    launch(small(seeds=2), run.folder, resume=True)
    assert lines(run) == before


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_corrupt_checkpoint_is_named_and_so_is_the_way_out(tmp_path, damage):
    run = launch(small(), tmp_path / "r")
    path = run.checkpoints[-1]
    whole = path.read_bytes()
    begin, end = len(whole) // 2, len(whole) // 2 + 64
    broken = {
        "cut": whole[:begin],
        "flipped": whole[:begin] + bytes(b ^ 255 for b in whole[begin:end]) + whole[end:],
        "empty": b"",
        "other": b"not a checkpoint",
    }
    path.write_bytes(broken[damage])
    with pytest.raises(CorruptCheckpoint, match=f"{path.name}.*delete it to go on from step_"):
        load(run.folder)


def test_a_checkpoint_of_another_run_is_refused(run, tmp_path):
    other = launch(small(seeds=1), tmp_path / "other")
    mine = load(run.folder)[1]
    with pytest.raises(CorruptCheckpoint, match="this run has"):
        other.load({"learners": mine})


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    (tmp_path / "f").write_bytes(b"old")

    def die_halfway():
        with atomic(tmp_path / "f") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        die_halfway()
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("f", b"old")]


def test_a_full_disk_leaves_the_last_checkpoint(run, tmp_path, monkeypatch):
    kept = launch(small(), tmp_path / "r")
    before = {p.name: p.read_bytes() for p in kept.checkpoints}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cim.runs.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        kept.save(500, {"a": np.zeros(3)}, keep=3)
    assert {p.name: p.read_bytes() for p in (kept.folder / "checkpoints").iterdir()} == before


def test_what_is_not_a_number_stops_the_run_by_its_name(tmp_path, monkeypatch):
    import jax.numpy as jnp

    from cim.envs.toy import PointWorld

    honest = PointWorld.step

    def broken(self, state, action):
        state, now = honest(self, state, action)
        late = jnp.where(state.elapsed[:, None] == 20, jnp.nan, now.reached)
        import dataclasses

        return state, dataclasses.replace(now, reached=late)

    monkeypatch.setattr(PointWorld, "step", broken)
    with pytest.raises(Diverged, match=r"observation is not finite at step 100 \(seed 0\)"):
        launch(small(seed=0, steps=300, time_limit=31), tmp_path / "r")
    assert not Run(tmp_path / "r").checkpoints


BESIDE = RND(width=8, features=4, minibatch=50)


def test_runs_side_by_side_are_the_runs_they_would_be_alone(run, tmp_path):
    """Up to rounding: elsewhere the same program is compiled for other worlds beside it."""
    other = small(method_of=BESIDE, seeds=3, num_envs=5)
    pair = launch_together([small(seeds=2), other], [tmp_path / "cim", tmp_path / "rnd"])
    assert [r.config["method"]["name"] for r in pair] == ["cim", "rnd"]
    alone = launch(other, tmp_path / "alone")
    for together, apart in zip(pair, (run, alone), strict=True):
        assert len(together.metrics) == len(apart.metrics)
        for name, array in arrays(apart).items():
            if array.dtype.kind == "f":
                np.testing.assert_allclose(
                    arrays(together)[name], array, rtol=1e-3, atol=1e-3, err_msg=name
                )


def test_one_of_several_goes_on_alone_and_all_go_on_together(tmp_path):
    outs = [tmp_path / "cim", tmp_path / "rnd"]
    both = [small(), small(method_of=BESIDE)]
    whole = launch_together(both, [tmp_path / "a", tmp_path / "b"])
    pair = launch_together(both, outs)
    for run in pair:
        for late in run.checkpoints[1:]:
            late.unlink()
    first = arrays(pair[0])
    launch(both[0], outs[0], resume=True)
    assert len(pair[1].checkpoints) == 1
    launch_together(both, outs, resume=True)
    for run, uninterrupted in zip(pair, whole, strict=True):
        assert [x["step"] for x in run.metrics] == [x["step"] for x in uninterrupted.metrics]
        for name, array in arrays(uninterrupted).items():
            if array.dtype.kind == "f":
                np.testing.assert_allclose(
                    arrays(run)[name], array, rtol=1e-3, atol=1e-3, err_msg=name
                )
    assert any((first[name] != array).any() for name, array in arrays(whole[0]).items())


@dataclass(frozen=True)
class Sick(IntrinsicMethod):
    """Its second lesson is its last."""

    def init(self, spec, key):
        return jnp.zeros(())

    def reward(self, state, batch, key):
        return jnp.where(state < 1, 1.0, jnp.nan) * jnp.ones((1, *batch.reward.shape))

    def update(self, state, batch, key):
        return state + 1, {}


def test_one_that_diverges_leaves_the_others_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(cim.options.PARTS["method"], "sick", Sick)
    with pytest.raises(Diverged, match="loss or bonus is not finite at step 200"):
        launch_together([small(method_of=Sick()), small()], [tmp_path / "sick", tmp_path / "cim"])
    assert Run(tmp_path / "cim").metrics[-1]["step"] == 400
    assert Run(tmp_path / "sick").metrics[-1]["step"] == 100


def test_runs_that_cannot_share_worlds_are_refused(tmp_path):
    with pytest.raises(UserError, match="must share rollout"):
        launch_together([small(), small(rollout=50)], [tmp_path / "a", tmp_path / "b"])
    assert not list(tmp_path.iterdir())
