"""Adversarially guided actor-critic (Flet-Berliac et al., 2021). https://arxiv.org/abs/2102.04376

An adversary imitates the policy; the policy is to differ from it.

    adversary: min KL( pi_old(.|s) || pi_adv(.|s) )

    advantage   A = A_GAE + c (log pi(a|s) - log pi_adv(a|s)),     V's target R + c KL(pi || pi_adv)
    reward      r(s) = KL( pi(.|s) || pi_adv(.|s) )

`advantage` is the original (preset `paper`): nothing of the difference is discounted or
bootstrapped, and c fades to 0 over the run (`--coefficient linear`). `reward` is what CIM's paper
writes. `visits` adds the original's count bonus, paid where a state is seen for the first time in
its episode: for worlds of few states (it is 0 in the original's continuous tasks).

Departs from the paper: KL is taken with the policy's own deviation (the released PyTorch code takes
the adversary's for it). The adversary learns at 0.3 of PPO's rate, as the paper says (the released
optimiser has the full one).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.actor import Actor, kl, log_prob
from cim.parts.episodes import first_visits
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.types import Batch, Direct, EnvSpec, Key, Metrics, UserError, option


class AGACState(eqx.Module):
    adversary: Trained[Actor]


@dataclass(frozen=True)
class AGAC(IntrinsicMethod[AGACState]):
    form: Literal["reward", "advantage"] = option("reward", "where the difference is added")
    c: float = option(4e-4, "weight of the difference in `advantage`")
    visits: float = option(0.0, "paid for a state that is new in its episode")
    width: int = option(64, "hidden units of the adversary, two layers")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(9e-5, "Adam's: below the actor's, or there is nothing to pay")

    category: ClassVar = "knowledge"
    needs: ClassVar = "policy"
    presets: ClassVar = {
        "port": {"passes": 10, "minibatch": 2048, "learning_rate": 1e-4},
        "paper": {"form": "advantage"},
    }

    @property
    def adds_directly(self) -> bool:
        return self.form == "advantage"

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_fit(self.minibatch, rows)
        if self.visits and length == 1:
            raise UserError(
                f"method.visits = {self.visits} counts along episodes, which a replay has not: "
                "take agent ppo, or 0"
            )

    def init(self, spec: EnvSpec, key: Key) -> AGACState:
        sizes = [spec.obs_dim, self.width, self.width, spec.action_dim]
        return AGACState(start(adam(self.learning_rate), Actor(sizes, spec.discrete, key)))

    def reward(self, state: AGACState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        new = first_visits(batch) if self.visits else jnp.zeros(batch.ended.shape, bool)
        r = self.visits * new.astype(batch.reward.dtype)
        return (r if self.adds_directly else r + difference(state.adversary.model, batch))[None]

    def direct(self, state: AGACState, batch: Batch) -> Direct | None:
        if not self.adds_directly:
            return None
        adversary = state.adversary.model
        theirs = adversary.log_prob(adversary.policy(batch.obs), batch.action)
        ours = log_prob(batch.policy, batch.action, adversary.log_std is None)
        target = self.c * difference(adversary, batch)
        return jax.lax.stop_gradient(Direct(self.c * (ours - theirs), target))

    def update(self, state: AGACState, batch: Batch, key: Key) -> tuple[AGACState, Metrics]:
        def loss(adversary: Actor, part: Batch) -> Float[Array, ""]:
            return difference(adversary, part).mean()

        schedule = lessons(batch, self.passes, self.minibatch)
        optimizer = adam(self.learning_rate)
        adversary, values = fit(optimizer, state.adversary, loss, batch.flat, key, schedule)
        return AGACState(adversary), {"loss": values[-1].mean()}


def difference(adversary: Actor, batch: Batch) -> Float[Array, "*n"]:
    """KL( pi || pi_adv )"""
    return kl(batch.policy, adversary.policy(batch.obs), adversary.log_std is None)
