"""One engine in a process of its own, which does a piece of work when told to and answers how long it took.

Standard input brings lines of JSON: {"prepare": [name, arguments…]} or {"run": true}; standard output answers.
"""

from __future__ import annotations

import json
import sys

from benchmarks.sizes import SIZES


def peak_memory() -> float:
    """Return the largest memory that this process has had, in MB; NaN where the system can't say."""
    try:
        import resource
    except ImportError:
        return float("nan")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)


def main() -> None:
    """Serve one parent until it closes the pipe."""
    engine_name, threads = sys.argv[1], int(sys.argv[2])
    if engine_name == "torch":
        from benchmarks import with_torch as engine
    else:
        from benchmarks import with_minigrad as engine  # type: ignore[no-redef]
    engine.set_threads(threads)
    imported = peak_memory()
    run = None
    for line in sys.stdin:
        order = json.loads(line)
        if "prepare" in order:
            name, *arguments = order["prepare"]
            arguments = [SIZES.get(a, a) if isinstance(a, str) else a for a in arguments]
            run = getattr(engine, name)(*arguments)
            run()
            answer = 0.0
        elif "memory" in order:
            answer = peak_memory() - imported
        else:
            assert run is not None, "prepare comes first"
            answer = run()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
