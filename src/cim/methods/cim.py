"""Constrained intrinsic motivation (Zheng et al., 2024). https://arxiv.org/abs/2407.09247

    max_pi H(g_z(phi(s)) | z)   s.t.   L_a(phi, z) <= C,        g_z(phi(s)) = phi(s).z

    r(s') = log(1 + 1/k sum_{j in kNN} | u - u_j |)             u = g_z(phi(s'))
    phi descends on L_a = sum_i -d_i.z_i + log sum_j exp d_j.z_i,   d = phi(s') - phi(s)

at every iteration, before it pays. The paper and its authors' code differ; the two presets are:

                          paper                            official (the code; default)
    negatives j           steps of other skills            all other rows of the minibatch
    neighbours of u       all states of the batch,         the same trajectory's segment of the
                          projected on the same z          rollout, each on that one z
    u                     phi(s').z                        max(phi(s').z, 0)
    L_a                   sum over the minibatch           mean
    last minibatch        as long as what is left          up to twice as long

Departs from the paper: k is cut to the segment's other steps where there are fewer, as in the code;
C is unknown and the constraint is descended on, as the paper says it does in practice. LSD's
multiplier, among the alignments of the ablation, is learned (parts/alignment.py).

Unverified: the paper's settings for Humanoid and Fetch are not public.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.alignment import Alignment, Encoder, Steps, misalignment
from cim.parts.episodes import companion, segments
from cim.parts.learning import (
    Schedule,
    Trained,
    adam,
    fit,
    lessons,
    must_fit,
    passes,
    start,
)
from cim.parts.nets import in_blocks
from cim.parts.particles import Particles, among, particle_bonus, reward
from cim.parts.running import Running
from cim.parts.skills import Skills
from cim.types import Batch, EnvSpec, Key, Metrics, UserError, option


class CIMState(eqx.Module):
    encoder: Trained[Encoder]


@dataclass(frozen=True)
class CIM(IntrinsicMethod[CIMState]):
    alignment: Alignment = option("cim", "the loss that ties phi to z")
    negatives: Literal["all", "other-skills"] = option("all", "whose steps a step competes with")
    neighbours: Literal["segment", "skill", "batch"] = option(
        "segment",
        "where neighbours come from: the trajectory's segment, all states of the batch projected "
        "on its z, or all states each on its own z",
    )
    clamp: bool = option(True, "cut projections at 0 from below")
    k: int = option(10, "neighbours of the entropy estimate")
    skill_kind: Literal["continuous", "discrete"] = option("continuous", "uniform box, or one-hot")
    skill_dim: int = option(2, "n_z: dimensions of z, or number of discrete skills")
    prior: tuple[int, ...] = option((), "observation dimensions phi sees (none given: all)")
    global_weight: float = option(0.0, "w_g: share of the entropy reward of whole states")
    alignment_weight: float = option(0.0, "w_s: weight of the reward -L_a")
    temperature: float = option(0.5, "of the cosines in alignments cic and becl")
    width: int = option(1024, "hidden units of phi")
    passes: int = option(10, "passes over the rollout")
    minibatch: int = option(128, "rows of a minibatch")
    merge_last: bool = option(True, "the last minibatch is up to twice as long")
    summed: bool = option(False, "sum the loss over the minibatch, not its mean")
    learning_rate: float = option(3e-4, "Adam's, for phi")

    category: ClassVar = "competence"
    needs: ClassVar = "company"
    skill_kinds: ClassVar = "both"
    fits_first: ClassVar[bool] = True
    presets: ClassVar = {
        "official": {},
        "paper": {
            "negatives": "other-skills",
            "neighbours": "skill",
            "clamp": False,
            "temperature": 1.0,
            "summed": True,
            "merge_last": False,
        },
    }

    @property
    def skills(self) -> Skills:
        return Skills("box" if self.skill_kind == "continuous" else "discrete", self.skill_dim)

    @property
    def streams(self) -> dict[str, float]:
        """A = (1 - w_g) A_projection + w_g A_global + w_s A_alignment"""
        weights = {
            "projection": 1 - self.global_weight,
            "global": self.global_weight,
            "alignment": self.alignment_weight,
        }
        return {name: weight for name, weight in weights.items() if weight}

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        most = length if self.neighbours == "segment" else rows
        if self.k >= most:
            raise UserError(
                f"method.k = {self.k} neighbours in segments of at most {most} steps: "
                f"k must be below {most}"
                + (", or take --method.neighbours batch" if length == 1 else "")
            )
        must_fit(self.minibatch, rows)
        if self.skill_dim < 1 + (self.skill_kind == "discrete"):
            raise UserError(
                f"method.skill-dim = {self.skill_dim} is too small for {self.skill_kind} skills"
            )
        if any(not 0 <= i < spec.obs_dim for i in self.prior):
            raise UserError(f"method.prior = {self.prior}: dimensions are 0 to {spec.obs_dim - 1}")
        if not self.streams:
            raise UserError("method.global-weight and method.alignment-weight leave no reward")

    def init(self, spec: EnvSpec, key: Key) -> CIMState:
        seen = len(self.prior) or spec.obs_dim
        encoder = Encoder(self.alignment, seen, self.skill_dim, self.width, key)
        return CIMState(start(adam(self.learning_rate), encoder))

    def update(self, state: CIMState, batch: Batch, key: Key) -> tuple[CIMState, Metrics]:
        k_kin, k_fit = jax.random.split(key)

        def loss(encoder: Encoder, steps: Steps) -> Float[Array, ""]:
            each = self._misalignment(encoder, steps)
            return each.sum() if self.summed else each.mean()

        schedule = lessons(batch, self.passes, self.minibatch, self.merge_last)
        rows = self._steps(batch, k_kin)
        encoder, values = fit(adam(self.learning_rate), state.encoder, loss, rows, k_fit, schedule)
        metrics = {"alignment_loss": values[-1].mean()} if self.passes else {}
        return CIMState(encoder), metrics

    def reward(self, state: CIMState, batch: Batch, key: Key) -> Float[Array, "R T N"]:
        streams = {
            "projection": lambda: self._projection_reward(state, batch),
            "global": lambda: _global_reward(batch, self.k),
            "alignment": lambda: self._alignment_reward(state, batch, key),
        }
        return jnp.stack([streams[name]() for name in self.streams])

    def _sees(self, obs: Float[Array, "*n obs"]) -> Float[Array, "*n seen"]:
        return obs[..., jnp.array(self.prior)] if self.prior else obs

    def _steps(self, batch: Batch, key: Key) -> Steps:
        """The batch row by row, and for each row a state of the same trajectory."""
        kin = companion(batch.ended, key)
        s, next_s = self._sees(batch.obs), self._sees(batch.next_obs)
        kin_s = jnp.take_along_axis(next_s, kin[:, :, None], axis=0)
        return Steps(*(a.reshape(-1, a.shape[-1]) for a in (s, next_s, kin_s, batch.skill)))

    def _misalignment(self, encoder: Encoder, steps: Steps) -> Float[Array, "m"]:
        only = self.negatives == "other-skills"
        return misalignment(self.alignment, encoder, steps, only, self.temperature)

    def _projection_reward(self, state: CIMState, batch: Batch) -> Float[Array, "T N"]:
        phi = in_blocks(state.encoder.model.phi, self._sees(batch.next_obs))
        if self.neighbours == "skill":
            return _among_all_on_z(phi, batch, self.k, self.clamp)
        u = self._cut(jnp.sum(phi * batch.skill, axis=-1))
        place = segments(batch.ended)
        group = place + jnp.arange(u.shape[1], dtype=jnp.int32)[None, :] * u.shape[0]
        group = jnp.zeros_like(group) if self.neighbours == "batch" else group
        rare, _ = particle_bonus(
            Particles(self.k), Running(()), u.reshape(-1, 1), group=group.reshape(-1)
        )
        return rare.reshape(u.shape)

    def _cut(self, u: Float[Array, "*n"]) -> Float[Array, "*n"]:
        return jnp.maximum(u, 0) if self.clamp else u

    def _alignment_reward(self, state: CIMState, batch: Batch, key: Key) -> Float[Array, "T N"]:
        """-l_i, its rivals the other rows of a random minibatch."""
        k_kin, k_order = jax.random.split(key)
        count = batch.reward.size
        rows = (self._steps(batch, k_kin), jnp.arange(count, dtype=jnp.int32))

        def pay(paid, part):
            steps, place = part
            return paid.at[place].set(-self._misalignment(state.encoder.model, steps)), None

        once = Schedule(1, self.minibatch, self.merge_last)
        paid, _ = passes(jnp.zeros(count), pay, rows, k_order, once)
        return paid.reshape(batch.reward.shape)


def _global_reward(batch: Batch, k: int) -> Float[Array, "T N"]:
    """APT's reward of whole (normalised) states, neighbours among all of the batch."""
    states = batch.next_obs.reshape(-1, batch.next_obs.shape[-1])
    return particle_bonus(Particles(k), Running(()), states)[0].reshape(batch.reward.shape)


def _among_all_on_z(
    phi: Float[Array, "T N z"], batch: Batch, k: int, clamp: bool
) -> Float[Array, "T N"]:
    """Each segment has one z: project every state of the batch on it, sort once, look around."""
    place = segments(batch.ended)
    shape = place.shape

    def on_z_of(c: Array, n: Array) -> Float[Array, "T"]:
        """The steps of environment n, of which those of its segment c are paid."""
        mine = place[:, n] == c
        z = batch.skill[jnp.argmax(mine), n]
        line = phi.reshape(-1, phi.shape[-1]) @ z
        line = jnp.maximum(line, 0) if clamp else line
        near = among(line.reshape(shape)[:, n], jnp.sort(line), k)
        return jnp.where(mine, reward(Particles(k), Running(()), near)[0], 0)

    def add(c: Array, paid: Float[Array, "N T"]) -> Float[Array, "N T"]:
        columns = jnp.arange(shape[1], dtype=jnp.int32)
        return paid + jax.lax.map(lambda n: on_z_of(c, n), columns)

    return jax.lax.fori_loop(0, place.max() + 1, add, jnp.zeros(shape[::-1])).T
