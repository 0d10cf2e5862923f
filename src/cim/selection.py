"""Which skill to fine-tune: small functions, NumPy in and out. A method's `selection` names its
paper's; a task's reward is asked in all of them but the first two.

    constant     one vector for all tasks: CIC's 0.5 (1, ..., 1); of one-hot skills the first
    random       one draw (BeCL)
    grid         candidates to try: c (1, ..., 1) over the prior's range (MOSS); every one-hot skill
    regression   z under which phi.z explains the reward best, at unit length (VISR, APS)
    best         of the candidates that were tried, the one of the highest mean return (DIAYN)
"""

from typing import Literal

import jax
import numpy as np
from jaxtyping import Float

from cim.parts.skills import Skills
from cim.types import UserError

RANGES = {"box": (-1.0, 1.0), "positive": (0.0, 1.0), "sphere": (-1.0, 1.0), "normal": (-2.0, 2.0)}


def constant(skills: Skills, value: float = 0.5) -> Float[np.ndarray, "z"]:
    _there_are(skills)
    if skills.kind == "discrete":
        return np.eye(skills.dim, dtype=np.float32)[0]
    return np.full(skills.dim, value, np.float32)


def random(skills: Skills, seed: int = 0) -> Float[np.ndarray, "z"]:
    """As skills are drawn in evaluation."""
    _there_are(skills)
    return np.asarray(skills.evaluation(jax.random.key(seed), 1)[0])


def grid(skills: Skills, count: int = 80) -> Float[np.ndarray, "C z"]:
    _there_are(skills)
    if count < 1:
        raise UserError(f"count = {count}: at least 1")
    if skills.kind == "discrete":
        return np.eye(skills.dim, dtype=np.float32)
    steps = np.linspace(*RANGES[skills.kind], count, dtype=np.float32)
    return np.repeat(steps[:, None], skills.dim, axis=1)


def regression(
    phi: Float[np.ndarray, "n z"],
    reward: Float[np.ndarray, "n"],
    form: Literal["least-squares", "correlation"] = "least-squares",
) -> Float[np.ndarray, "z"]:
    """min_z || phi z - r ||, at unit length. `correlation`: sum_i r_i phi_i, which is what URLB's
    APS computes, its least squares having the arguments swapped."""
    if form == "correlation":
        z = reward @ phi
    else:
        z, *_ = np.linalg.lstsq(phi, reward, rcond=None)
    length = np.linalg.norm(z)
    if not np.isfinite(length) or length == 0:
        raise UserError("regression: the reward says nothing about phi; take another selection")
    return (z / length).astype(np.float32)


def best(
    candidates: Float[np.ndarray, "C z"], returns: Float[np.ndarray, "R *E"]
) -> Float[np.ndarray, "z"]:
    """`returns`: one row a candidate, of one or several episodes; the first of equals."""
    if len(candidates) != len(returns):
        raise UserError(f"{len(candidates)} candidates have {len(returns)} rows of returns")
    means = returns.reshape(len(candidates), -1).mean(axis=1)
    return candidates[int(np.argmax(means))]


def _there_are(skills: Skills) -> None:
    if skills.dim == 0:
        raise UserError("this method has no skills to choose from")
