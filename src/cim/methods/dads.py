"""Dynamics-aware unsupervised discovery of skills (Sharma et al., 2019).
https://arxiv.org/abs/1907.01657

    r = log q(s'|s, z) - log 1/(L+1) ( q(s'|s, z) + sum_i q(s'|s, z_i) ),      z_1 .. z_L ~ p(z)
    L = -E log q(s'|s, z)

q is a mixture of `experts` Gaussians of deviation 1 for s' - s, scaled to mean 0 and deviation 1.
The second term is the marginal: CIM's table writes it with its minus sign, and the conditional with
a plus, as here. With one-hot skills the z_i are all the others. `dims` are the dimensions that q
sees and foretells (Ant: --method.dims 0,1; the preset `paper` leaves that to you).

Departs from the paper: s is whitened by the observations' running statistics, the target by its
own, where the original normalises a batch; the z_i are drawn once for all rows; no importance
weights, for data are of the policy now; the policy sees all of s.
"""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.parts.nets import MLP
from cim.parts.running import Running
from cim.parts.skills import Kind, Prior, Skills, must_tell_apart, skills_of
from cim.types import Batch, EnvSpec, Key, Metrics, UserError, option

BLOCK = 1024  # rows judged at a time, each with all its rivals


class Step(eqx.Module):
    """What q is asked about: from x by d with z."""

    x: Float[Array, "*n x"]
    d: Float[Array, "*n x"]
    z: Float[Array, "*n z"]


class DADSState(eqx.Module):
    dynamics: Trained[MLP]
    steps: Running


@dataclass(frozen=True)
class DADS(IntrinsicMethod[DADSState]):
    skill_kind: Kind = option("continuous", "continuous, or one-hot")
    skill_dim: int = option(2, "dimensions of z, or number of discrete skills")
    skill_prior: Prior = option("box", "where continuous skills are drawn from")
    dims: tuple[int, ...] = option((), "observation dimensions q sees (none given: all)")
    rivals: int = option(16, "L: other skills that a step is weighed against")
    experts: int = option(4, "Gaussians of the mixture")
    width: int = option(256, "hidden units of q")
    layers: int = option(1, "hidden layers of q")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "competence"
    skill_kinds: ClassVar = "both"
    fits_first: ClassVar[bool] = True
    presets: ClassVar = {
        "port": {"rivals": 100, "width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"rivals": 100, "width": 512, "layers": 2, "passes": 1},
    }

    @property
    def skills(self) -> Skills:
        return skills_of(self.skill_kind, self.skill_dim, self.skill_prior)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_tell_apart(self.skill_kind, self.skill_dim)
        must_fit(self.minibatch, rows, self.passes)
        if any(not 0 <= i < spec.obs_dim for i in self.dims):
            raise UserError(f"method.dims = {self.dims}: dimensions are 0 to {spec.obs_dim - 1}")
        for name in ("rivals", "experts"):
            if getattr(self, name) < 1:
                raise UserError(f"method.{name} = {getattr(self, name)}: at least 1")

    def init(self, spec: EnvSpec, key: Key) -> DADSState:
        x_dim = len(self.dims) or spec.obs_dim
        hidden, out = [self.width] * self.layers, self.experts * (x_dim + 1)
        dynamics = MLP([x_dim + self.skill_dim, *hidden, out], key)
        return DADSState(start(adam(self.learning_rate), dynamics), Running((x_dim,)))

    def _steps(self, stats: Running, batch: Batch) -> Step:
        rows = batch.flat
        dims = jnp.array(self.dims) if self.dims else slice(None)
        x, d = rows.obs[..., dims], (rows.next_obs - rows.obs)[..., dims]
        scaled = (d - stats.mean[None]) / jnp.sqrt(stats.var + 1e-6)[None]
        return Step(x, scaled, rows.skill)

    def reward(self, state: DADSState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        steps, q = self._steps(state.steps, batch), state.dynamics.model
        discrete = self.skill_kind == "discrete"
        count = self.skill_dim - 1 if discrete else self.rivals
        drawn = self.skills.sample(key, count)

        def pay(step: Step) -> Float[Array, ""]:
            others = drawn
            if discrete:
                others = jnp.stack([jnp.roll(step.z, i + 1) for i in range(count)])
            alike = lambda a: jnp.broadcast_to(a, (count, a.size))  # noqa: E731
            rivals = Step(alike(step.x), alike(step.d), others)
            gaps = jnp.clip(self._log_q(q, rivals) - self._log_q(q, step), -50, 50)
            return jnp.log(count + 1.0) - jnp.log1p(jnp.exp(gaps).sum())

        paid = jax.lax.map(pay, steps, batch_size=min(BLOCK, batch.rows))
        return paid.reshape(1, *batch.reward.shape)

    def _log_q(self, q: MLP, step: Step) -> Float[Array, "*n"]:
        out = q(jnp.concatenate([step.x, step.z], axis=-1))
        shape = (*out.shape[:-1], self.experts, -1)
        means, odds = out[..., self.experts :].reshape(shape), out[..., : self.experts]
        off = jnp.sum((step.d[..., None, :] - means) ** 2, axis=-1)
        size = step.d.shape[-1] * jnp.log(2 * jnp.pi)
        return jax.nn.logsumexp(jax.nn.log_softmax(odds) - 0.5 * (off + size), axis=-1)

    def update(self, state: DADSState, batch: Batch, key: Key) -> tuple[DADSState, Metrics]:
        dims = jnp.array(self.dims) if self.dims else slice(None)
        stats = state.steps.add((batch.next_obs - batch.obs)[..., dims].reshape(batch.rows, -1))

        def loss(q: MLP, part: Step) -> Float[Array, ""]:
            return -self._log_q(q, part).mean()

        schedule = lessons(batch, self.passes, self.minibatch)
        optimizer, rows = adam(self.learning_rate), self._steps(stats, batch)
        dynamics, values = fit(optimizer, state.dynamics, loss, rows, key, schedule)
        return DADSState(dynamics, stats), {"loss": values[-1].mean()}
