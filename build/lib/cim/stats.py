"""Numbers of several seeds -> mean, spread, and how sure we are.

Seeds are the unit of replication.
"""

import numpy as np
from jaxtyping import Float


def bootstrap(
    per_seed: Float[np.ndarray, "S *x"], level: float = 0.95, draws: int = 10_000
) -> tuple[Float[np.ndarray, "*x"], Float[np.ndarray, "*x"]]:
    """The percentile interval of the mean over seeds, resampled with replacement."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(per_seed), (draws, len(per_seed)))
    counts = np.stack([(chosen == i).sum(axis=1) for i in range(len(per_seed))], axis=1)
    means = np.tensordot(counts / len(per_seed), per_seed, axes=1)
    tail = (1 - level) / 2
    low, high = (np.asarray(np.quantile(means, q, axis=0)) for q in (tail, 1 - tail))
    return low, high


def summary(per_seed: Float[np.ndarray, "S"]) -> dict[str, float | list[float] | None]:
    """Mean, sample standard deviation and interval over seeds, as JSON; None where one seed says
    nothing about spread."""
    several = len(per_seed) > 1
    low, high = bootstrap(per_seed)
    return {
        "mean": float(per_seed.mean()),
        "std": float(per_seed.std(ddof=1)) if several else None,
        "interval95": [float(low), float(high)] if several else None,
        "per_seed": [float(x) for x in per_seed],
    }
