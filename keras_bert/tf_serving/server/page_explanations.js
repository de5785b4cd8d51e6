// Explanations of answers, from the signature `explain`.

// Returns the explanation of an answer. Of a tagger, it is that of one word, and lets the user choose another.
async function explanation(inputs, given, word = -1) {
  const asked = {inputs: "word" in model.explains ? {...inputs, word: [word]} : inputs, signature_name: "explain"};
  const found = (await fetched(`${model.path}:predict`, {method: "POST", body: JSON.stringify(asked)})).outputs;
  const out = Object.fromEntries(Object.entries(found).map(([name, value]) => [name, value[0]]));
  const shown = element("section", {}, ...explained(out, given));
  if (!out.words) return shown;
  const bytes = new Bytes(given.text), words = new Map([[-1, "the surest"]]);
  zip(out.words, out.starts, out.ends).filter(([number]) => number >= 0)
    .forEach(([number, start, end]) => words.set(number, bytes.slice(start, end)));
  const select = element("select", {id: "word"}, ...[...words].map(([value, name]) =>
    element("option", {value, selected: value === word}, name)));
  select.addEventListener("change", guarded(async () => {
    const other = await explanation(inputs, given, Number(select.value));
    shown.replaceWith(other);
    other.querySelector("select").focus();
  }));
  shown.append(element("label", {}, "Explain the word ", select));
  return shown;
}

// Returns the texts of an explanation, whose tokens are blue if they speak for the answer, orange if against.
function explained(out, given) {
  const places = new Map();  // the pieces of a tagged word have the same place
  for (const [text, start, end, score] of zip(out.texts, out.starts, out.ends, out.scores)) {
    const place = `${text} ${start}`;
    places.set(place, {text, start, end, score: score + (places.get(place)?.score ?? 0)});
  }
  const spans = [...places.values()].filter(span => span.text >= 0);
  const largest = Math.max(...spans.map(span => Math.abs(span.score))) || 1;
  const texts = [given.text ?? given.question ?? given.prompt, given.text_b ?? given.context ?? out.label ?? ""];
  const parts = texts.map((text, number) => {
    const own = spans.filter(span => span.text === number).map(({start, end, score}) => ({start, end, title: score.toFixed(4),
      color: `rgb(${score < 0 ? "230 90 30" : "30 130 230"} / ${(0.65 * Math.abs(score) / largest).toFixed(3)})`}));
    return own.length ? marked(text, own) : "";
  });
  const head = out.label === undefined ? "Why" : `Why ${out.label}`;
  return [element("h2", {}, head), ...parts, element("p", {className: "hint"}, "blue speaks for it, orange against it")];
}
