// Chapter 5: queries, keys and values.

// The vectors (T, d) that enter the attention of a block: its input, or with pre-norm a normalised copy of it.
function attentionInput(layer, t) {
  if (page.data.model.norm === "pre") return tensor(`blocks.${layer}.norm_attention`).row(t);
  return blockInput(layer, t);
}

// The vector that enters a block.
function blockInput(layer, t) {
  if (layer > 0)
    return tensor(`blocks.${layer - 1}.${page.data.model.norm === "pre" ? "residual_ffn" : "norm_ffn"}`).row(t);
  const root = Math.sqrt(page.data.model.d_model);
  const positions = tensor("positions").row(t);
  return tensor("embed")
    .row(t)
    .map((x, i) => x * root + positions[i]);
}

// The largest terms of a sum of products, as "a·b" texts.
function largestProducts(a, b, count = 3) {
  const products = Array.from(a, (x, i) => x * b[i]);
  const order = products
    .map((_, i) => i)
    .sort((i, j) => Math.abs(products[j]) - Math.abs(products[i]))
    .slice(0, count);
  return order.map((i) => ({ i, a: a[i], b: b[i], product: products[i] }));
}

figure("projections-strips", ["token", "layer", "head"], (root) => {
  const { d_model, d_k } = page.data.model;
  const { weights } = chapterData("projections");
  const setToken = chooseToken(root);
  const bar = controls(root);
  const setLayer = chooseLayer(bar);
  const setHead = chooseHead(bar);
  const names = ["q", "k", "v"];
  const tones = ["query", "key", "value"];
  const colored = [Q, K, V];
  let x = [];
  let vectors = [];
  let show;
  root.append(el("p", { class: "part-title" }, `The token's vector, ${d_model} numbers`));
  const input = strips(root, {
    label: "The vector that enters attention",
    width: d_model,
    lines: 1,
    cellHeight: 30,
    describe: (r, c) =>
      show(
        `x[${c}] = ${number(x[c])}: number ${c + 1} of what block ${page.state.layer + 1} reads at this token.`,
      ),
  });
  root.append(el("p", { class: "part-title" }, `Its query, key and value, ${d_k} numbers each`));
  const output = strips(root, {
    label: "Query, key and value",
    width: d_k,
    lines: 3,
    cellHeight: 24,
    describe: explain,
  });
  const scalePlace = el("div");
  root.append(scalePlace);
  show = readout(root);

  function explain(r, c) {
    const { layer, head, token } = page.state;
    const known = weights.find((w) => w.layer === layer && w.head === head);
    const tone = colored[r];
    const matrix = `W_${names[r].toUpperCase()}`;
    const first = [
      tone(`${names[r]}[${c}]`),
      ` = Σᵢ ${matrix}[${c}, i] · x[i] = `,
      strong(number(vectors[r][c])),
      `, a sum of ${d_model} products`,
    ];
    if (!known) {
      show(
        first,
        `The weights of block ${weights[0].layer + 1}, head ${weights[0].head + 1} are in this page: choose it to see the largest products.`,
      );
      return;
    }
    const row = unpackOnce(known[names[r]]).row(c);
    const bias = known[`${names[r]}_bias`];
    const terms = largestProducts(row, x).map(
      ({ a, b, product }) => `${number(a)} × ${inside(b)} = ${number(product)}`,
    );
    show(
      first,
      `The largest: ${terms.join(",  ")}${bias ? `; and the bias ${number(unpackOnce(bias).at(c))}` : ""}`,
    );
  }

  return () => {
    const { token, layer, head } = page.state;
    setToken();
    setLayer();
    setHead();
    x = attentionInput(layer, token);
    vectors = names.map((name) => tensor(`blocks.${layer}.attention.${name}`).row(head, token));
    input.update([{ label: "x", values: x }]);
    const scale = output.update(
      vectors.map((values, i) => ({ label: names[i], values, tone: tones[i] })),
      [0, largestAt(vectors[0])],
    );
    scalePlace.replaceChildren(legend(null, scale, "q, k, v"));
  };
});
