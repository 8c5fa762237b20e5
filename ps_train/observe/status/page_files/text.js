"use strict";
// Numbers as text, and tables that change in place.  Text from the job only becomes text nodes.

const $ = (id) => document.getElementById(id);
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const whole = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });

function number(value) {
  if (!isNumber(value)) return null;
  return Math.abs(value) >= 1000 ? whole(value) : String(Number(value.toPrecision(3)));
}

const count = (value) => (isNumber(value) ? whole(value) : null);
const share = (value) => (isNumber(value) ? `${Number((value * 100).toPrecision(3))} %` : null);

function bytes(value) {
  if (!isNumber(value)) return null;
  const unit = Math.min(4, Math.floor(Math.log10(Math.max(value, 1)) / 3));
  return `${Number((value / 1000 ** unit).toPrecision(3))} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
}

function duration(value) {
  if (!isNumber(value)) return null;
  if (value === 0) return "0 s";
  if (Math.abs(value) < 1) return `${Number((value * 1000).toPrecision(3))} ms`;
  if (value < 60) return `${Number(value.toPrecision(3))} s`;
  const [minutes, hours, days] = [Math.floor(value / 60), Math.floor(value / 3600), Math.floor(value / 86400)];
  const two = (large, small) => (parseInt(small) ? `${large} ${small}` : large);
  if (minutes < 60) return two(`${minutes} min`, `${Math.floor(value % 60)} s`);
  return hours < 24 ? two(`${hours} h`, `${minutes % 60} min`) : two(`${days} d`, `${hours % 24} h`);
}

const clock = (time) => (isNumber(time) ? new Date(time * 1000).toLocaleTimeString("en-GB") : null);
const utc = (time) => `${new Date(time * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;

function element(name, className = "", ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function drawn(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Shows a value in a node: a text, null for one that is not known, or {text, symbol, kind, bar, className}.
// Nothing changes where the value is the same, so a reader's place and selection stay.
function show(node, value) {
  const key = JSON.stringify(value ?? null);
  if (node.shown === key) return;
  node.shown = key;
  const { text, symbol, kind, bar, className } = value !== null && typeof value === "object" ? value : { text: value };
  node.className = className ?? (typeof text === "string" && text.length > 40 ? "wide" : "plain");
  if (text === null || text === undefined) {
    const dash = element("span", "kind-muted", "–");
    dash.setAttribute("aria-hidden", "true");
    node.replaceChildren(dash, element("span", "hidden", "not known"));
    return;
  }
  const parts = [String(text)];
  if (symbol) {
    parts.unshift(element("span", "symbol", symbol), " ");
    parts[0].setAttribute("aria-hidden", "true");
  }
  node.replaceChildren(
    kind ? element("span", `kind-${kind}`, ...parts) : parts.length > 1 ? element("span", "", ...parts) : parts[0],
  );
  if (isNumber(bar)) {
    const inner = element("span");
    inner.style.width = `${100 * Math.max(0, Math.min(1, bar))}%`;
    node.append(element("span", "bar", inner));
    node.lastChild.setAttribute("aria-hidden", "true");
  }
}

// Hides the columns of a table in which no row has a value: what does not apply to a job is not shown.
function hideEmptyColumns(body, rows) {
  const isEmpty = (value) => value === null || value === undefined || value === "";
  [...body.parentNode.tHead.rows[0].cells].forEach((head, column) => {
    const hidden = rows.length > 0 && rows.every((cells) => isEmpty(cells[column]));
    head.hidden = hidden;
    if (rows.length) for (const row of body.rows) row.cells[column].hidden = hidden;
  });
}

function fill(body, rows, empty = "none yet") {
  const columns = body.parentNode.tHead.rows[0].cells.length;
  const lines = rows.length ? rows : [[{ text: empty, kind: "muted", className: "plain" }]];
  while (body.rows.length > lines.length) body.deleteRow(-1);
  lines.forEach((cells, index) => {
    const row = body.rows[index] ?? body.insertRow();
    if (row.cells.length !== cells.length) {
      row.replaceChildren(...cells.map((_, column) => document.createElement(column || !rows.length ? "td" : "th")));
      if (rows.length) row.cells[0].scope = "row";
      else row.cells[0].colSpan = columns;
    }
    cells.forEach((value, column) => show(row.cells[column], value));
  });
}
