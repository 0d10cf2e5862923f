"""What each method's learning costs beside PPO's, on 32 768 steps of an Ant's size.

python benchmarks/methods.py [preset] [method ...]      a JSON object a line: seconds of fit and of
reward, and their sum over PPO's update on the same batch, measured in turn with it
"""

import json
import os
import platform
import sys
import time

import jax
import jax.numpy as jnp

from cim.agents.ppo import PPO
from cim.methods import METHODS
from cim.types import Batch, EnvSpec

T, N, LENGTH = 512, 64, 200
SPEC = EnvSpec(29, 8, N, LENGTH, position=(0, 1))
REPEATS = 3


def a_batch(skills, key) -> Batch:
    """Normal states; episodes of 200 steps that began at different times."""
    ks = jax.random.split(key, 6)
    began = jax.random.randint(ks[0], (N,), 0, LENGTH)
    clock = jnp.arange(T)[:, None] + began[None, :]
    elapsed, episode = clock % LENGTH, clock // LENGTH
    count = T // LENGTH + 2
    z = skills.sample(ks[1], N * count).reshape(count, N, skills.dim)
    no = jnp.zeros((T, N), bool)
    return Batch(
        obs=jax.random.normal(ks[2], (T, N, 29)),
        action=jax.random.normal(ks[3], (T, N, 8)),
        log_prob=jnp.full((T, N), -11.0),
        policy=jnp.zeros((T, N, 16)),
        next_obs=jax.random.normal(ks[4], (T, N, 29)),
        reward=jnp.zeros((T, N)),
        terminated=no,
        truncated=elapsed == LENGTH - 1,
        elapsed=elapsed.astype(jnp.int32),
        skill=jnp.take_along_axis(z, episode[:, :, None], axis=0),
    )


def spent(function, *inputs) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function(*inputs))
    return time.perf_counter() - start


def measure(name: str, preset: str) -> dict:
    kind = METHODS[name]
    method = kind.preset(preset) if preset != "default" else kind()
    key = jax.random.key(0)
    batch, agent = a_batch(method.skills, key), PPO()
    state = jax.jit(lambda k: method.init(SPEC, k))(key)
    fit, reward, update = jax.jit(method.update), jax.jit(method.reward), jax.jit(agent.update)
    paid = reward(state, batch, key)
    weights = jnp.ones(1)
    learner = agent.init(SPEC, method.skills.dim, 1, key)
    calls = {
        "fit": (fit, state, batch, key),
        "reward": (reward, state, batch, key),
        "ppo": (update, learner, batch, paid[:1], weights, key),
    }
    for call in calls.values():
        spent(*call)
    times = {part: [] for part in calls}
    for _ in range(REPEATS):
        for part, call in calls.items():
            times[part].append(spent(*call))
    return {part: sorted(values)[REPEATS // 2] for part, values in times.items()}


def main(preset: str = "default", *names: str) -> None:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, jax {jax.__version__}"
    for name in names or sorted(set(METHODS) - {"none"}):
        if preset != "default" and preset not in METHODS[name].presets:
            continue
        times = measure(name, preset)
        ours = times["fit"] + times["reward"]
        print(
            json.dumps(
                {
                    "name": f"methods/{name}/{preset}",
                    "value": round(ours, 3),
                    "unit": "s per 32768 steps",
                    "ratio": round(ours / times["ppo"], 2),
                    "against": "PPO's update",
                    "fit": round(times["fit"], 3),
                    "reward": round(times["reward"], 3),
                    "machine": machine,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
