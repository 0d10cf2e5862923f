"""What several equations share, in NumPy."""

import math

import numpy as np
from scipy.stats import norm

from methods.plain import numpy_mlp


def log_q(guess, z, x):
    """Of a one-hot z the log of its odds; of another the log of a Gaussian."""
    out = numpy_mlp(guess.net, x)
    if guess.kind == "discrete":
        odds = np.exp(out)
        return np.log((odds * z).sum() / odds.sum())
    d = z.shape[-1]
    std = np.exp(out[d:]) if guess.spread == "learned" else np.ones(d)
    return norm.logpdf(z, out[:d], std).sum()


def log_p(skills, z):
    """Of z under its prior: one over the number, the volume or the area."""
    if skills.kind == "normal":
        return norm.logpdf(z).sum()
    area = {1: 2, 2: 2 * math.pi, 3: 4 * math.pi}.get(skills.dim)
    return -math.log({"discrete": skills.dim, "box": 2**skills.dim, "positive": 1,
                      "sphere": area}[skills.kind])  # fmt: skip


def gaps_of(method, points, references=None, include_self=False):
    """The distances of each point to its k nearest, of the others or of all references."""
    nearest = []
    for i, p in enumerate(points):
        d = np.linalg.norm((points if references is None else references) - p, axis=1)
        d = d if references is not None or include_self else np.delete(d, i)
        nearest.append(np.sort(d)[: method.k])
    return np.array(nearest)


def rarity(method, seen, d):
    """log(1 + mean_j max(d_j / n - clip, 0)), n of all d_j seen (before any: mean 0)."""
    mean, var = float(seen.mean), float(seen.var)
    scaled = {"none": d, "mean": d / (mean or 1), "variance": d / var, "std": d / var**0.5,
              "score": (d - mean) / var}[method.normaliser]  # fmt: skip
    return np.log(1 + np.maximum(scaled - method.clip, 0).mean(axis=1))


def along(phi, method, batch, unit=False):
    """(phi(s') - phi(s)).z; a one-hot z stands for (z - 1/D) D/(D - 1)."""
    z = batch.skill
    if method.skill_kind == "discrete":
        z = (z - 1 / method.skill_dim) * method.skill_dim / (method.skill_dim - 1)
    elif unit:
        z = z / np.linalg.norm(z, axis=-1, keepdims=True)
    return ((phi(batch.next_obs) - phi(batch.obs)) * z).sum(-1)[None]
