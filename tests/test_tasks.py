"""Tasks with a right answer: the questions, what is held out, what counts for the loss, and learning them."""

import contextlib
import dataclasses
import io
import itertools
import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import minigrad as mg
from transformer import Config, Recipe, Trainer, Transformer, load_checkpoint, save_checkpoint, tasks
from transformer.__main__ import main
from transformer.induction import induction_scores, without_heads
from transformer.phrases import counted
from transformer.recipe import make_optimizer
from transformer.run import Listener, Run, Stopped
from transformer.tasks import TASKS, Marks, Questions, draw_sum
from transformer.training import IGNORED, Progress, training_steps

ALL = list(TASKS)
SMALL = {"n_layers": 2, "n_heads": 2, "d_model": 32}


def drawn(questions: Questions, n: int, seed: int = 1, held_out: bool = False) -> list[str]:
    """Return n random questions."""
    return list(itertools.islice(questions.draw(random.Random(seed), held_out), n))


def small_model(questions: Questions, seed: int = 1) -> Transformer:
    """Return an untrained model of 26,000 parameters."""
    mg.manual_seed(seed)
    return Transformer(Config(questions.tokenizer.vocab_size, context=questions.context, **SMALL))


# --- questions and answers


@pytest.mark.parametrize(
    ("name", "question", "text"),
    [
        ("copy", "hello", "hello>hello."),
        ("reverse", "hello", "hello>olleh."),
        ("sort", "hello", "hello>ehllo."),
        ("add", "07+05", "07+05=012."),
        ("add", "99+99", "99+99=198."),
        ("add", "00+00", "00+00=000."),
        ("add", "1+9", "1+9=10."),
    ],
)
def test_the_right_answer(name: str, question: str, text: str) -> None:
    assert TASKS[name].text(question) == text
    assert set(text) <= set(Questions(TASKS[name], 5).tokenizer.characters)


@pytest.mark.parametrize("name", ALL)
def test_what_is_learned_from_is_never_held_out(name: str) -> None:
    length = 1 if name == "add" else 2
    questions = Questions(TASKS[name], length)
    learned = set()
    mg.manual_seed(3)
    for _ in range(10):
        ids, _ = questions.batch(200, questions.context)
        texts = map(questions.tokenizer.decode, ids.tolist())
        learned |= {re.split("[>=]", text)[0] for text in texts}
    assert len(learned) > 80
    assert not learned & set(questions.held_out)
    assert len(set(questions.held_out)) == len(questions.held_out) > 10
    assert questions.held_out == Questions(TASKS[name], length).held_out


def test_questions_that_say_the_same_are_held_out_together() -> None:
    add, sort = TASKS["add"], TASKS["sort"]
    sums = [f"{left:02d}+{right:02d}" for left in range(100) for right in range(100)]
    assert all(add.is_held_out(f"{a}+{b}") == add.is_held_out(f"{b}+{a}") for a, b in (s.split("+") for s in sums))
    assert 0.09 < sum(map(add.is_held_out, sums)) / len(sums) < 0.11
    assert len({sort.is_held_out("".join(letters)) for letters in itertools.permutations("bcde")}) == 1


def test_all_that_is_held_out_is_asked() -> None:
    sums = {f"{left}+{right}" for left in range(10) for right in range(10)}
    assert set(Questions(TASKS["add"], 1).held_out) == set(filter(TASKS["add"].is_held_out, sums))


@pytest.mark.parametrize("name", ["copy", "sort"])
def test_letters_to_copy_or_sort_are_all_different(name: str) -> None:
    questions = drawn(Questions(TASKS[name], 26), 300)
    assert all(len(set(question)) == len(question) for question in questions)
    assert {len(question) for question in questions} == set(range(1, 27))


def test_only_the_answer_counts_for_the_loss() -> None:
    questions = Questions(TASKS["reverse"], 3)
    tokenizer = questions.tokenizer
    ids, targets = questions.encode([("abc>", "cba"), ("x>", "x")])
    assert ids.shape == targets.shape == (2, 7)
    assert tokenizer.decode(ids[0].tolist()) == "abc>cba"
    assert targets[0].tolist() == [IGNORED] * 3 + tokenizer.encode("cba.")
    assert tokenizer.decode(ids[1, :3].tolist()) == "x>x"
    assert targets[1].tolist() == [IGNORED, *tokenizer.encode("x."), *[IGNORED] * 4]


def test_half_of_the_copies_go_on_from_a_random_letter() -> None:
    copy, rng = TASKS["copy"], random.Random(1)
    exercises = [copy.exercise(rng, "abcd") for _ in range(2000)]
    whole = exercises.count(("abcd>", "abcd"))
    assert 900 < whole < 1100
    for given, answer in (("a", "bcd"), ("b", "cd"), ("c", "d"), ("d", "")):
        assert 200 < exercises.count((f"abcd>{given}", answer)) < 300
    assert {TASKS["reverse"].exercise(rng, "abc") for _ in range(20)} == {("abc>", "cba")}


@pytest.mark.parametrize("name", ALL)
def test_the_longest_question_just_fits_into_the_context(name: str) -> None:
    questions = Questions(TASKS[name], 7)
    exercises = [
        (TASKS[name].prompt(question), TASKS[name].answer(question)) for question in drawn(questions, 100)
    ]
    ids, _ = questions.encode(exercises)
    assert ids.shape[1] == questions.context == questions.config().context


def test_marks_show_wrong_answers_first() -> None:
    marks = Marks(TASKS["reverse"], ["ab", "cd", "ef", "gh"], ["ba", "cd", "fe", "h"])
    assert marks.right == ["ab", "ef"]
    assert str(marks).splitlines() == [
        "2 of 4 held-out questions answered exactly right (50.00%)",
        "    cd>cd   wrong: it is dc",
        "    gh>h   wrong: it is hg",
        "    ab>ba   right",
        "    ef>fe   right",
    ]


# --- learning


@pytest.mark.parametrize(("threads", "at_once"), [(1, 0), (2, 0), (1, 1), (2, 2)])
def test_a_shared_out_batch_has_the_loss_and_gradient_of_the_whole(threads: int, at_once: int) -> None:
    """Sequences whose answers differ in length count by their answers, whoever works on them."""
    questions = Questions(TASKS["reverse"], 7)
    model = small_model(questions)
    asked = ["abcdefg", "a", "ab", "b", "c", "abcde"]
    ids, targets = questions.encode([(f"{question}>", question[::-1]) for question in asked])
    expected = model.loss(ids, targets)
    gradients = mg.autograd.grad(expected, list(model.parameters()))
    trainer = Trainer(model, make_optimizer(model, Recipe()), threads, sequences_at_once=at_once)
    trainer.tokens_per_thread = 1
    loss, shared = trainer.differentiate(ids, targets)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for one, other in zip(gradients, shared, strict=True):
        assert mg.allclose(one, other, rtol=1e-3, atol=1e-6)


def reduced(name: str, length: int) -> Questions:
    """Return questions of few letters, or sums of few digits."""
    if name == "add":
        return Questions(
            dataclasses.replace(TASKS["add"], draw=lambda rng, _, n: draw_sum(rng, "05678", n)), length
        )
    letters = "abcdefgh" if name == "sort" else "abcdef"
    return Questions(dataclasses.replace(TASKS[name], letters=letters), length)


@pytest.mark.parametrize(("name", "length", "steps"), [("reverse", 3, 250), ("sort", 4, 250), ("add", 2, 500)])
def test_a_task_is_learned_until_every_answer_is_right(name: str, length: int, steps: int) -> None:
    questions = reduced(name, length)
    model = small_model(questions)
    recipe = Recipe(steps=steps, matrix_rate=0.01, threads=1)
    for _ in training_steps(model, lambda: questions.batch(64, questions.context), recipe):
        pass
    marks = questions.mark(model)
    assert len(marks.questions) > 15
    assert marks.right == list(marks.questions)
    assert questions.score(model).nats_per_character < 0.03


def test_the_score_is_the_loss_of_the_held_out_answers() -> None:
    questions = reduced("copy", 3)
    model = small_model(questions)
    nats = 0.0
    for question in questions.held_out:
        text = questions.tokenizer.encode(questions.task.text(question))
        logits = model(mg.tensor([text[:-1]]))[0].log_softmax(-1)
        nats -= sum(logits[place - 1, text[place]].item() for place in range(len(question) + 1, len(text)))
    characters = sum(len(question) + 1 for question in questions.held_out)
    score = questions.score(model)
    assert score.nats == pytest.approx(nats, rel=1e-5)
    assert (score.characters, score.bytes) == (characters, characters)


def test_an_answer_ends_at_the_full_stop_and_is_wrong_without_one() -> None:
    """A model that always says "a" never ends its answer, which is therefore longer than the right one."""
    questions = Questions(TASKS["copy"], 3)
    model = small_model(questions)
    with mg.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    marks = questions.mark(model, ["a", "ab"])
    assert marks.given == ["aaa", "aaa"]
    assert not marks.right


# --- induction heads


def test_the_induction_score_is_the_weight_on_the_letter_after_the_same_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A head that looks there has the score 1, whatever the order; one that looks 4 places back has about 1/4."""
    questions = Questions(TASKS["copy"], 4)
    asked = ["".join(letters) for letters in itertools.permutations("abcd")]
    model = small_model(questions)

    def run_with_cache(ids: mg.Tensor) -> tuple[None, dict[str, mg.Tensor]]:
        B, T = ids.shape
        assert (B, T) == (24, 9)
        pattern = mg.zeros(B, 2, T, T)
        for row, text in enumerate(ids.tolist()):
            assert sorted(text[:4]) == sorted(text[5:])
            for place in range(5, 9):
                pattern[row, 0, place, text.index(text[place]) + 1] = 1.0
                pattern[row, 1, place, place - 4] = 1.0
        return None, {"blocks.0.attention.pattern": pattern, "blocks.1.attention.pattern": pattern / 2}

    monkeypatch.setattr(model, "run_with_cache", run_with_cache)
    scores = induction_scores(questions, model, [*asked, "x"])
    assert scores.shape == (2, 2)
    assert scores[:, 0].tolist() == [1.0, 0.5]
    assert 0.1 < scores[0, 1].item() < 0.4
    with pytest.raises(ValueError, match="two letters or more"):
        induction_scores(questions, model, ["x"])


def test_a_head_left_out_says_nothing_and_comes_back() -> None:
    model = small_model(Questions(TASKS["copy"], 4))
    ids = mg.tensor([[0, 1, 2, 3]])
    before = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    with mg.no_grad():
        _, cache = model.run_with_cache(ids)
        z = cache["blocks.1.attention.z"].clone()  # (1, H, T, d_k)
        z[:, 1] = 0.0
        expected = model.blocks[1].attention.W_O(z.transpose(1, 2).reshape(1, 4, 32))
        with without_heads(model, [(1, 1)]):
            _, cache = model.run_with_cache(ids)
    assert mg.allclose(cache["blocks.1.attention.out"], expected, atol=1e-6)
    assert all(weight.equal(before[name]) for name, weight in model.state_dict().items())


# --- the command


def few_letters(patch: pytest.MonkeyPatch) -> None:
    """Have `copy` use eight letters and a small model, which takes seconds."""
    patch.setattr(tasks, "MODEL", SMALL)
    patch.setitem(TASKS, "copy", dataclasses.replace(TASKS["copy"], letters="abcdefgh"))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A run that learned to copy up to four letters, and what its command printed; its letters stay as few."""
    out, printed = tmp_path_factory.mktemp("tasks") / "copy", io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        few_letters(patch)
        options = "--length 4 --steps 300 --learning-rate 0.005 --matrix-rate 0.02 --threads 1"
        with contextlib.redirect_stdout(printed):
            assert main(["task", "copy", *options.split(), "--out", str(out)]) == 0
        yield out, printed.getvalue()


def test_the_command_tells_the_right_answers_and_the_induction_head(copied: tuple[Path, str]) -> None:
    out, printed = copied
    assert re.search(r"^task +copy: the same letters again, as ([a-h]{4})>\1\.$", printed, re.M)
    assert "of 1 to 4 letters; one in ten is held out" in printed
    held_out = len(Questions(TASKS["copy"], 4).held_out)
    assert f"{held_out} of {held_out} held-out questions answered exactly right (100.00%)" in printed
    assert len(re.findall(r"^    ([a-h]+)>\1   right$", printed.split("trained in")[1], re.M)) == 4
    scores = re.findall(r"^    layer \d   (\d\.\d\d)   (\d\.\d\d)$", printed, re.M)
    assert max(map(float, scores[0])) < 0.5
    assert max(map(float, scores[1])) > 0.8
    head = 1 + int(float(scores[1][1]) > float(scores[1][0]))
    found = re.search(
        rf"^layer 2, head {head}: (\S+), an induction head; without .*, (\d+) of \d+ answers", printed, re.M
    )
    assert found is not None
    assert found[1] == scores[1][head - 1]
    assert int(found[2]) < held_out
    assert f"wrote {out}: best.safetensors, last.safetensors, log.jsonl" in printed


def test_a_run_of_a_task_is_a_run(copied: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    """What its last lines advise works, and so do the other commands, where they make sense."""
    out, printed = copied
    generate, explain = re.search(r"^next: transformer (.*)\n +transformer (.*)$", printed, re.M).groups()  # type: ignore[union-attr]
    assert main(shlex.split(generate)) == 0
    example = Questions(TASKS["copy"], 4).example
    assert capsys.readouterr().out == f"{example}>{example}\n"
    assert main([*shlex.split(explain), "--json", str(out / "page.json")]) == 0
    assert (out / "explain.html").is_file()
    assert f"{example}>{example}" in (out / "page.json").read_text(encoding="utf-8")
    assert main(["explain", "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["evaluate", "--out", str(out)]) == 0
    measured = capsys.readouterr().out.split("\n", 1)[1]
    assert "exactly right (100.00%)" in measured
    assert measured in printed
    for wrong in (["evaluate", "--tokens", "100"], ["evaluate", "--text", __file__]):
        assert main([*wrong, "--out", str(out)]) == 2
        assert "the run learned the task copy and is measured by its held-out questions" in capsys.readouterr().err
    assert main(["train", "--resume", str(out)]) == 2
    assert "has done 300 of 300 steps" in capsys.readouterr().err
    assert main(["task", "copy", "--out", str(out)]) == 2
    assert "already holds a run" in capsys.readouterr().err


class StopAt(Listener):
    """Asks to stop after some steps."""

    def __init__(self, step: int) -> None:
        self.step, self.done = step, 0

    def stepped(self, progress: Progress) -> None:
        self.done = progress.step

    def should_stop(self) -> bool:
        return self.done == self.step


def test_a_stopped_run_goes_on_to_the_same_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few_letters(monkeypatch)
    monkeypatch.setattr(tasks, "ASKED", 50)
    questions = Questions(TASKS["copy"], 4)
    recipe = Recipe(steps=12, batch_size=64, threads=2, evaluate_every=5, snapshots=2)
    for name, listener in (("whole", None), ("parts", StopAt(7))):
        with (
            Run.start(tmp_path / name, questions, questions.config(), recipe) as run,
            contextlib.suppress(Stopped),
        ):
            run.train(listener)
    assert main(["train", "--resume", str(tmp_path / "parts"), "--text", __file__]) == 2
    assert "the run learned no text, but the task 'copy'" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "parts")]) == 0
    assert "12 steps of 64 questions" in capsys.readouterr().out
    whole, parts = (load_checkpoint(tmp_path / name / "last.safetensors") for name in ("whole", "parts"))
    for one, other in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        assert one.equal(other)


def test_a_run_of_an_unknown_task_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = Questions(TASKS["copy"], 4)
    for wrong, says in (
        ({"task": "divide", "length": 4}, "'divide'"),
        ({"task": [1], "length": 4}, "[1]"),
        ({"task": "copy"}, "'copy'"),
        ({"task": "add", "length": 2}, "other characters than the task add"),
        ({"task": "copy", "length": 10**9}, "from 1 to 26"),
    ):
        save_checkpoint(tmp_path / "best.safetensors", small_model(questions), questions.tokenizer, wrong)
        for command in ("evaluate", "explain"):
            assert main([command, "--out", str(tmp_path)]) == 2
            (sentence,) = capsys.readouterr().err.splitlines()
            assert says in sentence


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["copi"], "copi"),
        (["copy", "--length", "27"], "the length must be from 1 to 26, not 27"),
        (["reverse", "--length", "0"], "the length must be from 1 to 100, not 0"),
        (["sort", "--steps", "0"], "steps must be at least 1"),
        (["sort", "--stepz", "0"], "unknown option --stepz: did you mean --steps?"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["task", *arguments])
    except SystemExit as stopped:
        code = stopped.code  # type: ignore[assignment]
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_one_of_something_is_singular() -> None:
    assert [counted(n, "step") for n in (0, 1, 2, 2500)] == ["0 steps", "1 step", "2 steps", "2,500 steps"]
