"""Reinforcement learning with prototypical representations (Yarats et al., 2021).
https://arxiv.org/abs/2102.11271

    r(s') = || u - u_(3) ||,    u = norm( pred(s') ),   u_(k): the k-th nearest of a queue
    L     = -E sum_c q_c log p_c
    p     = softmax( C norm( proj(pred(s)) ) / T ),   q = Sinkhorn( C norm( pred_slow(s') ) / T )

C: unit prototypes; each names a state of the batch, drawn from softmax over the batch of C.u, for
the queue. pred_slow follows pred by `slow_rate`. States are their own encoding, as in URLB.

Departs from the paper: the queue begins with directions drawn at random, not with zeros. The
released code's s' is three steps on; this one's is the next.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from cim.methods.base import IntrinsicMethod
from cim.parts.learning import Trained, adam, descend, lessons, must_fit, passes, start
from cim.parts.nets import MLP
from cim.parts.particles import Particles, particle_bonus
from cim.parts.running import Running
from cim.parts.skills import unit
from cim.types import Batch, EnvSpec, Key, Metrics, UserError, option

ROUNDS = 3  # of Sinkhorn's normalising


class Prototypes(eqx.Module):
    pred: MLP
    proj: MLP
    centres: Float[Array, "C f"]


class ProtoState(eqx.Module):
    net: Trained[Prototypes]
    slow: MLP
    queue: Float[Array, "Q f"]
    head: Int[Array, ""]


@dataclass(frozen=True)
class Proto(IntrinsicMethod[ProtoState]):
    prototypes: int = option(64, "C: how many")
    features: int = option(32, "of a state")
    queue: int = option(1024, "candidates that are remembered")
    k: int = option(3, "which neighbour in the queue is measured to")
    temperature: float = option(0.1, "T")
    slow_rate: float = option(0.05, "share of pred that flows into pred_slow each step")
    width: int = option(256, "hidden units of proj")
    passes: int = option(2, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "data"
    fits_first: ClassVar[bool] = True
    presets: ClassVar = {
        "port": {"prototypes": 512, "features": 128, "queue": 2048, "width": 512, "passes": 10,
                 "minibatch": 128},
        "paper": {"prototypes": 512, "features": 128, "queue": 2048, "width": 512,
                  "minibatch": 1024, "learning_rate": 1e-4},
    }  # fmt: skip

    @property
    def particles(self) -> Particles:
        return Particles(self.k, aggregate="kth", log=False)

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_fit(self.minibatch, rows)
        if not 1 <= self.k < self.queue:
            raise UserError(f"method.k = {self.k}: 1 to {self.queue - 1}, below the queue's length")
        if not 2 <= self.prototypes <= self.queue:
            raise UserError(f"method.prototypes = {self.prototypes}: 2 to the queue's {self.queue}")

    def init(self, spec: EnvSpec, key: Key) -> ProtoState:
        k_pred, k_proj, k_centres, k_queue = jax.random.split(key, 4)
        pred = MLP([spec.obs_dim, self.features], k_pred)
        proj = MLP([self.features, self.width, self.features], k_proj)
        centres = unit(jax.random.normal(k_centres, (self.prototypes, self.features)))
        queue = unit(jax.random.normal(k_queue, (self.queue, self.features)))
        net = start(adam(self.learning_rate), Prototypes(pred, proj, centres))
        return ProtoState(net, pred, queue, jnp.zeros((), jnp.int32))

    def reward(self, state: ProtoState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        u = unit(state.net.model.pred(batch.flat.next_obs))
        r, _ = particle_bonus(self.particles, Running(()), u, state.queue)
        return r.reshape(1, *batch.reward.shape)

    def update(self, state: ProtoState, batch: Batch, key: Key) -> tuple[ProtoState, Metrics]:
        k_fit, k_queue = jax.random.split(key)

        def one(nets: tuple[Trained[Prototypes], MLP], part: Batch) -> tuple[Any, Any]:
            net, slow = nets
            net = Trained(with_unit_centres(net.model), net.opt_state)
            wanted = shares(net.model.centres, slow, part, self.temperature)
            miss = lambda net: self._miss(net, part, wanted)  # noqa: E731
            net, value = descend(adam(self.learning_rate), net, miss)
            follow = lambda a, b: a + self.slow_rate * (b - a)  # noqa: E731
            return (net, jax.tree.map(follow, slow, net.model.pred)), value

        schedule = lessons(batch, self.passes, self.minibatch)
        (net, slow), values = passes((state.net, state.slow), one, batch.flat, k_fit, schedule)
        net = Trained(with_unit_centres(net.model), net.opt_state)
        queue, head = self._queued(state, net.model, batch, k_queue)
        return ProtoState(net, slow, queue, head), {"loss": values[-1].mean()}

    def _miss(self, net: Prototypes, part: Batch, wanted: Float[Array, "m C"]) -> Float[Array, ""]:
        seen = unit(net.proj(net.pred(part.obs)))
        log_p = jax.nn.log_softmax(seen @ net.centres.T / self.temperature)
        return -jnp.mean(jnp.sum(wanted * log_p, axis=-1))

    def _queued(
        self, state: ProtoState, net: Prototypes, batch: Batch, key: Key
    ) -> tuple[Float[Array, "Q f"], Int[Array, ""]]:
        """The queue with a candidate of each prototype in it."""
        u = unit(net.pred(batch.flat.next_obs))
        chosen = jax.random.categorical(key, net.centres @ u.T)
        where = (state.head + jnp.arange(self.prototypes, dtype=jnp.int32)) % self.queue
        head = (state.head + self.prototypes) % self.queue
        return state.queue.at[where].set(u[chosen]), head


def with_unit_centres(net: Prototypes) -> Prototypes:
    return eqx.tree_at(lambda n: n.centres, net, unit(net.centres))


def shares(
    centres: Float[Array, "C f"], slow: MLP, part: Batch, temperature: float
) -> Float[Array, "m C"]:
    """q: how states are dealt out to prototypes, each to get as many."""
    scores = unit(slow(part.next_obs)) @ centres.T / temperature
    q = jnp.exp(scores - scores.max())
    q = q / q.sum()
    for _ in range(ROUNDS):
        q = q / (q.sum(axis=0, keepdims=True) * q.shape[1] + 1e-30)
        q = q / (q.sum(axis=1, keepdims=True) * q.shape[0] + 1e-30)
    return jax.lax.stop_gradient(q / q.sum(axis=1, keepdims=True))
