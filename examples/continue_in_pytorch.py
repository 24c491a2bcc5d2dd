"""Go on with a run in PyTorch, where minigrad left it: in one process, or in several with DistributedDataParallel.

    python examples/continue_in_pytorch.py runs/1 --steps 50
    torchrun --nproc-per-node 2 examples/continue_in_pytorch.py runs/1 --steps 50

The model is the very source of `transformer`, with torch imported in minigrad's place.  Carried over are its
weights, what the optimizer remembers of each, the learning rate's schedule, the rest of the recipe, and the random
numbers that choose the batches.  Not carried over are the random numbers of dropout (each engine has its own), and
the recipe's `threads` and `sequences_at_once`: each process takes its share of a batch through the model at once.

At the end the run is written to another directory, from which `transformer generate`, `evaluate` and
`train --resume` go on in minigrad; the run itself stays as it is.  With a GPU, PyTorch computes there.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import sys
from contextlib import nullcontext
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("this needs PyTorch: pip install minigrad[torch]")
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

import minigrad as mg
from transformer import load_checkpoint, save_checkpoint
from transformer.corpus import Corpus
from transformer.data import random_batch
from transformer.directory import RunDirectory
from transformer.engine import model_on
from transformer.evaluation import windows_to_score
from transformer.run import EVALUATED_TOKENS
from transformer.state import gather_state, training_state
from transformer.text import Text, text_of_run

RANK, WORLD, LOCAL_RANK = (
    int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0))
)  # which of how many processes this is: torchrun says it
ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda", LOCAL_RANK) if ON_GPU else torch.device("cpu")


def main(argv=None):
    parser = argparse.ArgumentParser(description="Go on with a run in PyTorch.")
    parser.add_argument("run", type=Path, metavar="RUN", help="the directory of the run")
    parser.add_argument("--steps", type=int, required=True, metavar="INT", help="steps to take")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write the run (default: RUN-pytorch)")
    parser.add_argument(
        "--text", type=Path, nargs="+", metavar="FILE", help="the run's text, if it is elsewhere now"
    )
    arguments = parser.parse_args(argv)
    try:
        taken_up = take_up(arguments)  # each process for itself, and if there is something wrong, each sees it
        if WORLD > 1:
            dist.init_process_group("nccl" if ON_GPU else "gloo")
        go_on(*taken_up)
    except (ValueError, OSError) as error:  # what a user can get wrong, in a sentence
        if RANK == 0:
            print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return 0


def take_up(arguments):
    """Return the number of the last step, where to write, the run's text, its checkpoint and its training's state.

    Raises:
        ValueError: the run can't be gone on with, or not so.
    """
    if arguments.steps < 1:
        raise ValueError(f"--steps must be at least 1, not {arguments.steps}")
    out = RunDirectory(arguments.out or arguments.run.with_name(f"{arguments.run.name}-pytorch"))
    out.check_unused()
    last = RunDirectory(arguments.run).last
    checkpoint = load_checkpoint(last)
    recipe, progress, *state = training_state(checkpoint, last)
    if recipe.batch_size % WORLD:
        raise ValueError(f"{WORLD} processes can't share {recipe.batch_size} sequences evenly: choose a divisor")
    corpus = text_of_run(checkpoint.training, Corpus.read(arguments.text) if arguments.text else None)
    text = Text.encode(corpus, checkpoint.tokenizer, checkpoint.config.context)
    end = progress.step + arguments.steps
    recipe = dataclasses.replace(recipe, steps=max(recipe.steps, end))  # a longer run's rates fall later
    return end, out, text, checkpoint, recipe, progress, *state


def go_on(end, out, text, checkpoint, recipe, progress, optimizer, generator):
    """Take the steps up to ``end``, report, and write the run."""
    model = model_on("torch").Transformer(checkpoint.config)
    model.load_state_dict({name: to_torch(tensor) for name, tensor in checkpoint.model.state_dict().items()})
    model.to(DEVICE)
    with out.create() if RANK == 0 else nullcontext():
        if RANK == 0:
            loss = text.score(checkpoint.model, EVALUATED_TOKENS, recipe.threads).nats_per_character
            say(f"held-out loss after step {progress.step:,}, by minigrad {loss:.6f} nats/char")
        shares = f"{WORLD} processes, {recipe.batch_size // WORLD} sequences of a batch each"
        say(f"PyTorch {torch.__version__} on {DEVICE.type}: {shares if WORLD > 1 else '1 process'}")
        say(f"held-out loss after step {progress.step:,}, by PyTorch {held_out_loss(model, text):.6f} nats/char")
        optimizers = optimizers_on_torch(model, checkpoint.model, optimizer)
        progress = train(model, optimizers, text, recipe, progress, generator, end)
        after = held_out_loss(model, text)
        say(f"held-out loss after step {progress.step:,}, by PyTorch {after:.6f} nats/char")
        if RANK == 0:
            bring_back(model, optimizers, checkpoint.model, optimizer)
            known = {name: checkpoint.training[name] for name in ("source", "text_sha256")}
            state = gather_state(recipe, progress, optimizer, generator, after)
            state = known | {"step": progress.step} | state
            save_checkpoint(out.last, checkpoint.model, checkpoint.tokenizer, state)
            say(f"wrote {out.last}\nnext: transformer evaluate --out {out.path}")


def train(model, optimizers, text, recipe, progress, generator, end):
    """Take steps up to ``end``, as `transformer.training` does; return the report of the last."""
    torch.manual_seed(recipe.seed + RANK)  # for dropout, of which each process has its own
    model.train()
    parallel = nn.parallel.DistributedDataParallel(model) if WORLD > 1 else model  # adds up the gradients
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(part, recipe.rate, last_epoch=progress.step - 1) for part in optimizers
    ]
    smooth, context = progress.smooth_loss, model.config.context
    with tqdm(total=end - progress.step, unit="step", disable=RANK > 0) as bar:
        for step in range(progress.step + 1, end + 1):
            batch = random_batch(
                text.train_ids, recipe.batch_size, context, generator
            )  # the same in every process
            ids, targets = (to_torch(part[RANK::WORLD]).to(DEVICE) for part in batch)  # (B / WORLD, T) of it
            logits = parallel(ids)  # (B / WORLD, T, V)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=recipe.label_smoothing)
            rate = schedules[0].get_last_lr()[0]
            for part in optimizers:
                part.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm or math.inf).item()
            mean_loss = total(loss.detach() / WORLD).item()
            if not (math.isfinite(mean_loss) and math.isfinite(norm)):
                raise ValueError(f"the loss or its gradient became infinite or NaN at step {step}")
            for part, schedule in zip(optimizers, schedules, strict=True):
                part.step()
                schedule.step()
            smooth = mean_loss if math.isnan(smooth) else smooth + 0.05 * (mean_loss - smooth)
            bar.set_postfix_str(f"step {step}, loss {mean_loss:.4f}, running mean {smooth:.4f}", refresh=False)
            bar.update()
    tokens = progress.tokens + (end - progress.step) * recipe.batch_size * context
    return type(progress)(
        end, mean_loss, smooth, rate, norm, tokens, progress.seconds + bar.format_dict["elapsed"]
    )


@torch.no_grad()
def held_out_loss(model, text):
    """Return the loss on held-out text in nats per character, over the windows that minigrad takes."""
    model.eval()
    context, held_out = model.config.context, text.held_out_ids[:EVALUATED_TOKENS]
    ids = to_torch(mg.cat([text.train_ids[-context:], held_out]))
    context = min(context, len(ids) - 1)
    nats = torch.zeros((), dtype=torch.float64, device=DEVICE)
    windows = torch.tensor(windows_to_score(len(ids), len(held_out), context))  # (W, 2): start, how many count
    for part in windows[RANK::WORLD].split(32):
        starts, counts = part.unsqueeze(2).unbind(1)  # (B, 1)
        tokens = ids[starts + torch.arange(context + 1)].long().to(DEVICE)  # (B, T + 1)
        losses = F.cross_entropy(model(tokens[:, :-1]).mT, tokens[:, 1:], reduction="none")  # (B, T)
        counted = torch.arange(context) >= context - counts  # (B, T)
        nats += losses[counted.to(DEVICE)].double().sum()
    return total(nats).item() / len(text.measured(EVALUATED_TOKENS))


def optimizers_on_torch(model, model_before, optimizer_before):
    """Return PyTorch's optimizers of the same names, options and memories as minigrad's of the same model."""
    twins = twins_of(model, model_before)
    optimizers = []
    for part in parts(optimizer_before):
        name = type(part).__name__
        if not hasattr(torch.optim, name):
            raise ValueError(f"this PyTorch has no {name}: Muon came with version 2.9 (pip install -U torch)")
        groups = [
            {**group, "params": [twins[parameter] for parameter in group["params"]]} for group in part.param_groups
        ]
        optimizers.append(getattr(torch.optim, name)(groups))
        for parameter, known in part.state.items():
            optimizers[-1].state[twins[parameter]] = {
                key: to_torch(value).to(DEVICE) if isinstance(value, mg.Tensor) else torch.tensor(float(value))
                for key, value in known.items()
            }
    return optimizers


def bring_back(model, optimizers, model_before, optimizer_before):
    """Give minigrad's model and optimizer what those of PyTorch have learned."""
    model_before.load_state_dict({name: to_minigrad(tensor) for name, tensor in model.state_dict().items()})
    twins = twins_of(model, model_before)
    for part, optimizer in zip(parts(optimizer_before), optimizers, strict=True):
        for parameter in (parameter for group in part.param_groups for parameter in group["params"]):
            part.state[parameter] = {
                key: to_minigrad(value) if value.ndim else int(value.item())  # "step" is a number there
                for key, value in optimizer.state[twins[parameter]].items()
            }


def twins_of(model, model_before):
    """Return for each parameter of minigrad's model that of PyTorch's with the same name."""
    twins = dict(model.named_parameters())
    return {parameter: twins[name] for name, parameter in model_before.named_parameters()}


def parts(optimizer):
    """Return the optimizers that one of minigrad's consists of."""
    return optimizer.optimizers if isinstance(optimizer, mg.optim.Several) else [optimizer]


def to_torch(tensor):
    """Return a tensor of minigrad as one of PyTorch, of its own memory."""
    return torch.tensor(tensor.detach().numpy())


def to_minigrad(tensor):
    """Return a tensor of PyTorch as one of minigrad, of its own memory."""
    return mg.tensor(tensor.detach().cpu().numpy())


def total(tensor):
    """Return the sum of a tensor over all processes."""
    if WORLD > 1:
        dist.all_reduce(tensor)
    return tensor


def say(sentence):
    """Print, once."""
    if RANK == 0:
        print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
