"""``transformer task``: learn something that has a right answer."""

from __future__ import annotations

import argparse

from transformer.checkpoint import load_checkpoint
from transformer.commands.display import draw, take_steps
from transformer.commands.options import add_fields, add_new_run, chosen, new_run
from transformer.commands.report import describe_model, describe_recipe
from transformer.induction import induction_scores, without_heads
from transformer.model import Transformer
from transformer.phrases import counted
from transformer.recipe import Recipe
from transformer.run import Run
from transformer.tasks import END, LOOKED_AT, TASKS, TRAINING, Questions

HELP = "Learn a task that has a right answer: to copy, reverse or sort letters, or to add numbers."
EXAMPLES = {">": "qwert", "=": "27+45"}  # by the sign before the answer
INDUCTION = 0.5  # of its weight: from there on a head is called an induction head
EPILOG = """\
A question is answered right if every character of the answer is, up to the full stop. One question in ten is held
out by a hash and never learned from; questions to sort with the same letters, and 27+45 and 45+27, are held out
together. The answer to a sum has its digits in the usual order, so that the carry has to be foreseen. Half of the
copies learned from begin at a random letter, so that counting places does not help: what does is an induction
head, which looks for the present letter in the question and at what follows it there."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = EPILOG
    tasks = "; ".join(
        f"{task.name}: {task.says}, {task.text(EXAMPLES[task.signs[-1]])}" for task in TASKS.values()
    )
    parser.add_argument("task", choices=tuple(TASKS), help=tasks)
    parser.add_argument(
        "--length",
        type=int,
        metavar="INT",
        help="letters that a question has at most (default: 8), or digits of each number (default: 2)",
    )
    add_new_run(parser)
    add_fields(parser, Recipe, ["steps", "learning_rate", "matrix_rate", "seed", "threads"], defaults())


def defaults() -> dict[str, str]:
    """Return how tasks are learned, by default, with the exceptions."""
    found = {}
    for name, value in TRAINING.items():
        others = {task.name: task.training[name] for task in TASKS.values() if name in task.training}
        found[name] = f"{value:g}" + "".join(f"; of {task} {other:g}" for task, other in others.items())
    return found


def run(arguments: argparse.Namespace) -> None:
    """Train a small model on a task, show how its answers get right, and judge it by questions never learned."""
    task = TASKS[arguments.task]
    questions = Questions(task, task.length if arguments.length is None else arguments.length)
    recipe = Recipe(**{**TRAINING, **task.training, **chosen(arguments, Recipe)})
    with Run.start(new_run(arguments), questions, questions.config(), recipe) as run:
        learn(run)


def learn(run: Run) -> None:
    """Train what remains, and print what happens and what has come of it."""
    questions, recipe = run.data, run.recipe
    assert isinstance(questions, Questions)
    task = questions.task
    example = questions.example
    print(f"task       {task.name}: {task.says}, as {task.text(example)}")
    print(f"questions  {describe_questions(questions)}; one in ten is held out: never learned from, only asked")
    print(f"model      {describe_model(run.model)}")
    print(f"training   {describe_recipe(recipe, counted(recipe.batch_size, 'question'))}")
    print(f"run        {run.directory.path}", flush=True)
    take_steps(run)
    draw(run)
    print(f"\ntrained in {run.progress.seconds:.0f} s")
    model = load_checkpoint(run.directory.best).model
    report(questions, model)
    path = run.directory.path
    print(f"\nwrote {path}: {run.directory.describe()}")
    prompt = task.prompt(example)
    print(f'next: transformer generate --out {path} --temperature 0 --stop "{END}" --prompt "{prompt}"')
    print(f'      transformer explain --out {path} --text "{prompt}{task.answer(example)}"')


def report(questions: Questions, model: Transformer) -> None:
    """Print how many held-out questions a model answers right; of one that copies, also its induction head."""
    print(questions.mark(model))
    if questions.task.name == "copy" and questions.length > 1:
        print(f"\n{describe_induction(questions, model)}")


def describe_questions(questions: Questions) -> str:
    """Return what is asked."""
    if len(questions.task.signs) == 1:
        return f"of 1 to {counted(questions.length, 'letter')}"
    return f"of two numbers of {counted(questions.length, 'digit')} each"


def describe_induction(questions: Questions, model: Transformer) -> str:
    """Return the heads' induction scores, the name of the best, and how the answers are without such heads."""
    asked = questions.held_out[:LOOKED_AT]
    scores = induction_scores(questions, model, asked)
    lines = [
        "Induction score of each head: when the letters after the sign come in random order, so that counting",
        "places is of no help, the weight that it gives to the letter which follows the same one in the question:",
    ]
    for layer, row in enumerate(scores.tolist(), 1):
        lines.append(f"    layer {layer}   " + "   ".join(f"{score:.2f}" for score in row))
    layer, head = divmod(int(scores.argmax().item()), model.config.n_heads)
    found = [
        divmod(i, model.config.n_heads) for i, score in enumerate(scores.flatten().tolist()) if score >= INDUCTION
    ]
    name = f"layer {layer + 1}, head {head + 1}: {scores.max().item():.2f}"
    if not found:
        return "\n".join([*lines, f"the highest is that of {name}, too little to call it an induction head"])
    with without_heads(model, found):
        right = len(questions.mark(model, asked).right)
    which = "without it" if len(found) == 1 else f"without the {len(found)} heads of {INDUCTION} or more"
    lines.append(f"{name}, an induction head; {which}, {right:,} of {len(asked):,} answers are right")
    return "\n".join(lines)
