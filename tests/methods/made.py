import numpy as np

from methods.plain import numpy_mlp

PRACTICE = {"bonus": "falls"}
VARIANTS = [{}, {"most": 1.5}, {"layers": 2, "deeper": 0}]


def oracle(method, state, batch):
    """|| f_hat(s) - f(s) || exp(e / 2) over the deviation of the latter."""
    s = np.clip(batch.obs, -5, 5)
    new = np.linalg.norm(numpy_mlp(state.known, s) - numpy_mlp(state.target, s), axis=-1)
    nets, x = state.density.model, np.concatenate([s, np.clip(batch.action, -1, 1)], -1)
    mu, log_sigma = np.split(numpy_mlp(nets.encoder, x), 2, axis=-1)
    kl = 0.5 * (np.exp(2 * log_sigma) + mu**2 - 1 - 2 * log_sigma).sum(-1)
    e = ((x - numpy_mlp(nets.decoder, mu)) ** 2).mean(-1) + kl
    return (new * np.exp(np.minimum(e, method.most) / 2) / np.sqrt(state.factors.var))[None]
