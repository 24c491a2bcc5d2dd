# %% [markdown]
# # 11. Your own text
#
# **What does a model know about a text after ten steps, after a hundred, after a thousand?**
#
# The package `transformer` is the network of lesson 9, exactly as in "Attention Is All You Need", with what one
# needs around it: tokenizers, training on all processors, checkpoints, fast generation. Put the name of a text
# file of yours here: a novel, your diary, all your programs; 200 kB or more. If the list is empty, it learns
# Python's own reference text.

# %%
import math

import minigrad as mg
from transformer import CharTokenizer, Config, Recipe, Transformer, generate
from transformer.data import default_corpus, read_text, split_text
from transformer.training import training_steps

files = []  # for example ["novel.txt"]

text = read_text(files) if files else default_corpus()
tokenizer = CharTokenizer.train(text)
train_text, held_out_text = split_text(text)
print(f"{len(text):,} characters, {tokenizer.vocab_size} different ones, {len(held_out_text):,} of them held out")

# %% [markdown]
# ## The model
#
# Two layers, two heads, vectors of 32 numbers: small enough to learn while you watch.

# %%
mg.manual_seed(1)
CONTEXT = 32
model = Transformer(Config.preset("micro", vocab_size=tokenizer.vocab_size, context=CONTEXT))
recipe = Recipe.preset("micro", steps=1000)
print(model.summary())

# %% [markdown]
# ## Learning, with samples
#
# Now and then it is asked to write what it would expect after an empty line, and its loss on the held-out text
# is measured. Watch in which order things come.

# %%
train_ids = mg.tensor(tokenizer.encode(train_text))
held_out_ids = mg.tensor(tokenizer.encode(held_out_text))
n_windows = (len(held_out_ids) - 1) // CONTEXT
inputs = held_out_ids[: n_windows * CONTEXT].reshape(n_windows, CONTEXT)  # (W, T)
targets = held_out_ids[1 : n_windows * CONTEXT + 1].reshape(n_windows, CONTEXT)  # (W, T): the same, one later


def report(step):
    with mg.no_grad():
        loss = model.loss(inputs[::4], targets[::4]).item()  # a quarter is enough for a look
    sample = "".join(generate(model, tokenizer, n_tokens=150, seed=1))
    print(f"--- step {step}: {loss:.3f} nats per character on text it has not seen")
    print(" ".join(sample.split()))
    return loss


losses = [report(0)]
for progress in training_steps(model, train_ids, recipe):
    if progress.step in (10, 100, 300, 1000):
        losses.append(report(progress.step))
assert losses == sorted(losses, reverse=True), "each look finds it better than the last"

# %% [markdown]
# First comes which characters are frequent, and how long a word is (step 100); then the shortest words, and the
# parts of long ones (step 300); then whole words, endings, and the punctuation of the place. Sense would come
# last, and needs a larger model.
#
# ## The surprise: a word costs its first letter
#
# Where does it still go wrong? Give it lines it has not seen, and write under each character how many bits of
# surprise it was: 0 for "of course", 1 for a coin flip, 9 for "never". (Each line starts cold: the model has
# not seen what stood before it.)

# %%
with mg.no_grad():
    log_probabilities = model(inputs).log_softmax(-1)  # (W, T, V)
nats = -log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (W, T)

first = n_windows // 3
for window in range(first, first + 4):
    bits = (nats[window] / math.log(2)).round().clamp(0, 9).tolist()
    print("   ", tokenizer.decode(targets[window].tolist()).replace("\n", " "))
    print("   ", "".join(f"{bit:.0f}" for bit in bits))

# Sort all held-out characters by their place in the word.
characters = tokenizer.decode(targets.flatten().tolist())
by_place = {}
place = 0
for character, cost in zip(characters, nats.flatten().tolist(), strict=True):
    place = place + 1 if character.isalpha() else 0
    by_place.setdefault(min(place, 7), []).append(cost)

print("place in the word   mean surprise in nats")
mean_at = {place: sum(costs) / len(costs) for place, costs in sorted(by_place.items())}
for place, mean in mean_at.items():
    name = {0: "not in a word", 1: "first letter", 7: "seventh or later"}.get(place, f"letter {place}")
    print(f"{name:17} {mean:6.2f}  " + "#" * round(10 * mean))
assert all(mean_at[1] > 1.3 * mean_at[place] for place in range(2, 8)), "the first letter is the expensive one"

# %% [markdown]
# A word is decided with its first letter; much of the rest is spelling. This is why real models read and write
# in pieces of words (`BPETokenizer` makes them): each piece then is a decision.
#
# ## Where it looks
#
# Every tensor in the model has a name. These are the weights of its four heads: how much, on average, goes to
# the character itself (0), to the one before (1), and so on. Do you find one that does what the head of lesson
# 8 learned?

# %%
_, cache = model.run_with_cache(inputs[:64])
print("steps back      " + "".join(f"{back:6d}" for back in range(8)))
for layer in range(2):
    pattern = cache[f"blocks.{layer}.attention.pattern"]  # (B, H, T, T)
    for head in range(2):
        looks = [pattern[:, head].diagonal(-back, 1, 2).mean().item() for back in range(8)]
        print(f"layer {layer}, head {head} " + "".join(f"{share:6.0%}" for share in looks))
assert mg.allclose(pattern.sum(-1), mg.ones(pattern.shape[:-1]), atol=1e-4)

# %% [markdown]
# ## From here
#
# In a terminal, `transformer train --text novel.txt` trains a model nearly thirty times as large in a few
# minutes, and compares it with what counting can do; `transformer generate` talks with it, and `transformer
# explain` shows all that happens inside, step by step, in a browser.
#
# ## Exercise
#
# Is a text harder to guess backwards? After the split, reverse both parts, with `[::-1]`, and compare the last
# loss. Guess first. Then look at the table of places again: which letters are expensive now?
#
# *Check:* the losses differ by less than 0.1 nats. The surprise of a whole text is the sum over its characters,
# and P(a, b) = P(a) P(b | a) = P(b) P(a | b) says that a perfect guesser pays the same in both directions. But
# it pays at other places: the last letter of a word, which now comes first, is cheaper than the first one was,
# and the letters after it are dearer.
