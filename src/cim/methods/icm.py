"""Curiosity as the error of a forward model (Pathak et al., 2017). https://arxiv.org/abs/1705.05363

    s_hat = forward(s, a),   a_hat = inverse(s, s')

    norms     r = log(1 + || s' - s_hat ||),     L = E || s' - s_hat || + E || a - a_hat ||
    squares   r = 1/2 || s' - s_hat ||^2,        L = (1 - beta) L_inverse + beta E[r]

`norms` is URLB's for states, `squares` the original's. There s stands for phi(s), an encoder that
both losses train (`encoder`, on in the preset `paper`); URLB, and CIM's paper, take states as they
are, and then the inverse model changes nothing that is paid. L_inverse is the mean square for
continuous actions, the cross-entropy for discrete ones (in `norms` too).

Departs from the paper: its constants 10 (loss) and 0.01 (reward) are left to Adam and to the
normalising of returns. Actions are what worlds make of them: cut at [-1, 1].
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from cim.methods.base import IntrinsicMethod
from cim.parts.dynamics import Dynamics
from cim.parts.learning import Trained, adam, fit, lessons, must_fit, start
from cim.types import Batch, EnvSpec, Key, Metrics, option


class ICMState(eqx.Module):
    dynamics: Trained[Dynamics]


@dataclass(frozen=True)
class ICM(IntrinsicMethod[ICMState]):
    form: Literal["norms", "squares"] = option("norms", "of errors: URLB's, or the original's")
    encoder: bool = option(False, "predict learned features of states, not states")
    features: int = option(64, "of the encoder")
    beta: float = option(0.2, "share of the forward loss in `squares`")
    width: int = option(512, "hidden units of each net")
    layers: int = option(1, "hidden layers of each net")
    passes: int = option(4, "passes over the rollout")
    minibatch: int = option(256, "rows of a minibatch")
    learning_rate: float = option(3e-4, "Adam's")

    category: ClassVar = "knowledge"
    presets: ClassVar = {
        "port": {"width": 1024, "passes": 10, "minibatch": 128},
        "paper": {"form": "squares", "encoder": True, "features": 288, "width": 256},
    }

    def check(self, spec: EnvSpec, rows: int, length: int) -> None:
        must_fit(self.minibatch, rows)

    def init(self, spec: EnvSpec, key: Key) -> ICMState:
        hidden = [self.width] * self.layers
        features = self.features if self.encoder else None
        dynamics = Dynamics(spec, hidden, features, key)
        return ICMState(start(adam(self.learning_rate), dynamics))

    def reward(self, state: ICMState, batch: Batch, key: Key) -> Float[Array, "1 T N"]:
        miss = self._miss(state.dynamics.model, batch)
        return (jnp.log1p(miss) if self.form == "norms" else miss)[None]

    def _miss(self, model: Dynamics, batch: Batch) -> Float[Array, "*n"]:
        square = jnp.sum(model.forward_error(batch) ** 2, axis=-1)
        return jnp.sqrt(square + 1e-12) if self.form == "norms" else 0.5 * square

    def update(self, state: ICMState, batch: Batch, key: Key) -> tuple[ICMState, Metrics]:
        def loss(model: Dynamics, part: Batch) -> Float[Array, ""]:
            forward = self._miss(model, part).mean()
            inverse = model.inverse_miss(part, squared=self.form == "squares").mean()
            if self.form == "norms":
                return forward + inverse
            return (1 - self.beta) * inverse + self.beta * forward

        schedule = lessons(batch, self.passes, self.minibatch)
        optimizer = adam(self.learning_rate)
        dynamics, values = fit(optimizer, state.dynamics, loss, batch.flat, key, schedule)
        return ICMState(dynamics), {"loss": values[-1].mean()}
