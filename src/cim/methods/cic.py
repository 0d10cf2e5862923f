"""Contrastive intrinsic control (Laskin et al., 2022). https://arxiv.org/abs/2202.00161

    r(s') = log( 1 + 1/k sum_{j in kNN} max( || g(s') - g(s')_j || / n - clip, 0 ) )
    L     = E[ -S(q_i, k_i) / T + log sum_j exp S(q_i, k_j) / T ],  q = g_z(z), k = f(g(s), g(s'))

The reward is the entropy of learned features alone; the skill is in it by what g learns. The
released code (preset `paper`) subtracts exp(1/T) from the sum (`released`), divides distances by
their running variance, counts a point as its own neighbour, and draws z from [0, 1]^64: one
orthant, a quarter of the directions in the plane. The port keeps z as it is (no g_z) and draws it
from the box, as CIM's authors did.

Unverified: the paper's own wording of the reward; this is its released code's.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.contrast import Contrast, mismatch
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.nets import in_blocks
from cim.parts.particles import Normaliser, Particles, crowd_bonus, crowd_scale, must_find
from cim.parts.running import Running
from cim.parts.skills import Kind, Prior, Skills, must_tell_apart, skills_of
from cim.types import Batch, EnvSpec, Key, Metrics, option


class CICState(eqx.Module):
    net: Trained[Contrast]
    distances: Running


@dataclass(frozen=True)
class CIC(IntrinsicMethod[CICState]):
    skill_kind: Kind = option("continuous", "continuous, or one-hot")
    skill_dim: int = option(2, "dimensions of z, or number of discrete skills")
    skill_prior: Prior = option("box", "where continuous skills are drawn from")
    skill_period: int | None = option(None, "steps that z is kept; none: an episode")
    project: bool = option(False, "compare with g_z(z), not with z")
    released: bool = option(False, "subtract exp(1/T) from the sum, as the released code")
    temperature: float = option(0.5, "T")
    k: int = option(10, "neighbours")
    include_self: bool = option(False, "a point is its own first neighbour")
    normaliser: Normaliser = option("none", "n: what distances are divided by")
    clip: float = option(0.0, "taken off the distances")
    crowd: int = option(1024, "states among which neighbours are sought")
    features: int = option(16, "of a state")
    width: int = option(256, "hidden units of each net")
    layers: int = option(1, "hidden layers of each net")
    passes: int = option(2, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "competence"
    needs: ClassVar = "company"
    skill_kinds: ClassVar = "both"
    fits_first: ClassVar[bool] = True
    selection: ClassVar = "constant"
    presets: ClassVar = {
        "port": {"features": 64, "width": 1024, "passes": 10, "minibatch": 128,
                 "crowd": 1_000_000},
        "paper": {"skill_dim": 64, "skill_prior": "positive", "skill_period": 50, "project": True,
                  "released": True, "k": 16, "include_self": True, "normaliser": "variance",
                  "clip": 5e-4, "features": 64, "width": 1024, "layers": 2,
                  "learning_rate": 1e-4},
    }  # fmt: skip

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior, self.skill_period)

    @property
    def particles(self) -> Particles:
        return Particles(self.k, self.include_self, "mean", self.normaliser, self.clip)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_find(self.k, self.crowd, rows)
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> CICState:
        hidden = [self.width] * self.layers
        net = Contrast(spec.obs_dim, self.skill_dim, self.features, hidden, self.project, key)
        return CICState(start(adam(self.learning_rate), net), Running(()))

    def reward(self, state: CICState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        points = in_blocks(state.net.model.state, batch.flat.next_obs)
        rare = crowd_bonus(self.particles, state.distances, points, key, self.crowd)
        return rare.reshape(1, *batch.reward.shape)

    def update(self, state: CICState, batch: Batch, key: Key) -> tuple[CICState, Metrics]:
        k_fit, k_scale = jax.random.split(key)

        def loss(net: Contrast, part: Batch) -> Float[Array, ""]:
            return mismatch(net, part, self.temperature, self.released).mean()

        schedule = lessons(batch, self.passes, self.minibatch)
        net, values = fit(adam(self.learning_rate), state.net, loss, batch.flat, k_fit, schedule)
        distances = state.distances
        if self.normaliser != "none":
            points = in_blocks(net.model.state, batch.flat.next_obs)
            distances = crowd_scale(self.particles, distances, points, k_scale, self.crowd)
        return CICState(net, distances), {"loss": values[-1].mean()}
