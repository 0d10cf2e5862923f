"""A mixture of surprises (Zhao et al., 2022). https://arxiv.org/abs/2210.06702

    r = (1 - 2m) log( 1 + 1/k sum_{j in kNN} max( d_j - clip, 0 ) ),      d_j ~ || g(s) - g(s')_j ||

One half of an episode seeks entropy (m = 0), the other avoids it (m = 1). g is learned as CIC's,
its neighbours sought among the states reached of `crowd` steps, a step's own among them. As in the
released code m depends on time alone: 1 from the share `switch` of the longest episode on (the
paper draws it); there z is negated (CIM's port, and the release's `sign`). The preset `paper`
scales distances as the release: d_j <- (d_j - mean) / variance.

Departs from the paper: m is drawn by nobody, and the policy sees it in the sign of z alone.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cim.methods.base import IntrinsicMethod
from cim.parts.contrast import Contrast, mismatch
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.nets import in_blocks
from cim.parts.particles import Normaliser, Particles, drawn, must_find, particle_bonus
from cim.parts.running import Running
from cim.parts.skills import Kind, Prior, Skills, late, must_be, must_tell_apart
from cim.types import Batch, EnvSpec, Key, Metrics, UserError, option


class MOSSState(eqx.Module):
    net: Trained[Contrast]
    distances: Running
    horizon: Int[Array, ""]


@dataclass(frozen=True)
class MOSS(IntrinsicMethod[MOSSState]):
    skill_kind: Kind = option("continuous", "continuous only")
    skill_dim: int = option(2, "dimensions of z")
    skill_prior: Prior = option("box", "where skills are drawn from")
    skill_period: int | None = option(None, "steps that z is kept; none: an episode")
    switch: float = option(0.5, "share of the longest episode after which entropy is avoided")
    project: bool = option(False, "compare with g_z(z), not with z")
    released: bool = option(False, "subtract exp(1/T) from the sum, as the released code")
    temperature: float = option(0.5, "T")
    k: int = option(10, "neighbours")
    normaliser: Normaliser = option("none", "how distances are scaled")
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
    skill_kinds: ClassVar = "continuous"
    fits_first: ClassVar[bool] = True
    selection: ClassVar = "grid"
    presets: ClassVar = {
        "port": {"features": 64, "width": 1024, "passes": 10, "minibatch": 128,
                 "crowd": 1_000_000},
        "paper": {"skill_dim": 64, "skill_prior": "positive", "skill_period": 50,
                  "switch": 2 / 3, "project": True, "released": True, "k": 16,
                  "normaliser": "score", "clip": 5e-4, "features": 64, "width": 1024,
                  "layers": 2, "learning_rate": 1e-4},
    }  # fmt: skip

    def __post_init__(self):
        must_be("continuous", self.skill_kind, "cic, diayn, becl, dads, lsd, csd, metra, vic, cim")

    @property
    def skills(self) -> Skills:
        return Skills(self.skill_prior, self.skill_dim, self.skill_period, self.switch)

    @property
    def particles(self) -> Particles:
        return Particles(self.k, False, "mean", self.normaliser, self.clip)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_find(self.k, self.crowd, rows)
        must_fit(self.minibatch, rows)
        if not 0 < self.switch < 1:
            raise UserError(f"method.switch = {self.switch}: between 0 and 1")

    def init(self, spec: EnvSpec, key: Key) -> MOSSState:
        hidden = [self.width] * self.layers
        net = Contrast(spec.obs_dim, self.skill_dim, self.features, hidden, self.project, key)
        horizon = jnp.array(spec.horizon, jnp.int32)
        return MOSSState(start(adam(self.learning_rate), net), Running(()), horizon)

    def _surprise(
        self, net: Contrast, stats: Running, rows: Batch, among: Float[Array, "c obs"]
    ) -> tuple[Float[Array, "n"], Running]:
        left, reached = in_blocks(net.state, rows.obs), in_blocks(net.state, among)
        return particle_bonus(self.particles, stats, left, reached)

    def reward(self, state: MOSSState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        among = batch.flat.next_obs[drawn(key, batch.rows, min(self.crowd, batch.rows))]
        r, _ = self._surprise(state.net.model, state.distances, batch.flat, among)
        avoids = late(batch.elapsed, state.horizon, self.switch)
        return (jnp.where(avoids, -1.0, 1.0) * r.reshape(batch.reward.shape))[None]

    def update(self, state: MOSSState, batch: Batch, key: Key) -> tuple[MOSSState, Metrics]:
        k_fit, k_scale = jax.random.split(key)

        def loss(net: Contrast, part: Batch) -> Float[Array, ""]:
            return mismatch(net, part, self.temperature, self.released).mean()

        schedule = lessons(batch, self.passes, self.minibatch)
        net, values = fit(adam(self.learning_rate), state.net, loss, batch.flat, k_fit, schedule)
        distances = state.distances
        if self.normaliser != "none":
            some = drawn(k_scale, batch.rows, min(self.crowd, batch.rows))
            rows = jax.tree.map(lambda a: a[some], batch.flat)
            _, distances = self._surprise(net.model, distances, rows, rows.next_obs)
        return MOSSState(net, distances, state.horizon), {"loss": values[-1].mean()}
