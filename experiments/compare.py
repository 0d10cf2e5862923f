"""All methods side by side in one environment: how far they get, and whether what each pays is
earned better by the policy that it made than by one that never learned.

python experiments/compare.py OUT [--env PointMaze] [--methods rnd,cim,...] [--sim gpu] ...

Runs go into OUT/METHOD (and on from there, if they are there), the table into OUT/compare.json:
a cell a method with coverage, return, diversity and `bonus`: the mean of what it pays, seed by
seed, for a rollout of its own policy and of an untrained one, both judged by what it has learned.
"""

import argparse
import json
import platform
import time
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cim.agents.ppo import PPO
from cim.collect import begin, collect
from cim.launch import launch_together, load
from cim.methods import METHODS
from cim.parts.running import whitened
from cim.parts.seeds import each_seed
from cim.train import Config, fresh, resolve, world_seeds
from cim.types import UserError

JUDGED = 7  # the purpose of these worlds' seeds


def own_bonus(folder: Path) -> dict[str, list[float]]:
    """What a run's method pays, mean a step, for its policy and for an untrained one."""
    config, learners = load(folder)
    env = config.make_env(config.worlds)
    untrained, _ = fresh(replace(config, seed=config.seed + 1000), env.spec)
    agents = {"own": learners.agent, "untrained": untrained.learners.agent}
    keys = jax.vmap(jax.random.key)(jnp.arange(config.seeds, dtype=jnp.uint32))
    found = {}
    for name, agent in agents.items():
        player = eqx.tree_at(lambda player: player.agent, learners.player, agent)
        cursor = begin(env, config.behaviour, world_seeds(config, JUDGED))
        length = max(config.rollout, env.spec.horizon)
        _, rollout = collect(env, config.behaviour, player, cursor, keys, length)
        paid = _paid(config)(learners.method, learners.normaliser, rollout, keys)
        found[name] = np.asarray(paid).tolist()
    return found


def _paid(config):
    weights = jnp.array(list(config.method.streams.values()))

    def one(method, normaliser, rollout, key):
        rows = config.method.reward(method, whitened(normaliser, rollout), key)
        return jnp.einsum("r,rtn->tn", weights, rows).mean()

    return jax.jit(each_seed(one))


def cell(folder: Path) -> dict:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    report = json.loads((folder / "results" / "evaluation.json").read_text())
    curve = [(x["step"], x["evaluation/coverage"]) for x in lines if "evaluation/coverage" in x]
    kept = ("method", "env", "sim", "steps", "coverage", "return", "length", "diversity")
    return {k: report[k] for k in kept} | {"curve": curve, "wall_s": lines[-1].get("wall_s")}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--env", default="PointMaze")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--sim", default="cpu", choices=("cpu", "gpu", "warp-cpu"))
    parser.add_argument("--steps", type=float, default=500_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--rollout", type=int, default=128)
    parser.add_argument("--time-limit", type=int, default=50)
    parser.add_argument("--minibatch", type=int, help="of methods that have one")
    parser.add_argument("--evaluations", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=200)
    return parser.parse_args()


def configs(asked: argparse.Namespace) -> list[Config]:
    shared = {
        "env": asked.env, "sim": asked.sim, "steps": int(asked.steps), "seeds": asked.seeds,
        "num_envs": asked.num_envs, "rollout": asked.rollout, "time_limit": asked.time_limit,
        "evaluations": asked.evaluations, "evaluation_episodes": asked.episodes, "keep": 1,
        "checkpoints": 2,
    }  # fmt: skip
    made = []
    for name in asked.methods.split(","):
        method = METHODS[name]()
        if asked.minibatch and "minibatch" in vars(method):
            method = replace(method, minibatch=asked.minibatch)
        made.append(resolve(Config(method, agent=PPO(), **shared)))
    return made


def main() -> None:
    asked = arguments()
    names, start = asked.methods.split(","), time.perf_counter()
    outs = [asked.out / name for name in names]
    resume = (outs[0] / "config.json").exists()
    try:
        launch_together(configs(asked), outs, resume=resume)
    except UserError as error:
        raise SystemExit(f"compare: {error}") from error
    trained = time.perf_counter() - start
    cells = []
    for name, folder in zip(names, outs, strict=True):
        found = cell(folder)
        if METHODS[name]().streams:
            found["bonus"] = own_bonus(folder)
        cells.append(found)
        print(json.dumps({k: v for k, v in found.items() if k != "curve"}), flush=True)
    backend = jax.devices()[0].device_kind
    about = {"machine": f"{platform.machine()}, {backend}, jax {jax.__version__}",
             "settings": {k: str(v) for k, v in vars(asked).items()},
             "train_s": trained}  # fmt: skip
    (asked.out / "compare.json").write_text(json.dumps(about | {"cells": cells}))


if __name__ == "__main__":
    main()
