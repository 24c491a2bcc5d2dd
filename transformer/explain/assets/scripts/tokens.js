// Chapter 2: tokens.

// The words with every merge up to `count` of the listed ones applied, in the order they were learned.
function replayMerges(words, merges, count) {
  return words.map((word) => merges.slice(0, count).reduce(applyMerge, word));
}

function applyMerge(ids, { pair, id }) {
  const merged = [];
  for (let i = 0; i < ids.length; i++) {
    const joins = i + 1 < ids.length && ids[i] === pair[0] && ids[i + 1] === pair[1];
    merged.push(joins ? id : ids[i]);
    if (joins) i++;
  }
  return merged;
}

figure("tokens-merges", [], (root) => {
  const { missing, words, merges, texts, learned } = chapterData("tokens");
  if (missing) {
    note(
      root,
      "Your model's tokens are characters, so there are no merges to replay. ",
      `What byte-pair encoding would learn can't be shown: ${missing}.`,
    );
    return;
  }
  slider(controls(root), {
    label: "Merges applied",
    min: 0,
    max: merges.length,
    value: merges.length,
    format: (i) => (i === 0 ? "none" : i === merges.length ? `all ${merges.length}` : `${i} of ${merges.length}`),
    change: draw,
  });
  const row = el("p", { class: "pieces" });
  root.append(row);
  const show = readout(root);
  function draw(count) {
    const cut = replayMerges(words, merges, count);
    const last = merges[count - 1];
    row.replaceChildren(
      ...cut.map((ids) =>
        el(
          "span",
          { class: "piece-word" },
          ids.map((id) => piece(texts[id], id === last?.id)),
        ),
      ),
    );
    row.dataset.ids = cut.flat().join(" ");
    const total = cut.flat().length;
    if (!last) {
      show(`No merges: ${total} bytes, each its own token.`);
      return;
    }
    const [left, right] = last.pair.map((id) => tokenName(texts[id]));
    const which = ["Merge ", strong(integer(last.rank)), ` of ${integer(learned)}: `];
    show(
      [which, left, " + ", right, " → ", tokenName(texts[last.id])],
      `${total} tokens now, from ${words.flat().length} bytes.`,
    );
  }
  draw(merges.length);
});

figure("tokens-words", [], (root) => {
  const { examples, missing, learned, own } = chapterData("tokens");
  if (missing || !examples.length) {
    const gone = `The text that this model learned from is not there: ${missing}.`;
    note(root, missing ? gone : "The training text is too short to have common and rare words.");
    return;
  }
  const both = el("div", { class: "columns" });
  root.append(both);
  for (const [title, wanted] of [
    ["The most common words", ({ count }) => count > 1],
    ["Words that occur just once", ({ count }) => count === 1],
  ]) {
    const side = el("div");
    both.append(side);
    partTitle(side, title);
    const items = examples.filter(wanted).map(({ word, count, tokens }) => {
      const name = el("span", {}, el("b", {}, word), count > 1 ? ` ${integer(count)} times` : "");
      return el(
        "li",
        {},
        name,
        el(
          "span",
          { class: "pieces" },
          tokens.map((text) => piece(text)),
        ),
      );
    });
    side.append(el("ul", { class: "words" }, items));
  }
  const merges = integer(learned);
  note(
    root,
    own
      ? `Cut by your model's own tokenizer, with its ${merges} merges.`
      : `Cut with the first ${merges} merges that byte-pair encoding learns from your model's training text.`,
  );
});

figure("tokens-seen", ["token"], (root) => {
  const { tokens, ids } = page.data.text;
  const pairs = tokens.map((text, i) =>
    el(
      "button",
      { type: "button", class: "seen", onclick: () => choose({ token: i }) },
      el("span", {}, text),
      el("span", {}, String(ids[i])),
    ),
  );
  root.append(el("div", { class: "seen-row", role: "group", "aria-label": "Tokens and their numbers" }, pairs));
  const show = readout(root);
  return () => {
    const i = page.state.token;
    pairs.forEach((pair, j) => pair.classList.toggle("chosen", i === j));
    const where = ["At position ", strong(String(i)), " stands ", tokenName(tokens[i])];
    const places = ids.flatMap((id, j) => (id === ids[i] && j !== i ? [j] : []));
    const again = `The same number stands at position${places.length > 1 ? "s" : ""} ${places.join(", ")} too.`;
    show(
      [where, ", which is number ", strong(String(ids[i])), ` of ${integer(page.data.model.vocab_size)}.`],
      places.length ? again : "It occurs once in this text.",
    );
  };
});
