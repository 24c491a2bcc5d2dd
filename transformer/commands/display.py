"""What a command shows while it works: a bar for what takes a while, a training's course, and its losses drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tqdm import tqdm

from transformer.baselines import Baseline
from transformer.commands.report import printable
from transformer.commands.signals import StopSignals
from transformer.curve import curve_of, read_log, save_pictures, text_plot
from transformer.evaluation import Score
from transformer.phrases import counted
from transformer.run import Listener, Run, Stopped
from transformer.training import Progress

STOPPING = "\nfinishing this step, then saving; once more stops at once\n"


@contextmanager
def bar(total: int | None, unit: str, doing: str) -> Iterator[Callable[[int], Any]]:
    """Show a progress bar for what takes more than a second; yield what moves it on."""
    with tqdm(
        total=total, unit=unit, unit_scale=True, desc=doing, delay=1, leave=False, dynamic_ncols=True
    ) as shown:
        yield shown.update


def take_steps(run: Run, baselines: Sequence[Baseline] = ()) -> None:
    """Take all the steps of a run that remain, with a progress bar.

    Raises:
        Stopped: by Ctrl-C, or a request of the system.
    """
    try:
        with StopSignals(STOPPING) as signals, Display(run, baselines, signals) as display:
            run.train(display)
    except Stopped:
        with suppress(OSError):  # why it stopped is more important than a picture
            draw(run, baselines)
        raise


def draw(run: Run, baselines: Sequence[Baseline] = ()) -> str:
    """Draw the run's losses in its directory, and return a plot of them for the terminal.

    Raises:
        OSError: the directory can't be written.
    """
    curve = curve_of(read_log(run.directory.log), run.data.characters_per_token, baselines)
    if curve is None:
        return ""
    save_pictures(curve, run.directory.path, f"Losses of the run '{run.directory.path}'")
    return text_plot(curve)


class Display(Listener):
    """A progress bar with the losses, and a sample now and then."""

    def __init__(self, run: Run, baselines: Sequence[Baseline], signals: StopSignals) -> None:
        self.bar = tqdm(
            total=run.recipe.steps,
            initial=run.progress.step,
            unit="step",
            dynamic_ncols=True,
            smoothing=0.05,
            mininterval=0.5,
        )
        self.signals = signals
        best = min(baselines, key=lambda baseline: baseline.nats_per_character, default=None)
        self.compared = f" ({best.name} {best.nats_per_character:.3f})" if best else ""
        self.held_out = ""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()

    def stepped(self, progress: Progress) -> None:
        """Move the bar on."""
        self.bar.set_postfix_str(
            f"loss {progress.smooth_loss:.3f}{self.held_out}, {progress.tokens_per_second:,.0f} tokens/s",
            refresh=False,
        )
        self.bar.update()

    def evaluated(self, step: int, score: Score) -> None:
        """Show the held-out loss in the bar."""
        self.held_out = f", held-out {score.nats_per_character:.3f} nats/char{self.compared}"

    def sampled(self, step: int, text: str) -> None:
        """Print a sample above the bar."""
        self.bar.write(f"--- after {counted(step, 'step')}{self.held_out}\n{printable(text)}\n")

    def should_stop(self) -> bool:
        """Return whether the user has asked for it."""
        return self.signals.requested
