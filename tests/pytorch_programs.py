"""Programs as they are written for PyTorch.

Each takes ``torch``, which is PyTorch or minigrad, and returns its losses.  The idioms are those of published
code: a GPT with tied weights and parameter groups, a language model on embeddings, a recurrent network by hand,
the tutorials' polynomial in each of its forms, label smoothing with a warm-up schedule, a classifier of two moons.
Initial weights come from NumPy, the same for both engines.
"""

# ruff: noqa: C408  # dict(...) as published

import math

import numpy as np


def same_weights(torch, model, seed=0):
    """Overwrite the parameters by small normal numbers from NumPy, the same in both engines."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = rng.normal(0, 0.1, tuple(parameter.shape)).astype(np.float32)
            parameter.copy_(torch.from_numpy(drawn))


TEXT = "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs. " * 4


# --- a GPT ------------------------------------------------------------------------------------------


def gpt(torch):
    """A small GPT in the style of the well-known minimal ones: training, generation, saving and loading."""
    nn, F = torch.nn, torch.nn.functional
    device = "cpu"  # "cuda" if torch.cuda.is_available() else "cpu", where the two are not to be compared
    assert torch.cuda.is_available() in (True, False)
    block_size, n_layer, n_head, n_embd, batch_size = 16, 2, 2, 16, 4
    chars = sorted(set(TEXT))
    vocab_size = len(chars)
    stoi = {ch: i for i, ch in enumerate(chars)}
    itos = dict(enumerate(chars))
    data = torch.tensor([stoi[c] for c in TEXT], dtype=torch.long)

    class CausalSelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            assert n_embd % n_head == 0
            self.c_attn = nn.Linear(n_embd, 3 * n_embd)
            self.c_proj = nn.Linear(n_embd, n_embd)
            self.attn_dropout = nn.Dropout(0.0)
            mask = torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size)
            self.register_buffer("bias", mask)

        def forward(self, x):
            B, T, C = x.size()
            q, k, v = self.c_attn(x).split(n_embd, dim=2)
            k = k.view(B, T, n_head, C // n_head).transpose(1, 2)
            q = q.view(B, T, n_head, C // n_head).transpose(1, 2)
            v = v.view(B, T, n_head, C // n_head).transpose(1, 2)
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            att = F.softmax(att, dim=-1)
            att = self.attn_dropout(att)
            y = att @ v
            y = y.transpose(1, 2).contiguous().view(B, T, C)
            return self.c_proj(y)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1 = nn.LayerNorm(n_embd)
            self.attn = CausalSelfAttention()
            self.ln_2 = nn.LayerNorm(n_embd)
            self.mlp = nn.ModuleDict(
                dict(c_fc=nn.Linear(n_embd, 4 * n_embd), act=nn.GELU(), c_proj=nn.Linear(4 * n_embd, n_embd))
            )

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            m = self.mlp
            return x + m.c_proj(m.act(m.c_fc(self.ln_2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.transformer = nn.ModuleDict(
                dict(
                    wte=nn.Embedding(vocab_size, n_embd),
                    wpe=nn.Embedding(block_size, n_embd),
                    drop=nn.Dropout(0.0),
                    h=nn.ModuleList([Block() for _ in range(n_layer)]),
                    ln_f=nn.LayerNorm(n_embd),
                )
            )
            self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
            self.transformer.wte.weight = self.lm_head.weight
            self.apply(self._init_weights)
            for pn, p in self.named_parameters():
                if pn.endswith("c_proj.weight"):
                    torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * n_layer))

        def _init_weights(self, module):
            if isinstance(module, nn.Linear):
                torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
                if module.bias is not None:
                    torch.nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

        def forward(self, idx, targets=None):
            _, t = idx.size()
            assert t <= block_size, f"Cannot forward sequence of length {t}, block size is only {block_size}"
            pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
            x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
            for block in self.transformer.h:
                x = block(x)
            x = self.transformer.ln_f(x)
            if targets is None:
                return self.lm_head(x[:, [-1], :]), None
            logits = self.lm_head(x)
            return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

        def configure_optimizers(self, weight_decay, learning_rate, betas):
            param_dict = {pn: p for pn, p in self.named_parameters() if p.requires_grad}
            decay = [p for p in param_dict.values() if p.dim() >= 2]
            nodecay = [p for p in param_dict.values() if p.dim() < 2]
            groups = [{"params": decay, "weight_decay": weight_decay}, {"params": nodecay, "weight_decay": 0.0}]
            return torch.optim.AdamW(groups, lr=learning_rate, betas=betas)

        @torch.no_grad()
        def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
            for _ in range(max_new_tokens):
                idx_cond = idx if idx.size(1) <= block_size else idx[:, -block_size:]
                logits, _ = self(idx_cond)
                logits = logits[:, -1, :] / temperature
                if top_k is not None:
                    v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                    logits[logits < v[:, [-1]]] = -float("Inf")
                probs = F.softmax(logits, dim=-1)
                idx_next = torch.multinomial(probs, num_samples=1)
                idx = torch.cat((idx, idx_next), dim=1)
            return idx

    rng = np.random.default_rng(1)

    def get_batch():
        ix = rng.integers(0, len(data) - block_size, batch_size).tolist()
        x = torch.stack([data[i : i + block_size] for i in ix])
        y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
        y[0, :3] = -1  # not asked for
        return x.to(device), y.to(device)

    torch.manual_seed(1337)
    model = GPT().to(device)
    same_weights(torch, model)
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in set(model.parameters()))
    optimizer = model.configure_optimizers(weight_decay=0.1, learning_rate=1e-2, betas=(0.9, 0.95))
    losses = []
    model.train()
    for step in range(20):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1, (step + 1) / 5)
        _, loss = model(*get_batch())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())

    model.eval()
    out = model.generate(torch.zeros((1, 1), dtype=torch.long, device=device), 20, temperature=0.8, top_k=5)
    assert len("".join(itos[int(i)] for i in out[0].tolist())) == 21
    state = model.state_dict()
    other = GPT()
    missing, unexpected = other.load_state_dict({k: v.clone() for k, v in state.items()}, strict=True)
    assert not missing
    assert not unexpected
    x, y = get_batch()
    with torch.no_grad():
        losses += [model(x, y)[1].item(), other(x, y)[1].item()]
    assert losses[-1] == losses[-2]
    assert other.transformer.wte.weight is other.lm_head.weight
    return losses


# --- a language model of embeddings, in plain tensors -----------------------------------------------


def names(torch):
    """Characters of names from the three before: an embedding, a tanh layer with batch statistics, a softmax."""
    F = torch.nn.functional
    words = TEXT.replace(";", "").replace(".", "").split()
    chars = sorted(set("".join(words)))
    stoi = {s: i + 1 for i, s in enumerate(chars)}
    stoi["."] = 0
    vocab_size, block_size = len(stoi), 3
    X, Y = [], []
    for w in words:
        context = [0] * block_size
        for ch in w + ".":
            ix = stoi[ch]
            X.append(context)
            Y.append(ix)
            context = [*context[1:], ix]
    X, Y = torch.tensor(X), torch.tensor(Y)

    rng = np.random.default_rng(2147483647)

    def randn(*shape):
        return torch.tensor(rng.normal(size=shape), dtype=torch.float32)

    C = randn(vocab_size, 4)
    W1 = randn(block_size * 4, 30) * (5 / 3) / (block_size * 4) ** 0.5
    W2 = randn(30, vocab_size) * 0.1
    b2 = torch.zeros(vocab_size)
    bngain, bnbias = torch.ones((1, 30)), torch.zeros((1, 30))
    bnmean_running, bnstd_running = torch.zeros((1, 30)), torch.ones((1, 30))
    parameters = [C, W1, W2, b2, bngain, bnbias]
    for p in parameters:
        p.requires_grad = True

    losses = []
    for i in range(40):
        ix = torch.from_numpy(rng.integers(0, X.shape[0], (32,)))
        emb = C[X[ix]]
        embcat = emb.view(emb.shape[0], -1)
        hpreact = embcat @ W1
        bnmeani = hpreact.mean(0, keepdim=True)
        bnstdi = hpreact.std(0, keepdim=True)
        hpreact = bngain * (hpreact - bnmeani) / bnstdi + bnbias
        with torch.no_grad():
            bnmean_running = 0.999 * bnmean_running + 0.001 * bnmeani
            bnstd_running = 0.999 * bnstd_running + 0.001 * bnstdi
        h = torch.tanh(hpreact)
        logits = h @ W2 + b2
        if i % 2:
            loss = F.cross_entropy(logits, Y[ix])
        else:  # the same, by hand
            counts = (logits - logits.max(1, keepdim=True).values.detach()).exp()
            probs = counts / counts.sum(1, keepdims=True)
            loss = -probs[range(32), Y[ix]].log().mean()
        for p in parameters:
            p.grad = None
        loss.backward()
        lr = 0.1 if i < 30 else 0.01
        for p in parameters:
            p.data += -lr * p.grad
        losses.append(loss.item())
    losses += bnmean_running[0, :3].tolist()
    return losses


# --- a recurrent network by hand --------------------------------------------------------------------


def recurrent(torch):
    """A character RNN, its hidden state carried over and cut off from the graph between pieces of text."""
    nn, F = torch.nn, torch.nn.functional
    chars = sorted(set(TEXT))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in TEXT])

    class RNN(nn.Module):
        def __init__(self, n, hidden):
            super().__init__()
            self.hidden_size = hidden
            self.i2h = nn.Linear(n + hidden, hidden)
            self.h2o = nn.Linear(hidden, n)
            self.softmax = nn.LogSoftmax(dim=1)

        def forward(self, x, hidden):
            combined = torch.cat((x, hidden), 1)
            hidden = torch.tanh(self.i2h(combined))
            return self.softmax(self.h2o(hidden)), hidden

        def initHidden(self):
            return torch.zeros(1, self.hidden_size)

    model = RNN(len(chars), 24)
    same_weights(torch, model)
    criterion = nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    hidden = model.initHidden()
    losses = []
    for piece in range(20):
        hidden = hidden.detach()
        loss = 0
        for t in range(piece * 8, piece * 8 + 8):
            x = F.one_hot(data[t], num_classes=len(chars)).float().unsqueeze(0)
            output, hidden = model(x, hidden)
            loss = loss + criterion(output, data[t + 1].view(1))
        optimizer.zero_grad()
        (loss / 8).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimizer.step()
        losses.append(loss.item() / 8)
    return losses


# --- a sine fitted by a polynomial, in each of its forms --------------------------------------------


def polynomial_tensors(torch):
    """With tensors alone, the gradients by hand."""
    dtype, device = torch.float, torch.device("cpu")
    x = torch.linspace(-math.pi, math.pi, 200, device=device, dtype=dtype)
    y = torch.sin(x)
    a, b, c, d = (torch.full((), v, device=device, dtype=dtype) for v in (0.1, -0.2, 0.3, 0.1))
    losses = []
    for _ in range(50):
        y_pred = a + b * x + c * x**2 + d * x**3
        losses.append((y_pred - y).pow(2).sum().item())
        grad_y_pred = 2.0 * (y_pred - y)
        a -= 1e-5 * grad_y_pred.sum()
        b -= 1e-5 * (grad_y_pred * x).sum()
        c -= 1e-5 * (grad_y_pred * x**2).sum()
        d -= 1e-5 * (grad_y_pred * x**3).sum()
    return losses


def polynomial_autograd(torch):
    """With gradients by the engine, and updates under no_grad."""
    x = torch.linspace(-math.pi, math.pi, 200)
    y = torch.sin(x)
    weights = [torch.tensor(v, requires_grad=True) for v in (0.1, -0.2, 0.3, 0.1)]
    losses = []
    for _ in range(50):
        a, b, c, d = weights
        loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 1e-5 * w.grad
                w.grad = None
        losses.append(loss.item())
    return losses


def polynomial_function(torch):
    """With an operation of one's own: the Legendre polynomial (5x³ − 3x)/2."""

    class LegendrePolynomial3(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input):
            ctx.save_for_backward(input)
            return 0.5 * (5 * input**3 - 3 * input)

        @staticmethod
        def backward(ctx, grad_output):
            (input,) = ctx.saved_tensors
            return grad_output * 1.5 * (5 * input**2 - 1)

    x = torch.linspace(-math.pi, math.pi, 200)
    y = torch.sin(x)
    weights = [torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3)]
    losses = []
    for _ in range(50):
        P3 = LegendrePolynomial3.apply
        a, b, c, d = weights
        loss = (a + b * P3(c + d * x) - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 5e-6 * w.grad
                w.grad.zero_()
        losses.append(loss.item())
    return losses


def polynomial_nn(torch):
    """With a Sequential, a loss module and an update of all parameters; then with an optimizer."""
    x = torch.linspace(-math.pi, math.pi, 200)
    y = torch.sin(x)
    xx = x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0, 1))
    same_weights(torch, model)
    loss_fn = torch.nn.MSELoss(reduction="sum")
    losses = []
    for _ in range(30):
        loss = loss_fn(model(xx), y)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for param in model.parameters():
                param -= 1e-6 * param.grad
        losses.append(loss.item())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(30):
        loss = loss_fn(model(xx), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert model[0].weight.shape == (1, 3)
    return losses


# --- label smoothing and the schedule of the paper --------------------------------------------------


def smoothing(torch):
    """Label smoothing as a divergence from a smoothed target, with the warm-up schedule of the paper."""
    nn = torch.nn

    class LabelSmoothing(nn.Module):
        def __init__(self, size, padding_idx, smoothing=0.0):
            super().__init__()
            self.criterion = nn.KLDivLoss(reduction="sum")
            self.padding_idx = padding_idx
            self.confidence = 1.0 - smoothing
            self.smoothing = smoothing
            self.size = size

        def forward(self, x, target):
            assert x.size(1) == self.size
            true_dist = x.data.clone()
            true_dist.fill_(self.smoothing / (self.size - 2))
            true_dist.scatter_(1, target.data.unsqueeze(1), self.confidence)
            true_dist[:, self.padding_idx] = 0
            mask = torch.nonzero(target.data == self.padding_idx)
            if mask.dim() > 0:
                true_dist.index_fill_(0, mask.squeeze(1), 0.0)
            return self.criterion(x, true_dist.clone().detach())

    def rate(step, model_size, factor, warmup):
        step = max(step, 1)
        return factor * (model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5)))

    V, d_model = 11, 16
    model = nn.Sequential(
        nn.Embedding(V, d_model),
        nn.Linear(d_model, d_model),
        nn.ReLU(inplace=True),
        nn.LayerNorm(d_model),
        nn.Linear(d_model, V),
        nn.LogSoftmax(dim=-1),
    )
    same_weights(torch, model)
    for p in model.parameters():
        if p.dim() > 1:
            assert p.requires_grad
    criterion = LabelSmoothing(size=V, padding_idx=0, smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer=optimizer, lr_lambda=lambda step: rate(step, d_model, factor=1, warmup=10)
    )
    rng = np.random.default_rng(3)
    losses = []
    for _ in range(25):
        src = torch.from_numpy(rng.integers(0, V, (6, 5)))
        ntokens = (src != 0).data.sum()
        out = model(src)
        loss = criterion(out.contiguous().view(-1, out.size(-1)), src.contiguous().view(-1)) / ntokens
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        scheduler.step()
        losses.append(loss.item())
        losses.append(optimizer.param_groups[0]["lr"])
    return losses


# --- two moons --------------------------------------------------------------------------------------


def moons(torch):
    """A classifier of two interleaved half circles, with batch norm, dropout left out, and accuracy at the end."""
    nn = torch.nn
    rng = np.random.default_rng(4)
    angle = rng.uniform(0, math.pi, 100)
    upper = np.stack([np.cos(angle), np.sin(angle)], 1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], 1)
    X = torch.tensor(np.concatenate([upper, lower]) + rng.normal(0, 0.1, (200, 2)), dtype=torch.float32)
    y = torch.cat([torch.zeros(100), torch.ones(100)]).unsqueeze(1)

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Linear(2, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(p=0.0), nn.Linear(16, 16), nn.ReLU(),
                nn.Linear(16, 1),
            )  # fmt: skip

        def forward(self, x):
            return self.layers(x)

    model = MLP()
    same_weights(torch, model)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    losses = []
    for _ in range(40):
        model.train()
        optimizer.zero_grad()
        loss = criterion(model(X), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    model.eval()
    with torch.inference_mode():
        logits = model(X)
        predicted = (torch.sigmoid(logits) > 0.5).float()
        accuracy = (predicted == y).float().mean().item()
    assert accuracy > 0.85
    losses.append(criterion(logits, y).item())
    return losses


PROGRAMS = [gpt, names, recurrent, polynomial_tensors, polynomial_autograd, polynomial_function, polynomial_nn]
PROGRAMS += [smoothing, moons]
