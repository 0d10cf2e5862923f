"""A name -> an Env. One entry an environment; this table is what `cim envs` prints."""

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal

from cim.envs.base import Env
from cim.envs.tasks.ant import Ant
from cim.envs.tasks.base import Task
from cim.envs.tasks.cheetah import HalfCheetah
from cim.envs.tasks.fetch import PUSH, SLIDE
from cim.envs.tasks.humanoid import Humanoid, HumanoidStandup
from cim.envs.tasks.maze import AntMaze, PointMaze
from cim.envs.tasks.walker import Walker
from cim.types import Area, EnvSpec, UserError

Sim = Literal["cpu", "gpu", "warp-cpu"]

SQUARE = Area((-60.0, 60.0), (-60.0, 60.0), (48, 48))  # Ant: 2.5 m cells
FIELD = Area((-100.0, 100.0), (-100.0, 100.0), (80, 80))  # Humanoid: 2.5 m cells
TABLE = Area((0.5, 2.0), (0.0, 1.5), (15, 15))  # Fetch: 0.1 m cells
MAZE = Area((-1.5, 1.5), (-1.5, 1.5), (12, 12))  # the inside of the U: 0.25 m cells
ROUND = Area((-12.0, 12.0), (-12.0, 12.0), (24, 24))  # an ant's way through a maze: 1 m cells
TRACK = Area((-60.0, 60.0), (-5.0, 5.0), (48, 1))  # HalfCheetah: 2.5 m of track
PLANE = Area((-5.0, 5.0), (-5.0, 5.0), (20, 20))


@dataclass(frozen=True)
class Entry:
    task: str  # EnvPool's name, if it has one
    obs_dim: int
    action_dim: int
    horizon: int
    position: tuple[int, int] | None  # the observation dimensions that are x and y
    area: Area | None
    options: dict[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()  # of a dictionary observation
    num_envs: int = 64  # a seed, by default
    rollout: int = 512  # steps an iteration of each, by default
    robot: Task | None = None  # on the GPU; neither this nor EnvPool's: toy.py

    @property
    def sims(self) -> list[str]:
        return ["cpu"] * bool(self.task or not self.robot) + ["gpu"] * bool(self.robot)


WITH_XY = {"exclude_current_positions_from_observation": False}
BODY = WITH_XY | {"post_constraint": True}  # sees contact forces, as in Gymnasium
ANT = WITH_XY | {"use_contact_force": False, "healthy_z_min": 0.25, "healthy_z_max": 1.0}
SEEN = ("observation",)

POSTURE = ("orientations", "height", "velocity")
WALK = {"parts": POSTURE, "rollout": 250}

CATALOG = {
    "Ant": Entry("Ant-v4", 29, 8, 200, (0, 1), SQUARE, ANT, robot=Ant(healthy=(0.25, 1.0))),
    "Humanoid": Entry("Humanoid-v4", 378, 17, 1000, (0, 1), FIELD, BODY, robot=Humanoid()),
    "HalfCheetah": Entry("HalfCheetah-v4", 18, 6, 1000, (0, 1), TRACK, WITH_XY,
                         robot=HalfCheetah()),
    "HumanoidStandup": Entry("HumanoidStandup-v4", 378, 17, 1000, (0, 1), FIELD, BODY,
                             robot=HumanoidStandup()),
    "FetchPush": Entry("FetchPush-v4", 25, 4, 50, (3, 4), TABLE, {"initial_slide0": 0.405}, SEEN,
                       robot=PUSH),
    "FetchSlide": Entry("FetchSlide-v4", 25, 4, 50, (3, 4), TABLE, {"initial_slide0": 0.05}, SEEN,
                        robot=SLIDE),
    "PointMaze": Entry("PointMaze_UMaze-v3", 4, 2, 300, (0, 1), MAZE, parts=SEEN, num_envs=16,
                       rollout=300, robot=PointMaze()),
    "AntMaze": Entry("", 27, 8, 700, None, None, robot=AntMaze()),
    "AntMazeXY": Entry("", 29, 8, 700, (0, 1), ROUND, robot=AntMaze(with_xy=True)),
    "walker-stand": Entry("WalkerStand-v1", 24, 6, 1000, None, None, **WALK, robot=Walker()),
    "walker-walk": Entry("WalkerWalk-v1", 24, 6, 1000, None, None, **WALK, robot=Walker(speed=1.0)),
    "walker-run": Entry("WalkerRun-v1", 24, 6, 1000, None, None, **WALK, robot=Walker(speed=8.0)),
    "walker-flip": Entry("", 24, 6, 1000, None, None, robot=Walker(flips=True)),
    "PointWorld": Entry("", 2, 2, 50, (0, 1), PLANE, num_envs=16, rollout=100),
}  # fmt: skip


def entry_of(name: str) -> Entry | None:
    """The entry of the catalogue, or none for `gym:` names; anything else is the user's mistake."""
    if name.startswith("gym:"):
        return None
    if name not in CATALOG:
        near = get_close_matches(name, CATALOG, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        known = ", ".join(CATALOG)
        raise UserError(
            f"environment {name!r} is unknown; {hint}known: {known}; or gym:ID, any of Gymnasium's"
        )
    return CATALOG[name]


def check_sim(name: str, sim: Sim) -> None:
    """Refuse an engine that does not have this environment, or that this machine does not have."""
    entry = entry_of(name)
    known = entry.sims if entry else ["cpu"]
    if sim.replace("warp-cpu", "gpu") not in known:
        others = " or ".join(f"--sim {other}" for other in known)
        raise UserError(f"{name} has no --sim {sim}: it runs with {others}")
    if sim != "cpu":
        import jax

        backend = jax.default_backend()
        if sim == "gpu" and backend != "gpu":
            more = ", or --sim cpu" if "cpu" in known else ""
            raise UserError(
                "--sim gpu: JAX sees no GPU on this machine; "
                f"--sim warp-cpu runs the same simulation without one{more}"
            )
        if sim == "warp-cpu" and backend != "cpu":
            raise UserError("--sim warp-cpu: JAX would use the GPU; set JAX_PLATFORMS=cpu")


def make_env(
    name: str,
    num_envs: int,
    time_limit: int | None = None,
    position: tuple[int, int] | None = None,
    area: Area | None = None,
    sim: Sim = "cpu",
    contacts: int | None = None,
    constraints: int | None = None,
) -> Env:
    """N worlds of it. `position` and `area` tell the metrics where x and y are, where to count;
    `contacts` and `constraints` how much room a world has on the GPU."""
    check_sim(name, sim)
    entry = entry_of(name)
    if entry is None:
        from cim.envs.host import GymnasiumWorlds

        worlds = GymnasiumWorlds(name.removeprefix("gym:"), num_envs, time_limit)
        worlds.spec = replace(worlds.spec, position=position, area=area)
    else:
        spec = EnvSpec(
            obs_dim=entry.obs_dim,
            action_dim=entry.action_dim,
            num_envs=num_envs,
            horizon=time_limit or entry.horizon,
            position=position or entry.position,
            area=area or entry.area,
        )
        if sim == "cpu":
            worlds = _on_host(entry, spec)
        else:
            assert entry.robot is not None
            from cim.envs.device import device_worlds

            worlds = device_worlds(entry.robot, spec, contacts, constraints)
    where = worlds.spec.position
    if where and not all(0 <= i < worlds.spec.obs_dim for i in where):
        raise UserError(f"position = {where}: dimensions are 0 to {worlds.spec.obs_dim - 1}")
    return worlds


def _on_host(entry: Entry, spec: EnvSpec) -> Env:
    if not entry.task:
        from cim.envs.toy import PointWorld

        assert spec.position is not None
        assert spec.area is not None
        return PointWorld(spec.num_envs, spec.horizon, spec.position, spec.area)
    from cim.envs.host import EnvPoolWorlds

    return EnvPoolWorlds(entry.task, entry.options, entry.parts, spec)


def listing() -> list[dict[str, Any]]:
    """The catalogue, for people and machines."""
    return [
        {
            "name": name,
            "engine": entry.task or ("MuJoCo Warp" if entry.robot else "JAX"),
            "sims": entry.sims,
            "observation": entry.obs_dim,
            "action": entry.action_dim,
            "time_limit": entry.horizon,
            "position": list(entry.position) if entry.position else None,
            "num_envs": entry.num_envs,
            "rollout": entry.rollout,
        }
        for name, entry in CATALOG.items()
    ]
