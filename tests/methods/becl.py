import jax
import numpy as np

from methods.plain import numpy_mlp

PRACTICE = {"bonus": "rises"}
BATCHWISE = "a row is contrasted with the other rows of its minibatch, which the key shuffles"
VARIANTS = [
    {"skill_dim": 2, "minibatch": 15},
    {"minibatch": 15, "temperature": 2.0},
    {"skill_dim": 3, "minibatch": 4},
    {"skill_kind": "continuous", "skill_dim": 2, "minibatch": 15, "head": True},
]


def oracle(method, state, batch):
    """exp(S(h_i, h_p) / T) / sum_{j != i} exp(S(h_i, h_j) / T), p the first other row of the same
    skill; 0 where there is none."""
    h = numpy_mlp(state.embed.model, batch.next_obs.reshape(15, 2))
    h, z = h / np.linalg.norm(h, axis=1, keepdims=True), batch.skill.reshape(15, -1)
    paid = np.zeros(15)
    for rows in minibatches(method.minibatch):
        for i in rows:
            each = {j: np.exp(h[i] @ h[j] / method.temperature) for j in rows if j != i}
            kin = [j for j in each if (z[j] == z[i]).all()]
            paid[i] = each[kin[0]] / sum(each.values()) if kin else 0
    return paid.reshape(1, *batch.reward.shape)


def minibatches(size):
    """As the test's key shuffles the rows; the last one takes what is left over."""
    bits = jax.random.bits(jax.random.fold_in(jax.random.key(1), 0), (15,))
    cuts = {15: [0, 15], 4: [0, 4, 8, 12, 15]}[size]
    return np.split(np.argsort(bits), cuts[1:-1])
