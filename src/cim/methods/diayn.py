"""Diversity is all you need (Eysenbach et al., 2018). https://arxiv.org/abs/1802.06070

    r(s', z) = log q(z | s') - log p(z),       L = -E log q(z | s')

q: the odds of one-hot skills; of continuous ones a Gaussian whose deviation is learned, or 1
(`--method.spread unit`: L is then the mean square of CIM's ablation, up to constants).

The authors' discriminator sees s (`--method.told-by current`), URLB's s'. Departs from the paper:
the entropy of the policy, which it takes from SAC, is the agent's affair (`--agent.entropy-weight`,
for PPO; CIM's paper has none); z is drawn once an episode (authors: every 1000 steps, an episode of
theirs; URLB: `--method.skill-period 50`).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.guess import Guess, Spread
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.skills import Kind, Prior, Skills, must_tell_apart, skills_of
from cim.types import Batch, EnvSpec, Key, Metrics, option


class DIAYNState(eqx.Module):
    guess: Trained[Guess]


@dataclass(frozen=True)
class DIAYN(IntrinsicMethod[DIAYNState]):
    skill_kind: Kind = option("discrete", "one-hot, or continuous")
    skill_dim: int = option(16, "number of discrete skills, or dimensions of z")
    skill_prior: Prior = option("box", "where continuous skills are drawn from")
    skill_period: int | None = option(None, "steps that z is kept; none: an episode")
    told_by: Literal["next", "current"] = option("next", "the state that q sees")
    spread: Spread = option("learned", "deviation of q where skills are continuous")
    width: int = option(512, "hidden units of q")
    layers: int = option(1, "hidden layers of q")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "competence"
    skill_kinds: ClassVar = "both"
    fits_first: ClassVar[bool] = True
    presets: ClassVar = {
        "port": {"width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"skill_dim": 50, "told_by": "current", "width": 300, "layers": 2},
        "urlb": {"skill_period": 50, "width": 1024, "layers": 2, "learning_rate": 1e-4},
    }

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior, self.skill_period)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> DIAYNState:
        sizes = [spec.obs_dim, *[self.width] * self.layers, self.skill_dim]
        guess = Guess(sizes, self.skill_kind, self.spread, key)
        return DIAYNState(start(adam(self.learning_rate), guess))

    def _log_q(self, guess: Guess, batch: Batch) -> Float[Array, "*n"]:
        s = batch.next_obs if self.told_by == "next" else batch.obs
        return guess.log_q(batch.skill, s)

    def reward(self, state: DIAYNState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        told = self._log_q(state.guess.model, batch)
        return (told - self.skills.log_density(batch.skill))[None]

    def update(self, state: DIAYNState, batch: Batch, key: Key) -> tuple[DIAYNState, Metrics]:
        def loss(guess: Guess, part: Batch) -> Float[Array, ""]:
            return -self._log_q(guess, part).mean()

        schedule = lessons(batch, self.passes, self.minibatch)
        optimizer = adam(self.learning_rate)
        guess, values = fit(optimizer, state.guess, loss, batch.flat, key, schedule)
        return DIAYNState(guess), {"loss": values[-1].mean()}
