"""The command line: parsing alone. Each command calls one function of the library.

Nothing heavy is imported before a command runs. What a user did wrong ends in one line and exit
code 2; JSON goes to stdout alone, all else to stderr.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from cim.errors import CimError, UserError

TITLE = "cim: skills without rewards, and bonuses that do not ruin the task"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def __init__(self, command: str, **more: Any):
        kind = argparse.RawDescriptionHelpFormatter
        super().__init__(
            f"cim {command}",
            allow_abbrev=False,
            formatter_class=kind,
            argument_default=None,
            **more,
        )

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog}: {message}; see {self.prog} --help")


def train(words: Sequence[str]) -> None:
    """train skills or a task: --method cim --env Ant --seeds 5 --out runs/ant"""
    from cim.launch import launch_together
    from cim.options import PARTS, configure, flags
    from cim.progress import Terminal

    about = Parser("train", add_help=False)
    about.add_argument("--preset", help="published settings of the method: see cim methods")
    about.add_argument("--out", type=Path, help="run folder (default: runs/ENV-METHOD)")
    about.add_argument("--resume", action="store_true", help="go on with the run in --out")
    about.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    about.add_argument("--json", action="store_true", help="print the last evaluation as JSON")
    parts, rest = about.parse_known_args(words)
    stated = _stated(rest)
    if "help" in stated:
        chosen = configure({k: v for k, v in stated.items() if k in PARTS}, parts.preset)
        return _train_help(about, flags(chosen))
    names = stated.get("method", "").split(",")
    if len(names) > 1:
        folder = parts.out or Path("runs") / _named(stated.get("env", "PointMaze"))
        outs = [folder / name for name in names]
    else:
        outs = [parts.out]
    configs = [
        configure(mine, parts.preset, _stored(out) if parts.resume and out else None)
        for mine, out in zip(_shared_out(stated, names), outs, strict=True)
    ]
    outs = [
        out or Path("runs") / f"{_named(config.env)}-{_method(config)}"
        for config, out in zip(configs, outs, strict=True)
    ]
    runs = launch_together(configs, outs, parts.resume, parts.overwrite, Terminal())
    reports = [run.read_result("evaluation") for run in runs]
    if parts.json:
        print(json.dumps(reports if len(runs) > 1 else reports[0]))
    for run, report in zip(runs, reports, strict=True):
        _tell(report)
        print(f"run folder: {run.folder}", file=sys.stderr)


def _named(env: str) -> str:
    return env.replace(":", "-").replace("/", "-")


def _shared_out(stated: dict[str, str], names: list[str]) -> list[dict[str, str]]:
    """What is said to each method: its name, what is said to all, and those of the options of
    methods that it has. One that none of them has is left to all, to be refused."""
    from cim.options import configure, flags

    if len(names) == 1:
        return [stated]
    if len(set(names)) < len(names):
        raise UserError(f"--method {stated['method']}: each once")
    known = {name: flags(configure({"method": name})) for name in names}
    nobodys = {path for path in stated if not any(path in own for own in known.values())}
    return [
        {path: word for path, word in stated.items() if path in known[name] or path in nobodys}
        | {"method": name}
        for name in names
    ]


def _stored(folder: Path) -> Any:
    from cim.options import from_json
    from cim.runs import Run

    return from_json(Run(folder).config, f"{folder}/config.json")


def _method(config: Any) -> str:
    from cim.options import name_of

    return name_of("method", config.method)


def _stated(words: Sequence[str]) -> dict[str, str]:
    """--name value and --name=value; a flag without a value is help or a mistake."""
    stated, waiting = {}, list(words)
    while waiting:
        flag = waiting.pop(0)
        if flag in ("-h", "--help"):
            stated["help"] = ""
            continue
        if not flag.startswith("--"):
            raise UserError(f"cim train: {flag!r} is not an option; see cim train --help")
        name, given, value = flag[2:].partition("=")
        if not given:
            if not waiting or waiting[0].startswith("--"):
                raise UserError(f"cim train: --{name} needs a value; see cim train --help")
            value = waiting.pop(0)
        stated[name.replace("_", "-")] = value
    return stated


def _train_help(about: Parser, flags: dict[str, Any]) -> None:
    from cim.options import PARTS, words_for

    print(f"usage: cim train [options]\n\n{train.__doc__}\n")
    print(about.format_help().partition("options:\n")[2], end="")
    for path, (field, kind, value) in flags.items():
        known = "|".join(PARTS[path]) if path in PARTS else words_for(kind)
        text = field.metadata.get("help", "")
        shown = "" if path in PARTS or value is None else f" [{_word(value)}]"
        print(f"  --{path + ' ' + known:<42} {text}{shown}")
    print("\nOther methods and agents have other options: cim train --method NAME --help")
    print("Several methods side by side, a folder each in --out: cim train --method cim,rnd,apt")


def _word(value: Any) -> str:
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def evaluate(words: Sequence[str]) -> None:
    """coverage, returns, skill diversity of a run: into RUN/results and a table"""
    parser = Parser("evaluate", description=evaluate.__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--episodes", type=_count, default=1000, help="of each seed [1000]")
    parser.add_argument("--sim", choices=("cpu", "gpu", "warp-cpu"), help="[as it was trained]")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    asked = parser.parse_args(words)
    from cim.launch import evaluate_run

    report = evaluate_run(asked.run, asked.episodes, asked.sim)
    if asked.json:
        print(json.dumps(report))
    else:
        _tell(report)


def figure(words: Sequence[str]) -> None:
    """skill trajectories, coverage map, learning curves of runs: PNG and PDF"""
    parser = Parser("figure", description=figure.__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    asked = parser.parse_args(words)
    from cim.plots import draw

    for path in draw(asked.runs):
        print(path)


def video(words: Sequence[str]) -> None:
    """one skill of a run as MP4"""
    parser = Parser("video", description=video.__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--skill", type=_numbers, help="z, for example 0.7,0.7 [drawn]")
    parser.add_argument("--seed", type=int, default=0, help="which of the run's seeds [0]")
    parser.add_argument("--steps", type=_count, help="at most [an episode]")
    parser.add_argument("--out", type=Path, help="file [RUN/figures/skill.mp4]")
    asked = parser.parse_args(words)
    from cim.video import film

    print(film(asked.run, asked.skill, asked.out, asked.seed, asked.steps))


def methods(words: Sequence[str]) -> None:
    """what there is to motivate an agent with"""
    parser = Parser("methods", description=methods.__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    from cim.options import list_methods

    rows = list_methods()
    if asked.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['name']:<10} {row['category']:<12} skills: {row['skills']:<11} {row['about']}")
        for option in row["options"]:
            shown = f"--method.{option['name']} [{option['default']}]"
            print(f"    {shown:<44} {option['help']}")


def envs(words: Sequence[str]) -> None:
    """what there is to train in"""
    parser = Parser("envs", description=envs.__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    from cim.envs.catalog import listing

    if asked.json:
        print(json.dumps(listing()))
        return
    print(f"{'name':<16} {'engine':<20} {'obs':>4} {'act':>4} {'limit':>6}  {'sims':<8}  x, y")
    for row in listing():
        where = "dims {}, {}".format(*row["position"]) if row["position"] else "not seen"
        print(
            f"{row['name']:<16} {row['engine']:<20} {row['observation']:>4} {row['action']:>4} "
            f"{row['time_limit']:>6}  {', '.join(row['sims']):<8}  {where}"
        )
    print("gym:ID           any environment registered with Gymnasium, for example gym:Pendulum-v1")


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "train": train,
    "evaluate": evaluate,
    "figure": figure,
    "video": video,
    "methods": methods,
    "envs": envs,
}


def _count(word: str) -> int:
    number = float(word)
    if number != int(number) or number < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number of at least 1")
    return int(number)


def _numbers(word: str) -> tuple[float, ...]:
    return tuple(float(item) for item in word.split(","))


def _tell(report: dict[str, Any] | None) -> None:
    """The report as a table."""
    if report is None:
        return
    rows = {k: report[k] for k in ("coverage", "return", "length") if report.get(k)}
    rows |= {f"{k}": v for k, v in (report.get("diversity") or {}).items()}
    print(f"{report['method']} in {report['env']}, {report['steps']} steps, "
          f"{report['episodes']} episodes a seed", file=sys.stderr)  # fmt: skip
    for name, row in rows.items():
        spread = f" ± {row['std']:.3g}" if row["std"] is not None else ""
        interval = row["interval95"]
        within = f"  95% in [{interval[0]:.4g}, {interval[1]:.4g}]" if interval else ""
        seeds = " ".join(f"{value:.4g}" for value in row["per_seed"])
        print(f"  {name:<11} {row['mean']:.4g}{spread}{within}  per seed: {seeds}", file=sys.stderr)


def _help() -> str:
    lines = [f"  {name:<10} {function.__doc__}" for name, function in COMMANDS.items()]
    return "\n".join(
        [TITLE, "", "usage: cim COMMAND [options]", "", *lines, "", "cim COMMAND --help says more"]
    )


def run(words: Sequence[str]) -> int:
    """The command's exit code: 0 done, 2 the user's words are wrong, 1 anything else."""
    try:
        if not words or words[0] in ("-h", "--help"):
            print(_help())
            return 0
        if words[0] == "--version":
            from cim import __version__

            print(f"cim {__version__}")
            return 0
        if words[0] not in COMMANDS:
            raise UserError(f"command {words[0]!r} is unknown; known: {', '.join(COMMANDS)}")
        _keep_compiled()
        COMMANDS[words[0]](words[1:])
    except CimError as error:
        print(f"cim: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        from cim.runs import lost

        print(f"cim: {lost(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cim: interrupted", file=sys.stderr)
        return 1
    return 0


def _keep_compiled() -> None:
    """Compiled programs are kept between runs, unless the user keeps them elsewhere."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(home) / "cim" / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")


def main() -> NoReturn:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
