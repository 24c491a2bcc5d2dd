// Chapter 5: queries, keys and values.

// The vector that enters the attention of a block: the block's input, or with pre-norm a normalised copy of it.
function attentionInput(layer, t) {
  if (page.data.model.norm === "pre") return tensor(`blocks.${layer}.norm_attention`).row(t);
  return blockInput(layer, t);
}

// The vector that enters a block.
function blockInput(layer, t) {
  const { norm, d_model } = page.data.model;
  if (layer > 0) return tensor(`blocks.${layer - 1}.${norm === "pre" ? "residual_ffn" : "norm_ffn"}`).row(t);
  const positions = tensor("positions").row(t);
  const embed = tensor("embed").row(t);
  return embed.map((x, i) => x * Math.sqrt(d_model) + positions[i]);
}

figure("projections-strips", ["token", "layer", "head"], (root) => {
  const { d_model, d_k } = page.data.model;
  const { weights } = chapterData("projections");
  chooseToken(root);
  const bar = controls(root);
  chooseLayer(bar);
  chooseHead(bar);
  const kinds = [
    { name: "q", tone: "query", colored: Q },
    { name: "k", tone: "key", colored: K },
    { name: "v", tone: "value", colored: V },
  ];
  let x = [];
  let vectors = [];
  partTitle(root, `The token's vector, ${d_model} numbers`);
  const showInput = strips(root, {
    label: "The vector that enters attention",
    width: d_model,
    lines: 1,
    cellHeight: 30,
    describe: (r, c) =>
      show([`x[${c}] = `, strong(number(x[c])), `, as block ${page.state.layer + 1} reads it at this token`]),
  });
  partTitle(root, `Its query, key and value, ${d_k} numbers each`);
  const showOutput = strips(root, {
    label: "Query, key and value",
    width: d_k,
    lines: 3,
    cellHeight: 24,
    describe: explain,
  });
  const showScale = legend(root);
  const show = readout(root);

  function explain(r, c) {
    const { layer, head } = page.state;
    const { name, colored } = kinds[r];
    const value = vectors[r][c];
    const formula = [colored(`${name}[${c}]`), ` = Σᵢ W_${name.toUpperCase()}[${c}, i] · x[i] = `];
    const known = weights.find((one) => one.layer === layer && one.head === head);
    if (!known) {
      const where = `block ${weights[0].layer + 1}, head ${weights[0].head + 1}`;
      show(
        [...formula, strong(number(value)), `, a sum of ${d_model} products`],
        `To keep the page small it holds the weights of one head, ${where}: choose that to see the products.`,
      );
      return;
    }
    const bias = known[`${name}_bias`] ? unpackOnce(known[`${name}_bias`]).at(c) : 0;
    const products = sumOfProducts(unpackOnce(known[name]).row(c), x, value - bias);
    show([...formula, products, bias ? ` + ${inside(bias)}` : "", " = ", strong(number(value))]);
  }

  return () => {
    const { token, layer, head } = page.state;
    x = attentionInput(layer, token);
    vectors = kinds.map(({ name }) => tensor(`blocks.${layer}.attention.${name}`).row(head, token));
    showInput([{ label: "x", values: x }]);
    const content = kinds.map(({ name, tone }, i) => ({ label: name, values: vectors[i], tone }));
    showScale(showOutput(content, [0, largestAt(vectors[0])]), "q, k, v");
  };
});
