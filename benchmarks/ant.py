"""Speed and memory of Ant with the official settings (64 worlds x 512 steps, 10 passes), one seed.

python benchmarks/ant.py [iterations]      a JSON object a line; every ratio is measured in this run

Raw EnvPool is stepped between the iterations, on the same worlds' settings, so that a noisy machine
spoils both alike. `learning` is split by running its parts one by one on the last rollout.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from functools import partial

import jax
import numpy as np

from cim.collect import collect
from cim.envs.catalog import CATALOG
from cim.envs.host import import_envpool
from cim.parts.running import whitened
from cim.train import Config, TrainState, _split, init, learn, resolve

PUBLISHED = 2_900  # env-steps/s of the published code, patched, alone on such a machine (median)


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, jax {jax.__version__}"


def tell(name: str, value: float, unit: str, **more: object) -> None:
    print(json.dumps({"name": name, "value": round(value, 4), "unit": unit, **more}), flush=True)


def timed(function, *inputs):
    start = time.perf_counter()
    result = jax.block_until_ready(function(*inputs))
    return time.perf_counter() - start, result


def raw_pool():
    entry = CATALOG["Ant"]
    options = {"num_envs": 64, "max_episode_steps": 200, "env_seed": list(range(64))}
    pool = import_envpool().make(entry.task, env_type="gymnasium", **options, **entry.options)
    pool.reset()
    return pool


def raw_rate(pool, steps: int) -> float:
    """Gaussian actions, clipped: what an untrained policy does."""
    actions = np.clip(np.random.default_rng(0).normal(size=(steps, 64, 8)), -1, 1)
    start = time.perf_counter()
    for action in actions:
        pool.step(action)
    return 64 * steps / (time.perf_counter() - start)


def median(values) -> float:
    return float(np.median(values))


def main(iterations: int = 6) -> None:
    config = resolve(Config(env="Ant", steps=20_000_000))
    env = config.make_env(config.worlds)
    state, pool = init(config, env), raw_pool()
    rates, ratios, collects, learns = [], [], [], []
    for number in range(iterations + 1):
        keys, k_collect, k_learn = _split(state.keys)
        before = raw_rate(pool, 128)
        collecting = partial(collect, env, config.behaviour, state.mine.learners.player)
        t_collect, (cursor, rollout) = timed(collecting, state.cursor, k_collect, config.rollout)
        raw = (before + raw_rate(pool, 128)) / 2
        progress = (state.iteration / config.iterations).astype(np.float32)
        t_learn, (mine, _) = timed(
            partial(learn, config, env.spec), state.mine, rollout, progress, k_learn
        )
        state = TrainState(mine, cursor, keys, state.iteration + 1)
        if number:  # the first compiles
            rates.append(config.batch / (t_collect + t_learn))
            ratios.append(config.batch / t_collect / raw)
            collects.append(t_collect)
            learns.append(t_learn)
    where = {"machine": machine(), "iterations": iterations}
    tell("ant/collection", median(ratios), "x raw EnvPool", against="raw EnvPool", **where)
    speed = {"ratio": round(median(rates) / PUBLISHED, 3), "against": "published code: 2900"}
    tell("ant/training", median(rates), "env-steps/s", **speed, **where)
    tell("ant/collect", median(collects), "s per 32768 steps", **where)
    share = {"ratio": round(median(learns) / median(collects), 3), "against": "collecting"}
    tell("ant/learn", median(learns), "s per 32768 steps", **share, **where)
    split(config, state, rollout)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    tell("ant/memory", peak, "GiB resident at most", **where)
    start_up()


def split(config, state, rollout) -> None:
    """What learning spends its time on."""
    one = jax.tree.map(lambda a: a[0], (state.mine.learners, rollout))
    learners, key = one[0], jax.random.key(0)
    batch = whitened(learners.normaliser, one[1])
    method, agent = config.method, config.agent
    rewards = method.reward(learners.method, batch, key)
    weights = jax.numpy.ones(len(rewards))
    parts = {
        "fit": (jax.jit(method.update), (learners.method, batch, key)),
        "reward": (jax.jit(method.reward), (learners.method, batch, key)),
        "ppo": (jax.jit(agent.update), (learners.agent, batch, rewards, weights, key)),
    }
    for name, (function, inputs) in parts.items():
        timed(function, *inputs)
        spent = median([timed(function, *inputs)[0] for _ in range(3)])
        tell(f"ant/learn/{name}", spent, "s per 32768 steps", machine=machine())


def start_up() -> None:
    for name, words in (
        ("import cim", ["-c", "import cim"]),
        ("cim --help", ["-m", "cim.cli", "-h"]),
    ):
        spent = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
            spent.append(time.perf_counter() - start)
        tell(name, median(spent), "s, interpreter included", machine=machine())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
