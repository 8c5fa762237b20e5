// Charts of curves in SVG, each in a figure with the table of its values.

// A figure with a title, a legend, a drawing and the table of its values, which is made when it is opened.
class Figure {
  constructor(parent, key, title) {
    this.title = title;
    this.legend = element("ul", "legend");
    this.drawing = element("div", "drawing");
    this.readout = element("p", "readout");
    this.readout.setAttribute("aria-hidden", "true");
    this.heading = element("h3", "", title);
    this.table = element("table");
    this.table.createCaption().textContent = title;
    this.table.createTHead().insertRow();
    this.table.createTBody();
    const box = element("div", "scroll", this.table);
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `Table: ${title}`);
    this.details = element("details", "", element("summary", "", `Table: ${title}`), box);
    this.details.addEventListener("toggle", () => this.fillTable());
    this.node = element(
      "figure",
      "",
      element("figcaption", "", this.heading),
      this.legend,
      this.drawing,
      this.readout,
      this.details,
    );
    [this.node.dataset.key, this.node.hidden] = [key, true];
    parent.append(this.node);
    this.drawing.addEventListener("pointermove", (event) => this.point?.(event));
    this.drawing.addEventListener("pointerleave", () => this.point?.(null));
  }

  // draw: makes the SVG of a width in pixels; summary: the text that stands for the drawing; table: {head, rows}.
  update({ draw, summary, table, names = [] }) {
    this.node.hidden = false;
    [this.draw, this.values, this.summary] = [draw, table, summary];
    this.legend.replaceChildren(...names.map(({ name, sample }) => element("li", "", sample, name)));
    this.redraw();
    this.fillTable();
  }

  redraw() {
    if (this.node.hidden || !this.draw) return;
    const width = Math.max(200, this.drawing.clientWidth || 320);
    const { svg, point } = this.draw(width, this.readout);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${this.title}: ${this.summary}`);
    this.readout.textContent = this.summary;
    this.point = point && ((event) => point(event, () => (this.readout.textContent = this.summary)));
    const tall = svg.getAttribute("height") > 416;
    this.drawing.tabIndex = tall ? 0 : -1;
    if (!tall) this.drawing.removeAttribute("tabindex");
    this.drawing.replaceChildren(svg);
  }

  fillTable() {
    if (!this.details.open || !this.values) return;
    const { head, rows } = this.values();
    const row = this.table.tHead.rows[0];
    if (row.shown !== head.join("\n")) {
      row.shown = head.join("\n");
      row.replaceChildren(...head.map((text) => element("th", "", text)));
      for (const cell of row.cells) cell.scope = "col";
      this.table.tBodies[0].replaceChildren();
    }
    fill(this.table.tBodies[0], rows);
  }
}

const TIMES = [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];

// Round values for an axis; text: the axis is of time where this is `duration`.
function ticks(low, high, most, text) {
  const raw = (high - low) / most || 1,
    unit = text === duration && raw > 20 ? (raw > 43200 ? 86400 : 0) : 1;
  const power = unit * 10 ** Math.floor(Math.log10(raw / (unit || 1)));
  const step = (unit ? [1, 2, 5, 10].map((factor) => factor * power) : TIMES).find((size) => size >= raw * 0.999);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step)
    found.push(Math.abs(value) < step / 1e6 ? 0 : value);
  return found;
}

// Round values for a logarithmic axis.
function powers(low, high) {
  const found = [],
    last = Math.log10(high);
  for (let power = Math.floor(Math.log10(low)); power <= last; power += 1)
    found.push(...[1, 2, 5].map((factor) => factor * 10 ** power).filter((value) => value >= low && value <= high));
  return found.length > 7
    ? found.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9)
    : found.length > 1
      ? found
      : ticks(low, high, 4);
}

// At most about `most` points, with the extremes of those left out.  A gap stays a gap.
function thinned(points, most) {
  const size = Math.ceil((2 * points.length) / most);
  if (size <= 2) return points;
  const found = [];
  let group = [];
  const close = () => {
    if (!group.length) return;
    const low = group.reduce((a, b) => (b[1] < a[1] ? b : a)),
      high = group.reduce((a, b) => (b[1] > a[1] ? b : a));
    found.push(...(group.indexOf(low) < group.indexOf(high) ? [low, high] : low === high ? [low] : [high, low]));
    group = [];
  };
  for (const point of points) {
    const known = isNumber(point[1]);
    if (!known || group.length === size || (group.length && point[0] < group.at(-1)[0])) close();
    if (known) group.push(point);
    else if (isNumber(found.at(-1)?.[1])) found.push(point);
  }
  close();
  return found;
}

// The line has a gap where a value is not known, and where the x goes back (a restored checkpoint).
function pathOf(points, x, y) {
  let text = "",
    size = 0,
    last = -Infinity;
  const close = () => {
    if (size === 1) text += "h.01"; // or a point between two gaps would not be seen
    size = 0;
  };
  for (const [at, value] of points) {
    const known = isNumber(value) && isNumber(y(value)) && isNumber(at);
    if (!known || at < last) close();
    if (known) {
      text += `${size ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      size += 1;
    }
    last = known ? at : -Infinity;
  }
  close();
  return text;
}

const DASHES = ["", "7 3", "2 3", "10 3 2 3", "5 2 1 2", "12 4", "1 4", "8 2 2 2 2 2"];
const lineSample = (index, look) =>
  drawn(
    "svg",
    { viewBox: "0 0 26 10", height: 10, "aria-hidden": "true" },
    drawn(
      "path",
      look
        ? { d: "M0 5H26", class: look }
        : { d: "M0 5H26", class: `curve s${index % 8}`, "stroke-dasharray": DASHES[index % 8] },
    ),
  );
const boxSample = (index) =>
  drawn(
    "svg",
    { viewBox: "0 0 26 10", height: 10, "aria-hidden": "true" },
    drawn("rect", { x: 6, width: 14, height: 10, class: `fill s${index % 8}` }),
  );

// Curves.  series: [{name, points: [[x, y]]}]; many: the same, drawn thin below; marks: [{x, text}].
function curves({ series, many = [], marks = [], xText, yText, xName, logarithmic = false, zero = false }) {
  const all = [...series, ...many];
  const known = all.flatMap(({ points }) =>
    points.filter(([x, y]) => isNumber(x) && isNumber(y) && (!logarithmic || y > 0)),
  );
  const xs = known.map(([x]) => x),
    ys = known.map(([, y]) => y);
  const limit = (values, side, start) => values.reduce((a, b) => (side(a, b) === a ? a : b), start ?? values[0] ?? 0);
  let [x0, x1, y0, y1] = [
    limit(xs, Math.min),
    limit(xs, Math.max),
    limit(ys, Math.min, zero ? 0 : undefined),
    limit(ys, Math.max),
  ];
  if (x0 === x1) x1 = x0 + 1;
  if (y0 === y1)
    [y0, y1] =
      logarithmic && y0 > 0 ? [y0 / 2, y1 * 2] : [zero ? 0 : y0 - Math.abs(y0 || 1) / 2, y1 + Math.abs(y1 || 1) / 2];
  const scaled = logarithmic && y0 > 0 ? Math.log10 : (value) => value;
  const draw = (width, readout) => {
    const [left, right, top, bottom, height] = [58, 12, 10, 34, 210];
    const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - right);
    const y = (value) => top + (1 - (scaled(value) - scaled(y0)) / (scaled(y1) - scaled(y0))) * (height - top - bottom);
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    const levels = scaled === Math.log10 ? powers(y0, y1) : ticks(y0, y1, 4);
    for (const value of levels)
      svg.append(
        drawn("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" }),
        drawn("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, yText(value) ?? ""),
      );
    for (const value of ticks(x0, x1, Math.max(3, Math.floor(width / 90)), xText)) {
      const at = x(value),
        end = at > width - 40 ? "end" : "middle";
      svg.append(
        drawn(
          "text",
          { x: end === "end" ? width - right : at, y: height - 18, "text-anchor": end },
          xText(value) ?? "",
        ),
      );
    }
    svg.append(
      drawn("line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "axis" }),
      drawn("text", { x: width - right, y: height - 3, "text-anchor": "end" }, xName),
    );
    for (const { x: at, text } of marks.filter((mark) => mark.x >= x0 && mark.x <= x1))
      svg.append(
        drawn("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, class: "mark" }, drawn("title", {}, text)),
      );
    const line = (points) => pathOf(thinned(points, width), x, y);
    if (many.length) svg.append(drawn("path", { d: many.map(({ points }) => line(points)).join(""), class: "many" }));
    series.forEach(({ points }, index) => {
      svg.append(
        drawn("path", { d: line(points), class: `curve s${index % 8}`, "stroke-dasharray": DASHES[index % 8] }),
      );
      if (points.length < 30)
        for (const [at, value] of points.filter(([, y]) => isNumber(y)))
          if (isNumber(y(value)))
            svg.append(drawn("circle", { cx: x(at), cy: y(value), r: 2.5, class: `dot fill s${index % 8}` }));
    });
    return { svg, point: pointing({ svg, series, readout, x, xText, yText, xName, height: height - bottom, top }) };
  };
  const names =
    series.length + many.length > 1 ? series.map(({ name }, index) => ({ name, sample: lineSample(index) })) : [];
  if (many.length) names.push({ name: "each worker", sample: lineSample(0, "many") });
  if (marks.length) names.push({ name: "lost, restarted, restored or fault", sample: lineSample(0, "mark") });
  return { draw, names };
}

function pointing({ svg, series, readout, x, xText, yText, xName, height, top }) {
  const cross = drawn("line", { y1: top, y2: height, class: "cross", visibility: "hidden" });
  svg.append(cross);
  return (event, leave) => {
    cross.setAttribute("visibility", event ? "visible" : "hidden");
    if (!event) return leave();
    const at = event.clientX - svg.getBoundingClientRect().left;
    const nearest = (points) =>
      points.reduce(
        (best, point) =>
          isNumber(point[1]) && (!best || Math.abs(x(point[0]) - at) < Math.abs(x(best[0]) - at)) ? point : best,
        null,
      );
    const found = series.map(({ name, points }) => [name, nearest(points)]).filter(([, point]) => point);
    if (!found.length) return leave();
    cross.setAttribute("x1", x(found[0][1][0]));
    cross.setAttribute("x2", x(found[0][1][0]));
    const values = found.map(([name, point]) => `${name} ${yText(point[1])}`);
    readout.textContent = `${xName} ${xText(found[0][1][0])}: ${values.join(", ")}`;
  };
}
