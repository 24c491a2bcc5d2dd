"""Small tasks with a right answer: a model has learned one when every answer is right, not when the loss is low.

A question ends with a sign, then comes the answer, then a full stop::

    copy      qwert>qwert.
    reverse   qwert>trewq.
    sort      qwert>eqrtw.
    add       27+45=072.

Only the answer counts for the loss: the question is random, and nothing about it can be learned.  One question in
ten is held out, is never learned from, and is what the answers are judged by.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import minigrad as mg
from minigrad.nn import functional as F
from transformer.checkpoint import Checkpoint, CheckpointError
from transformer.config import Config
from transformer.evaluation import Score
from transformer.generation import generate
from transformer.model import Transformer
from transformer.tokenizer import CharTokenizer
from transformer.training import IGNORED, Batch

END = "."
HELD_OUT = 10  # one question in so many is held out
ASKED = 2000  # held-out questions that a model is judged by, if there are so many
AT_ONCE = 250  # questions that go through the model together
SHOWN = 4  # answers, of those that are counted
LOOKED_AT = 300  # held-out questions, for a look along the way


@dataclass(frozen=True)
class Task:
    """A kind of question, how it is answered, and how it is best learned.

    >>> TASKS["reverse"].answer("abc")
    'cba'
    >>> TASKS["add"].text("27+45")
    '27+45=072.'
    """

    name: str
    says: str
    draw: Callable[[random.Random, str, int], str]
    """A random question, given the letters (or digits) that there are and how many of them it may have at most."""
    answer: Callable[[str], str]
    key: Callable[[str], str]
    """What questions must share to be held out together: who has learned 45+27 knows 27+45."""
    letters: str = "abcdefghijklmnopqrstuvwxyz"
    signs: str = ">"
    """What comes after each part of a question; after the last, the answer."""
    length: int = 8
    """How many letters a question has at most, or digits each part, unless something else is asked for."""
    most: int = 100
    """The largest length that there is."""
    from_anywhere: bool = False
    """Whether, to learn, half of the answers are given up to a random letter of the question and go on from it."""
    training: dict[str, Any] = field(default_factory=dict)
    """Those fields of the :class:`Recipe` that differ from :data:`TRAINING`."""

    def text(self, question: str) -> str:
        """Return a question with its answer."""
        return f"{self.prompt(question)}{self.answer(question)}{END}"

    def prompt(self, question: str) -> str:
        """Return a question with the sign after which the answer comes."""
        return question + self.signs[-1]

    def exercise(self, rng: random.Random, question: str) -> tuple[str, str]:
        """Return a prompt to learn from, and how it goes on up to the full stop."""
        if self.from_anywhere and rng.random() < 0.5:
            start = rng.randrange(len(question))
            return self.prompt(question) + question[start], question[start + 1 :]
        return self.prompt(question), self.answer(question)

    def is_held_out(self, question: str) -> bool:
        """Return whether a question is one of those that are never learned from: a hash decides."""
        return zlib.crc32(self.key(question).encode("ascii")) % HELD_OUT == 0


def draw_letters(rng: random.Random, letters: str, length: int) -> str:
    """Return from 1 to ``length`` random letters."""
    return "".join(rng.choices(letters, k=rng.randint(1, length)))


def draw_different_letters(rng: random.Random, letters: str, length: int) -> str:
    """Return random letters of which none occurs twice, so that what follows one is never in doubt."""
    shuffled = sorted(letters, key=lambda letter: rng.random())
    return "".join(shuffled[: rng.randint(1, length)])


def draw_sum(rng: random.Random, digits: str, length: int) -> str:
    """Return two random numbers, each of ``length`` digits, to be added."""
    return "+".join("".join(rng.choices(digits, k=length)) for _ in range(2))


def in_order(question: str) -> str:
    """Return the letters in the order of the alphabet."""
    return "".join(sorted(question))


def add(question: str) -> str:
    """Return the sum of two numbers, with a digit more than they have.

    >>> add("27+45")
    '072'
    """
    left, right = question.split("+")
    return f"{int(left) + int(right):0{len(left) + 1}d}"


def summands(question: str) -> str:
    """Return a sum with the smaller number first: the same for 27+45 and 45+27."""
    return "+".join(sorted(question.split("+")))


TASKS = {
    task.name: task
    for task in (
        Task("copy", "the same letters again", draw_different_letters, str, key=str, most=26, from_anywhere=True),
        Task("reverse", "the letters backwards", draw_letters, lambda question: question[::-1], key=str),
        Task(
            "sort",
            "the letters, which are all different, in the order of the alphabet",
            draw_different_letters,
            in_order,
            key=in_order,
            most=26,
            training={"steps": 1600},
        ),
        Task(
            "add",
            "the sum of two numbers",
            draw_sum,
            add,
            key=summands,
            letters="0123456789",
            signs="+=",
            length=2,
            training={"steps": 1500, "batch_size": 128, "matrix_rate": 0.02},
        ),
    )
}

MODEL: dict[str, Any] = {"n_layers": 2, "n_heads": 2, "d_model": 64}
TRAINING: dict[str, Any] = {
    "steps": 2000,
    "batch_size": 64,
    "learning_rate": 3e-3,
    "matrix_rate": 0.01,
    "evaluate_every": 250,
}


@dataclass(frozen=True)
class Marks:
    """Some questions, and what a model answered."""

    task: Task
    questions: Sequence[str]
    given: Sequence[str]

    @property
    def right(self) -> list[str]:
        """The questions that were answered exactly right."""
        return [q for q, given in zip(self.questions, self.given, strict=True) if given == self.task.answer(q)]

    def __str__(self) -> str:
        """How many are right, and some answers: wrong ones first, to learn from, then right ones."""
        right, n = set(self.right), len(self.questions)
        lines = [f"{len(right):,} of {n:,} held-out questions answered exactly right ({len(right) / n:.2%})"]
        answered = list(zip(self.questions, self.given, strict=True))
        wrong = [(question, given) for question, given in answered if question not in right]
        others = [(question, given) for question, given in answered if question in right]
        for question, given in (wrong[: SHOWN - min(len(others), SHOWN // 2)] + others)[:SHOWN]:
            verdict = "right" if question in right else f"wrong: it is {self.task.answer(question)}"
            lines.append(f"    {self.task.prompt(question)}{given}   {verdict}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Questions:
    """What a run learns a task from, and is measured by: questions of a task, of up to ``length`` letters.

    Raises:
        ValueError: there are no questions of that length.
    """

    task: Task
    length: int

    def __post_init__(self) -> None:
        if not 1 <= self.length <= self.task.most:
            raise ValueError(f"the length must be from 1 to {self.task.most}, not {self.length}")

    @classmethod
    def of_run(cls, checkpoint: Checkpoint) -> Questions | None:
        """Return what the run of a checkpoint learned from; None if it was a text.

        Raises:
            CheckpointError: it was no task that there is.
        """
        name, length = checkpoint.training.get("task"), checkpoint.training.get("length")
        if name is None:
            return None
        if not isinstance(name, str) or name not in TASKS or not isinstance(length, int):
            raise CheckpointError(f"the run learned a task that this program does not know: {name!r:.40}")
        questions = cls(TASKS[name], length)
        if checkpoint.tokenizer.to_dict() != questions.tokenizer.to_dict():
            raise CheckpointError(f"the run's tokenizer has other characters than the task {name}")
        return questions

    def identity(self) -> dict[str, Any]:
        """Return what a checkpoint has to say for :meth:`of_run`."""
        return {"task": self.task.name, "length": self.length}

    @cached_property
    def tokenizer(self) -> CharTokenizer:
        """The tokenizer of all the characters that occur."""
        return CharTokenizer(self.task.letters + self.task.signs + END)

    @property
    def characters_per_token(self) -> float:
        """Each character is a token."""
        return 1.0

    @cached_property
    def context(self) -> int:
        """How many tokens the model has to see: all but the full stop."""
        part = self.task.letters[0] * self.length
        question = self.task.signs[0].join([part] * len(self.task.signs))
        return len(self.task.text(question)) - 1

    def config(self) -> Config:
        """Return the shape of a model for these questions: 0.1 M parameters."""
        return Config(self.tokenizer.vocab_size, context=self.context, **MODEL)

    def draw(self, rng: random.Random, held_out: bool) -> Iterator[str]:
        """Yield random questions without end: held-out ones, or others."""
        while True:
            question = self.task.draw(rng, self.task.letters, self.length)
            if self.task.is_held_out(question) == held_out:
                yield question

    @cached_property
    def held_out(self) -> list[str]:
        """Different held-out questions, always the same ones: 2,000, or about as many as there are."""
        found: dict[str, None] = {}
        repeated = 0  # since the last new one
        for question in self.draw(random.Random(0), held_out=True):
            repeated = repeated + 1 if question in found else 0
            found[question] = None
            if len(found) == ASKED or repeated > 10 * len(found):
                break
        return list(found)

    @property
    def example(self) -> str:
        """A held-out question, one of the longest."""
        return max(self.held_out, key=len)

    def encode(self, exercises: Sequence[tuple[str, str]]) -> Batch:
        """Return prompts and answers as ids (B, T) and targets (B, T), of which only the answers count."""
        texts = [f"{prompt}{answer}{END}" for prompt, answer in exercises]
        longest = max(map(len, texts))
        padded = "".join([text.ljust(longest, END) for text in texts])  # nothing that counts sees the padding
        (ids,) = self.tokenizer.encode_blocks([padded])
        ids = ids.long().view(len(texts), longest)
        starts = mg.tensor([[len(prompt)] for prompt, _ in exercises])  # (B, 1)   of the answer
        ends = mg.tensor([[len(text)] for text in texts])  # (B, 1)
        places = mg.arange(1, longest)  # of the targets
        counts = (places >= starts) & (places < ends)  # (B, T)
        return ids[:, :-1], ids[:, 1:].masked_fill(~counts, IGNORED)

    def batch(self, batch_size: int, context: int) -> Batch:
        """Return random exercises to learn from, drawn by the current random generator."""
        rng = random.Random(mg.randint(2**62, (1,)).item())
        questions = self.draw(rng, held_out=False)
        return self.encode([self.task.exercise(rng, next(questions)) for _ in range(batch_size)])

    def mark(self, model: Transformer, questions: Sequence[str] | None = None) -> Marks:
        """Return a model's answers to some questions, or to all held-out ones, beside the right ones."""
        asked = self.held_out if questions is None else questions
        return Marks(self.task, asked, self.answers(model, asked))

    def sample(self, model: Transformer, seed: int) -> str:
        """Return how well a model answers some of the held-out questions, in words and examples."""
        return str(self.mark(model, self.held_out[:LOOKED_AT]))

    def answers(self, model: Transformer, questions: Sequence[str]) -> list[str]:
        """Return what a model answers, up to the full stop: always its likeliest character."""
        given: list[str] = []
        for i in range(0, len(questions), AT_ONCE):
            some = questions[i : i + AT_ONCE]
            n_tokens = max(len(self.task.answer(question)) for question in some) + 1
            prompts = [self.task.prompt(question) for question in some]
            pieces = generate(model, self.tokenizer, prompts, n_tokens, temperature=0, stop=END)
            given += ["".join(of_one) for of_one in zip(*pieces, strict=True)]
        return given

    def score(self, model: Transformer, limit: int | None = None, threads: int = 1) -> Score:
        """Return the loss of the answers to the held-out questions, in nats per character.

        They are few: all are asked, whatever the ``limit``, and in this thread.
        """
        model.eval()
        nats: list[float] = []
        for i in range(0, len(self.held_out), AT_ONCE):
            asked = self.held_out[i : i + AT_ONCE]
            ids, targets = self.encode([(self.task.prompt(q), self.task.answer(q)) for q in asked])
            with mg.no_grad():
                logits = model(ids)  # (B, T, V)
            losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")  # (B · T,)
            nats += losses.double().view(*ids.shape).sum(1).tolist()
        characters = [len(self.task.answer(question)) + 1 for question in self.held_out]
        return Score(sum(nats), sum(characters), sum(characters), nats, characters)
