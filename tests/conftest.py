import os
from pathlib import Path

import jax
import pytest

HERE = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("CIM_TEST_CACHE", HERE / ".cache" / "jax"))

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture(scope="module", autouse=True)
def forgotten():
    """What a file compiled is on disk; in memory it would pile up to gigabytes."""
    yield
    jax.clear_caches()
