// Chapter 2: tokens.

// The words with every merge up to `count` of the listed ones applied, in the order they were learned.
function replayMerges(words, merges, count) {
  return words.map((word) =>
    merges.slice(0, count).reduce((ids, { pair, id }) => {
      const merged = [];
      for (let i = 0; i < ids.length; i++) {
        const joins = i + 1 < ids.length && ids[i] === pair[0] && ids[i + 1] === pair[1];
        merged.push(joins ? id : ids[i]);
        if (joins) i++;
      }
      return merged;
    }, word),
  );
}

figure("tokens-merges", [], (root) => {
  const data = chapterData("tokens");
  if (data.missing) {
    note(
      root,
      "Your model's tokens are characters, so there are no merges to replay. ",
      "What byte-pair encoding would learn can't be shown: ",
      data.missing,
      ".",
    );
    return null;
  }
  const { words, merges, texts } = data;
  const bar = controls(root);
  const row = el("p", { class: "pieces" });
  const said = el("div");
  root.append(row, said);
  const show = readout(said);
  const draw = (count) => {
    const cut = replayMerges(words, merges, count);
    const total = cut.reduce((sum, word) => sum + word.length, 0);
    const fresh = count ? merges[count - 1].id : -1;
    row.replaceChildren(
      ...cut.map((ids) =>
        el(
          "span",
          { class: "piece-word" },
          ids.map((id) => el("span", { class: id === fresh ? "piece fresh" : "piece" }, texts[id])),
        ),
      ),
    );
    row.dataset.ids = cut.flat().join(" ");
    const merge = merges[count - 1];
    show(
      count === 0
        ? `No merges: ${total} bytes, each its own token.`
        : [
            "Merge ",
            strong(integer(merge.rank)),
            ` of ${integer(data.learned)}: `,
            tokenName(texts[merge.pair[0]]),
            " + ",
            tokenName(texts[merge.pair[1]]),
            " → ",
            tokenName(texts[merge.id]),
          ],
      count ? `${total} tokens now, from ${words.flat().length} bytes.` : null,
    );
  };
  slider(bar, {
    label: "Merges applied",
    min: 0,
    max: merges.length,
    value: merges.length,
    format: (i) => (i === 0 ? "none" : i === merges.length ? `all ${merges.length}` : `${i} of ${merges.length}`),
    change: draw,
  });
  draw(merges.length);
  return null;
});

figure("tokens-words", [], (root) => {
  const { examples, missing, learned, own } = chapterData("tokens");
  if (missing || !examples.length) {
    note(
      root,
      missing
        ? `The text that this model learned from is not there: ${missing}.`
        : "The training text is too short to have common and rare words.",
    );
    return null;
  }
  const list = (wanted, title) =>
    el(
      "div",
      {},
      el("p", { class: "part-title" }, title),
      el(
        "ul",
        { class: "words" },
        examples.filter(wanted).map(({ word, count, tokens }) =>
          el(
            "li",
            {},
            el("span", {}, el("b", {}, word), count > 1 ? ` ${integer(count)} times` : ""),
            el(
              "span",
              { class: "pieces" },
              tokens.map((text) => el("span", { class: "piece" }, text)),
            ),
          ),
        ),
      ),
    );
  root.append(
    el(
      "div",
      { class: "columns" },
      list((e) => e.count > 1, "The most common words"),
      list((e) => e.count === 1, "Words that occur just once"),
    ),
  );
  note(
    root,
    own
      ? `Cut by your model's own tokenizer, with its ${integer(learned)} merges.`
      : `Cut with the first ${integer(learned)} merges that byte-pair encoding learns from your model's training text.`,
  );
  return null;
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
    const places = ids.flatMap((id, j) => (id === ids[i] && j !== i ? [j] : []));
    show(
      [
        "At position ",
        strong(String(i)),
        " stands ",
        tokenName(tokens[i]),
        ", which is number ",
        strong(String(ids[i])),
        ` of ${integer(page.data.model.vocab_size)}.`,
      ],
      places.length
        ? `The same number stands at position${places.length > 1 ? "s" : ""} ${places.join(", ")} too.`
        : "It occurs once in this text.",
    );
  };
});
