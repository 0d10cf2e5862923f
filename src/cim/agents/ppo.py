"""Proximal policy optimisation (Schulman et al., 2017). https://arxiv.org/abs/1707.06347

max_pi E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ],   A = sum_r w_r A_r, normalised a minibatch
min_V  E[ (V_r - R_r / sigma_r)^2 ],                     one critic a stream r of reward

sigma_r is the running scale of the stream's returns R_r = A_r + sigma_r V_r: critics learn at scale
one, advantages are at the scale of the rewards. Details follow the CIM authors'
code (Tianshou's PPO): no entropy bonus, no value clipping, Adam and a gradient clip for each net.

Departs from that code twice. Where sigma moves, the critic's last layer is scaled back, so that
sigma V stays what it was (PopArt, van Hasselt et al., 2016, 1602.07714): without it a bonus that
grows inflates the values it is bootstrapped from, and both run away (seen: 1e16 after 23
iterations). And sigma is the root of the mean square, not of the variance: targets are not centred,
so returns that are large but alike would be targets without bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cim.agents.base import Agent, seen
from cim.memory import Latest
from cim.parts.actor import Actor
from cim.parts.learning import Schedule, Trained, adam, descend, passes, start
from cim.parts.nets import MLP
from cim.parts.running import Running
from cim.returns import gae
from cim.types import Batch, Choice, Direct, EnvSpec, Key, Metrics, UserError, option


class PPOState(eqx.Module):
    actor: Trained[Actor]
    critics: Trained[MLP]  # stacked, one a stream
    returns: Running  # stacked likewise


class Rows(eqx.Module):
    """What a minibatch is made of."""

    x: Float[Array, "m x"]
    action: Float[Array, "m act"]
    log_prob: Float[Array, "m"]
    advantage: Float[Array, "m"]
    targets: Float[Array, "m R"]


@dataclass(frozen=True)
class PPO(Agent[PPOState]):
    width: int = option(64, "hidden units, two layers")
    learning_rate: float = option(3e-4, "Adam's, for every net")
    discount: float = option(0.99, "gamma")
    lam: float = option(0.95, "lambda of GAE")
    clip: float = option(0.2, "epsilon: how far the policy may move")
    epochs: int = option(10, "passes over the rollout")
    minibatches: int = option(4, "minibatches a pass")
    merge_last: bool = option(True, "the last two minibatches are one, as in the authors' code")
    entropy_weight: float = option(0.0, "of the policy's entropy in the objective")
    clip_norm: float = option(0.5, "longest gradient, for each net")

    adds_directly: ClassVar[bool] = True

    @property
    def memory(self) -> Latest:
        return Latest()

    def updates(self, steps: int) -> int:
        return 1

    def check(self, spec: EnvSpec, rows: int) -> None:
        if not 1 <= self.minibatches <= rows:
            raise UserError(
                f"agent.minibatches = {self.minibatches}: 1 to {rows}, the steps of a rollout"
            )

    def init(self, spec: EnvSpec, skill_dim: int, streams: int, key: Key) -> PPOState:
        k_actor, k_critics = jax.random.split(key)
        sizes = [spec.obs_dim + skill_dim, self.width, self.width]
        actor = Actor([*sizes, spec.action_dim], spec.discrete, k_actor)

        def critic(key: Key) -> Trained[MLP]:
            return start(self._adam, MLP([*sizes, 1], key))

        critics = jax.vmap(critic)(jax.random.split(k_critics, streams))
        returns = jax.vmap(lambda _: Running(()))(jnp.arange(streams))
        return PPOState(start(self._adam, actor), critics, returns)

    @property
    def _adam(self):
        return adam(self.learning_rate, self.clip_norm)

    def act(self, state: PPOState, x: Float[Array, "N x"], key: Key) -> Choice:
        actor = state.actor.model
        policy = actor.policy(x)
        action = actor.sample(policy, key)
        return Choice(action, actor.log_prob(policy, action), policy)

    def greedy(self, state: PPOState, x: Float[Array, "N x"]) -> Float[Array, "N act"]:
        return state.actor.model.best(state.actor.model.policy(x))

    def update(
        self,
        state: PPOState,
        batch: Batch,
        rewards: Float[Array, "R T N"],
        weights: Float[Array, "R"],
        key: Key,
        direct: Direct | None = None,
        closed: Sequence[bool] | None = None,
    ) -> tuple[PPOState, Metrics]:
        ends = jnp.array(closed or [False] * len(rewards))
        rows, critics, returns = self._judge(state, batch, rewards, weights, direct, ends)

        def learn(nets: tuple[Trained[Actor], Trained[MLP]], part: Rows):
            actor, critics = nets
            actor, gain = descend(self._adam, actor, lambda a: self._policy_loss(a, part))

            def one(critic: Trained[MLP], target: Float[Array, "m"]):
                error = lambda net: jnp.mean((net(part.x)[:, 0] - target) ** 2)  # noqa: E731
                return descend(self._adam, critic, error)

            critics, errors = jax.vmap(one)(critics, part.targets.T)
            return (actor, critics), (gain, errors.mean())

        size = rows.advantage.size // self.minibatches
        schedule = Schedule(self.epochs, size, self.merge_last)
        nets = (state.actor, critics)
        (actor, critics), (gains, errors) = passes(nets, learn, rows, key, schedule)
        moved = actor.model.log_prob(actor.model.policy(rows.x), rows.action) - rows.log_prob
        metrics = {
            "policy_loss": gains.mean(),
            "value_loss": errors.mean(),
            "kl": jnp.mean(jnp.expm1(moved) - moved),
            "clipped": jnp.mean((jnp.abs(jnp.expm1(moved)) > self.clip).astype(moved.dtype)),
        }
        if actor.model.log_std is not None:
            metrics["log_std"] = actor.model.log_std.mean()
        return PPOState(actor, critics, returns), metrics

    def _judge(
        self,
        state: PPOState,
        batch: Batch,
        rewards: Float[Array, "R T N"],
        weights: Float[Array, "R"],
        direct: Direct | None,
        closed: Bool[Array, "R"],
    ) -> tuple[Rows, Trained[MLP], Running]:
        """Every step's advantage and the critics' targets, by the values of before the update; and
        the critics at the new scale of their returns."""
        x, next_x = seen(batch.obs, batch.skill), seen(batch.next_obs, next_skill(batch))
        onto = jnp.zeros_like(rewards)
        onto = onto if direct is None else onto.at[0].set(direct.target)

        def stream(critic: MLP, stats: Running, reward: Array, more: Array, closed: Array):
            sigma = scale(stats)
            value, next_value = critic(x)[..., 0] * sigma, critic(next_x)[..., 0] * sigma
            over = batch.terminated | (closed & batch.ended)
            advantage = gae(reward, value, next_value, over, batch.ended, self.discount, self.lam)
            gain = advantage + value + more
            stats = stats.add(gain.reshape(-1))
            new = scale(stats)
            return advantage, gain / new, _rescaled(critic, sigma / new), stats

        judged = jax.vmap(stream)(state.critics.model, state.returns, rewards, onto, closed)
        advantages, targets, critics, returns = judged
        advantage = jnp.einsum("r,rtn->tn", weights, advantages)
        advantage = advantage if direct is None else advantage + direct.advantage
        flat = jax.tree.map(
            lambda a: a.reshape(-1, *a.shape[2:]),
            (x, batch.action, batch.log_prob, advantage, jnp.moveaxis(targets, 0, -1)),
        )
        return Rows(*flat), Trained(critics, state.critics.opt_state), returns

    def _policy_loss(self, actor: Actor, part: Rows) -> Float[Array, ""]:
        policy = actor.policy(part.x)
        rho = jnp.exp(actor.log_prob(policy, part.action) - part.log_prob)
        a = (part.advantage - part.advantage.mean()) / (part.advantage.std() + 1e-8)
        gain = jnp.minimum(rho * a, jnp.clip(rho, 1 - self.clip, 1 + self.clip) * a)
        if not self.entropy_weight:
            return -gain.mean()
        return -gain.mean() - self.entropy_weight * actor.entropy(policy).mean()


def next_skill(batch: Batch) -> Float[Array, "T N z"]:
    """z as the policy sees it in the state reached: the next step's, where the episode goes on."""
    later = jnp.concatenate([batch.skill[1:], batch.skill[-1:]])
    return jnp.where(batch.ended[..., None], batch.skill, later)


def scale(stats: Running) -> Float[Array, "*r"]:
    return jnp.sqrt(stats.var + stats.mean**2 + 1e-8)


def _rescaled(critic: MLP, by: Float[Array, ""]) -> MLP:
    """The critic with its outputs multiplied."""
    last = critic.layers[-1]
    scaled = (last.weight * by, last.bias * by)
    return eqx.tree_at(lambda m: (m.layers[-1].weight, m.layers[-1].bias), critic, scaled)
