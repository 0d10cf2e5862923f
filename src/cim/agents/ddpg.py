"""Deep deterministic policy gradient with n-step targets and two critics, as in DrQ-v2 and URLB
(Yarats et al., 2021, https://arxiv.org/abs/2107.09645; Laskin et al., 2021, 2110.15191).

y = sum_{i<n} gamma^i r_i + gamma^n min_j Q'_j(s_n, a_n),   a_n = pi(s_n) + noise, itself cut
min_Q sum_j E[(Q_j - y)^2],    max_pi E[min_j Q_j(s, pi(s))]

Windows end where an episode does: with the task, no value follows; at a time limit, that of the
state reached. The bonus is summed over the window like the task's reward (URLB's code puts it in
the place of the whole sum).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from cim.agents.base import Agent, seen
from cim.memory import Replay
from cim.parts.learning import Trained, descend, start
from cim.parts.nets import MLP
from cim.returns import n_step
from cim.types import Batch, Choice, Direct, EnvSpec, Key, Metrics, UserError, option


class Trunk(eqx.Module):
    """Linear, layer normalisation, tanh; then the heads."""

    trunk: MLP
    scale: Float[Array, "w"]
    offset: Float[Array, "w"]
    heads: tuple[MLP, ...]

    def __init__(self, sizes: tuple[int, int, int], heads: int, key: Key):
        k_trunk, *k_heads = jax.random.split(key, heads + 1)
        inputs, width, outputs = sizes
        self.trunk = MLP([inputs, width], k_trunk)
        self.scale, self.offset = jnp.ones(width), jnp.zeros(width)
        self.heads = tuple(MLP([width, width, outputs], k) for k in k_heads)

    def __call__(self, x: Float[Array, "n x"]) -> list[Float[Array, "n o"]]:
        h = self.trunk(x)
        h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        h = jnp.tanh(h * self.scale[None, :] + self.offset[None, :])
        return [head(h) for head in self.heads]


class DDPGState(eqx.Module):
    actor: Trained[Trunk]
    critic: Trained[Trunk]
    target: Trunk


@dataclass(frozen=True)
class DDPG(Agent[DDPGState]):
    width: int = option(1024, "hidden units of trunks and heads")
    learning_rate: float = option(1e-4, "Adam's, for every net")
    discount: float = option(0.99, "gamma")
    n_step: int = option(3, "n: rewards summed before the critic is asked")
    noise: float = option(0.2, "standard deviation of exploration")
    noise_cut: float = option(0.3, "noise of the policy in targets and its own loss is cut here")
    target_rate: float = option(0.01, "share of the critic that flows into its target each update")
    every: int = option(2, "environment steps an update")
    batch_size: int = option(1024, "windows an update")
    capacity: int = option(1_000_000, "steps the replay holds")

    @property
    def memory(self) -> Replay:
        return Replay(self.capacity, self.batch_size, self.n_step)

    def updates(self, steps: int) -> int:
        return max(1, steps // self.every)

    def check(self, spec: EnvSpec, rows: int) -> None:
        if spec.discrete:
            raise UserError("agent ddpg has continuous actions only; for discrete ones: ppo")
        if rows < self.n_step * spec.num_envs:
            raise UserError(f"agent.n-step = {self.n_step} is longer than a rollout")
        if self.capacity < rows:
            raise UserError(f"agent.capacity = {self.capacity} is less than a rollout of {rows}")

    def init(self, spec: EnvSpec, skill_dim: int, streams: int, key: Key) -> DDPGState:
        k_actor, k_critic, k_target = jax.random.split(key, 3)
        x_dim = spec.obs_dim + skill_dim
        judge = (x_dim + spec.action_dim, self.width, 1)
        actor = Trunk((x_dim, self.width, spec.action_dim), 1, k_actor)
        critic = Trunk(judge, 2, k_critic)
        optimizer = optax.adam(self.learning_rate)
        return DDPGState(start(optimizer, actor), start(optimizer, critic), critic)

    def act(self, state: DDPGState, x: Float[Array, "N x"], key: Key) -> Choice:
        mean = _pi(state.actor.model, x)
        action = jnp.clip(mean + self.noise * jax.random.normal(key, mean.shape), -1, 1)
        spread = jnp.full_like(mean, math.log(max(self.noise, 1e-6)))
        return Choice(action, jnp.zeros(x.shape[:-1]), jnp.concatenate([mean, spread], axis=-1))

    def greedy(self, state: DDPGState, x: Float[Array, "N x"]) -> Float[Array, "N act"]:
        return _pi(state.actor.model, x)

    def update(
        self,
        state: DDPGState,
        batch: Batch,
        rewards: Float[Array, "R T N"],
        weights: Float[Array, "R"],
        key: Key,
        direct: Direct | None = None,
        closed: Sequence[bool] | None = None,
    ) -> tuple[DDPGState, Metrics]:
        assert direct is None, "there are no advantages to add to"
        assert closed is None or not any(closed), "streams are one sum, bootstrapped as one"
        k_target, k_actor = jax.random.split(key)
        optimizer = optax.adam(self.learning_rate)
        reward = jnp.einsum("r,rtn->tn", weights, rewards)
        gain, left, last = n_step(reward, batch.terminated, batch.truncated, self.discount)
        x, action = seen(batch.obs, batch.skill)[0], batch.action[0]
        x_n = jnp.take_along_axis(seen(batch.next_obs, batch.skill), last[None, :, None], axis=0)[0]
        a_n = self._noisy(_pi(state.actor.model, x_n), k_target)
        y = gain + left * _lesser_q(state.target, x_n, a_n)

        def critic_loss(critic: Trunk) -> Float[Array, ""]:
            one, two = critic(seen(x, action))
            return jnp.mean((one[:, 0] - y) ** 2 + (two[:, 0] - y) ** 2)

        critic, q_loss = descend(optimizer, state.critic, critic_loss)

        def actor_loss(actor: Trunk) -> Float[Array, ""]:
            return -_lesser_q(critic.model, x, self._noisy(_pi(actor, x), k_actor)).mean()

        actor, pi_loss = descend(optimizer, state.actor, actor_loss)
        target = jax.tree.map(
            lambda old, new: old + self.target_rate * (new - old), state.target, critic.model
        )
        return DDPGState(actor, critic, target), {"critic_loss": q_loss, "actor_loss": pi_loss}

    def _noisy(self, mean: Float[Array, "n act"], key: Key) -> Float[Array, "n act"]:
        """The gradient of the clipped action passes straight through, as in URLB's code."""
        noise = self.noise * jax.random.normal(key, mean.shape)
        action = mean + jnp.clip(noise, -self.noise_cut, self.noise_cut)
        return mean + jax.lax.stop_gradient(jnp.clip(action, -1 + 1e-6, 1 - 1e-6) - mean)


def _pi(actor: Trunk, x: Float[Array, "n x"]) -> Float[Array, "n act"]:
    return jnp.tanh(actor(x)[0])


def _lesser_q(
    critic: Trunk, x: Float[Array, "n x"], action: Float[Array, "n act"]
) -> Float[Array, "n"]:
    one, two = critic(seen(x, action))
    return jnp.minimum(one, two)[:, 0]
