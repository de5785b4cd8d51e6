// ---- Many lines at once: a row of a table for each, and the table as a CSV file. `page.py` puts this into the page.

const LINES_OF_A_REQUEST = 32, MOST_SHOWN = 200, MOST_COLUMNS_SHOWN = 12;

// The inputs that a line can have, with a tab between them; null if a model takes others.
function columnsOfLines() {
  const names = inOrder(Object.keys(model.inputs));
  const known = [["text"], ["text", "text_b"], ["question", "context"]];
  return model.kind?.cells && known.some(columns => columns.join() === names.join()) ? names : null;
}

// "a<tab>b\nc<tab>d" -> {text: ["a", "c"], text_b: ["b", "d"]}
function parsedLines(text, columns) {
  const given = Object.fromEntries(columns.map(name => [name, []]));
  text.split(/\r?\n/).forEach((line, number) => {
    if (!line.trim()) return;
    const [first, ...rest] = columns.length > 1 ? line.split("\t") : [line];
    if (columns[1] === "context" && !rest.length) throw new Error(`Line ${number + 1} has no tab. Write: question, tab, context.`);
    given[columns[0]].push(first);
    if (columns.length > 1) given[columns[1]].push(rest.join(" "));
  });
  if (!given[columns[0]].length) throw new Error("There are no lines. Paste one text a line.");
  return given;
}

// RFC 4180: values with a quote, a comma or a new line are quoted. Excel needs the mark of UTF-8.
function csvOf(header, rows) {
  const field = value => /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  return "\ufeff" + [header, ...rows].map(row => row.map(value => field(String(value ?? ""))).join(",") + "\r\n").join("");
}

function tableOfLines(header, rows) {
  const shown = row => row.slice(0, MOST_COLUMNS_SHOWN).map(value => typeof value === "number" ? value.toFixed(4) : value ?? "–");
  const caption = element("caption", {}, `Answers for ${rows.length} lines`);
  const head = element("tr", {}, ...header.slice(0, MOST_COLUMNS_SHOWN).map(name => element("th", {scope: "col"}, name)));
  const body = element("tbody", {}, ...rows.slice(0, MOST_SHOWN).map(row =>
    element("tr", {}, ...shown(row).map((text, column) => element(column ? "td" : "th", column ? {} : {scope: "row"}, text)))));
  const table = element("table", {className: "lines"}, caption, element("thead", {}, head), body);
  return element("div", {className: "wide", tabIndex: 0, role: "region", ariaLabel: "Answers"}, table);
}

function downloadButton(header, rows) {
  const button = element("button", {type: "button", id: "download"}, "Download as CSV");
  button.addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([csvOf(header, rows)], {type: "text/csv;charset=utf-8"}));
    element("a", {href: address, download: `${model.name}.csv`}).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
  return button;
}

async function askLines() {
  const columns = columnsOfLines(), asked = model, given = parsedLines(valueOf("lines"), columns);
  const count = given[columns[0]].length, header = [...columns], rows = [];
  for (let first = 0; first < count; first += LINES_OF_A_REQUEST) {
    say(`${first} of ${count} lines are done.`);
    const part = Object.fromEntries(columns.map(name => [name, given[name].slice(first, first + LINES_OF_A_REQUEST)]));
    const outputs = await predicted(part);
    part[columns[0]].forEach((_, row) => {
      const of = values => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value[row]]));
      const cells = asked.kind.cells(of(outputs), of(part));
      if (!rows.length) header.push(...Object.keys(cells));
      rows.push([...columns.map(name => part[name][row]), ...Object.values(cells)]);
    });
  }
  say(`All ${count} lines are done.`);
  const parts = [tableOfLines(header, rows), element("p", {}, downloadButton(header, rows))];
  const isCut = rows.length > MOST_SHOWN || header.length > MOST_COLUMNS_SHOWN;
  if (isCut) parts.push(element("p", {className: "hint"}, `The file has all ${rows.length} lines and ${header.length} columns.`));
  showAnswer(parts);
}
