"""Put one fault at a time into a copy, run the tests that should see it, say whether they did.

python tests/mutants.py [word]      only faults whose name holds the word; 1 if any survives
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SRC = "src/cim/"
# name, file, the right line, the wrong one, tests
FAULTS = [
    ("collect: next_obs is the reset state", "collect.py", '"next_obs": now.reached', '"next_obs": now.obs', "test_envs"),
    ("collect: truncation noted as termination", "collect.py", '"terminated": now.terminated,', '"terminated": now.terminated | now.truncated,', "test_envs"),
    ("collect: skill never redrawn", "collect.py", "jnp.where(marks.ended[:, None], fresh, marks.skill)", "jnp.where(marks.ended[:, None] & (marks.elapsed[:, None] == 0), fresh, marks.skill)", "test_envs"),
    ("collect: elapsed never reset", "collect.py", "jnp.where(marks.ended, 0, marks.elapsed + 1)", "marks.elapsed + 1", "test_envs"),
    ("collect: one key at every step", "collect.py", "jax.random.fold_in(key, t)", "jax.random.fold_in(key, 0)", "test_envs"),
    ("host: actions not scaled", "envs/host.py", "(self.low + (np.clip(action, -1, 1) + 1) * self.half)", "(np.clip(action, -1, 1))", "test_envs"),
    ("host: reset a step late", "envs/host.py", "obs[over] = self._observe(self._pool.reset(over)[0])", "pass", "test_envs"),
    ("host: limit one step late", "envs/host.py", ">= self.spec.horizon", "> self.spec.horizon", "test_envs"),
    ("device: reached is the reset state", "envs/device.py", "Timestep(obs, reached, reward,", "Timestep(obs, obs, reward,", "test_device"),
    ("device: a broken world is the task's end", "envs/device.py", "truncated = ((elapsed >= worlds.spec.horizon) | ~whole) & ~terminated", "terminated = terminated | ~whole; truncated = (elapsed >= worlds.spec.horizon) & ~terminated", "test_device"),
    ("device: only the last evaluation is watched", "envs/device.py", "self.m.callback.control = self.peaks.rise", "pass", "test_device"),
    ("device: frames of capsules as Warp has them", "envs/device.py", "self.m.callback.contactfilter = turn_frames", "pass", "test_device"),
    ("device: fields of the state reached, not of the last evaluation", "envs/tasks/ant.py", "settles: bool = False", "settles: bool = True", "test_device"),
    ("collect: wrong physics is learned from", "collect.py", "if counter.end and count.any():", "if False:", "test_device"),
    ("catalogue: healthy z from 0.2", "envs/catalog.py", '"healthy_z_min": 0.25', '"healthy_z_min": 0.2', "test_envs"),
    ("gae: bootstraps through termination", "returns.py", "jnp.where(batch.terminated, 0, next_value)", "next_value", "test_returns"),
    ("gae: leaks across episodes", "returns.py", "jnp.where(ended_t, 0, later)", "later", "test_returns"),
    ("n-step: bootstraps through termination", "returns.py", "jnp.where(died, 0,", "jnp.where(died & ~died, 0,", "test_returns"),
    ("replay: a window straddles the head", "memory.py", "memory.size - self.length + 1", "memory.size", "test_memory"),
    ("cim: loss transposed", "parts/alignment.py", "scores = z @ (then - now).T\n", "scores = (then - now) @ z.T\n", "test_alignment"),
    ("cim: clamp dropped", "methods/cim.py", "return jnp.maximum(u, 0) if self.clamp else u", "return u", "test_methods"),
    ("cim: neighbours across segments", "methods/cim.py", 'if self.neighbours == "batch" else group', "", "test_methods"),
    ("cim: reward of the state left", "methods/cim.py", "in_blocks(state.encoder.model.phi, self._sees(batch.next_obs))", "in_blocks(state.encoder.model.phi, self._sees(batch.obs))", "test_methods"),
    ("cim: phi climbs", "methods/cim.py", "return each.sum() if self.summed else each.mean()", "return -each.mean()", "test_methods methods"),
    ("cim: rivals of the same skill", "parts/alignment.py", "if other_skills_only:", "if False:", "test_alignment"),
    ("particles: a point is its own neighbour", "parts/particles.py", "near = near.at[jnp.arange(size), rows].set(jnp.inf)", "pass", "test_particles"),
    ("particles: no log", "parts/particles.py", "jnp.log1p(mean) if kind.log else mean", "mean", "test_particles"),
    ("learning: rows repeat within a pass", "parts/learning.py", "jnp.argsort(jax.random.bits(jax.random.fold_in(key, number), (count,)))", "jax.random.randint(jax.random.fold_in(key, number), (count,), 0, count)", "test_learning"),
    ("ppo: ratio not clipped", "agents/ppo.py", "jnp.minimum(rho * a, jnp.clip(rho, 1 - self.clip, 1 + self.clip) * a)", "rho * -a", "test_agents"),
    ("ppo: critics learn raw returns", "agents/ppo.py", "return advantage, gain / new,", "return advantage, gain,", "test_agents"),
    ("ppo: critics not rescaled", "agents/ppo.py", "_rescaled(critic, sigma / new)", "critic", "test_agents"),
    ("train: the task leaks into pre-training", "train.py", 'task = {"task": self.task_weight} if self.task_weight else {}', 'task = {"task": self.task_weight or 1.0}', "test_train"),
    ("train: judged by the wrong state", "train.py", "fitted if config.method.fits_first else method", "method if config.method.fits_first else fitted", "test_train"),
    ("train: seeds share their worlds", "train.py", "[config.seed + i, purpose, attempt]", "[config.seed, purpose, attempt]", "test_train"),
    ("train: the normaliser moves first", "train.py", "    normaliser = learners.normaliser\n", "    normaliser = learners.normaliser.add(rollout.obs.reshape(-1, spec.obs_dim))\n", "test_train"),
    ("runs: keys are not saved", "launch.py", "keys, iteration = saved[\"training\"]", "_, iteration = saved[\"training\"]; keys = init(config, env).keys", "test_runs"),
    ("runs: what was logged after the checkpoint stays", "launch.py", "    run.rewind(step)\n", "", "test_runs"),
    ("runs: written in place", "runs.py", "os.replace(name, path)", "shutil.copy(name, path)", "test_runs"),
    ("coefficient: the best includes the present", "coefficient.py", "jnp.minimum(state.last, 1)", "jnp.minimum(now, 1)", "test_coefficient"),
    ("evaluate: long episodes count more", "evaluate.py", "[:quota]\n", "\n", "test_evaluate"),
    ("evaluate: the start is not counted", "evaluate.py", 'paths[row][0] = notes["from"][s, begin, n]', "pass", "test_evaluate"),
    ("rnd: pays for the state left", "methods/rnd.py", 'batch.next_obs if self.pays_for == "next" else batch.obs', "batch.obs", "test_methods"),
    ("diayn: the prior is forgotten", "methods/diayn.py", "(told - self.skills.log_density(batch.skill))[None]", "told[None]", "test_methods"),
    ("vic: paid at every step", "methods/vic.py", "jnp.where(batch.ended, told", "jnp.where(batch.ended | True, told", "test_methods"),
    ("dads: the marginal for the conditional", "methods/dads.py", "jnp.log(count + 1.0) - jnp.log1p(jnp.exp(gaps).sum())", "jnp.log1p(jnp.exp(gaps).sum()) - jnp.log(count + 1.0)", "test_methods"),
    ("moss: surprise is never avoided", "methods/moss.py", "jnp.where(avoids, -1.0, 1.0)", "jnp.where(avoids, 1.0, 1.0)", "test_methods"),
    ("becl: a row is its own rival", "methods/becl.py", "jnp.where(others, scores, -jnp.inf)", "scores", "test_methods"),
    ("lsd: weights as they are", "parts/nets.py", "layer.weight / (u @ layer.weight @ side)", "layer.weight", "methods"),
    ("travel: the multiplier climbs", "parts/travel.py", "lambda log_lam: log_lam * left", "lambda log_lam: -log_lam * left", "methods"),
    ("agac: the divergence turned round", "methods/agac.py", "kl(batch.policy, adversary.policy(batch.obs), adversary", "kl(adversary.policy(batch.obs), batch.policy, adversary", "test_methods"),
    ("maxent: the last policy alone", "methods/maxent.py", "(1 - eta) * state.mixture + eta * now", "now", "methods"),
    ("re3: nothing is remembered", "methods/re3.py", "memory = state.memory.at[where].set(f)", "memory = state.memory", "methods"),
    ("ppo: a closed stream is open", "agents/ppo.py", "batch.terminated | (closed & batch.ended)", "batch.terminated", "test_agents"),
    ("ppo: the old skill values the new state", "agents/ppo.py", "seen(batch.next_obs, next_skill(batch))", "seen(batch.next_obs, batch.skill)", "test_agents"),
    ("train: all of a window is a lesson", "train.py", "lesson = config.agent.memory.lesson(batch)", "lesson = batch", "test_train"),
    ("skills: never drawn anew on the way", "parts/skills.py", "elapsed % self.period == 0 if self.period else elapsed == 0", "elapsed == 0", "methods"),
    ("gymnasium: ends are not reached", "envs/host.py", 'reached[i] = info["final_obs"][i]', "pass", "test_envs test_bonus"),
    ("stats: population deviation", "stats.py", "per_seed.std(ddof=1)", "per_seed.std()", "test_stats"),
]  # fmt: skip


def seen(place: Path, file: str, right: str, wrong: str, tests: str) -> str | None:
    """The test that saw the fault."""
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    for name in ("src", "tests", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    text = (copy / SRC / file).read_text()
    assert text.count(right) >= 1, f"{file} no longer holds {right!r}"
    (copy / SRC / file).write_text(text.replace(right, wrong, 1))
    where = [
        f"tests/{t}.py" if (ROOT / "tests" / f"{t}.py").exists() else f"tests/{t}"
        for t in tests.split()
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *where]
    env = os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "CIM_TEST_CACHE": str(ROOT / ".cache" / "jax"),
    }
    run = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True)
    lines = [x for x in run.stdout.splitlines() if x.startswith(("FAILED", "ERROR"))]
    return (lines or ["failed"])[0] if run.returncode else None


def main(word: str = "") -> None:
    survivors = 0
    with tempfile.TemporaryDirectory() as place:
        for name, *fault in FAULTS:
            if word in name:
                witness = seen(Path(place), *fault)
                survivors += witness is None
                print(
                    "killed  " if witness else "SURVIVED",
                    name,
                    "|",
                    (witness or "")[:90],
                    flush=True,
                )
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
