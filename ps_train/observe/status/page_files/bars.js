// Charts of bars and the timeline of events.

// Upright bars.  bars: [{label, value}].
function upright({ bars, yText, xName }) {
  const top = Math.max(...bars.map(({ value }) => value), 1);
  const draw = (width) => {
    const [left, right, above, below, height] = [58, 8, 10, 34, 210];
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    const y = (value) => above + (1 - value / top) * (height - above - below);
    for (const value of ticks(0, top, 4))
      svg.append(
        drawn("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" }),
        drawn("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, yText(value) ?? ""),
      );
    const size = (width - left - right) / bars.length,
      longest = Math.max(...bars.map(({ label }) => label.length)),
      every = Math.ceil((longest * 7 + 10) / size);
    bars.forEach(({ label, value }, index) => {
      const x = left + index * size;
      svg.append(
        drawn(
          "rect",
          {
            x: x + size * 0.08,
            width: size * 0.84,
            y: value ? Math.min(y(value), height - below - 2) : y(0), // a single one is seen, too
            height: value ? Math.max(2, height - below - y(value)) : 0,
            class: "fill s0",
          },
          drawn("title", {}, `${label}: ${yText(value)}`),
        ),
      );
      if (index % every === 0)
        svg.append(drawn("text", { x: x + size / 2, y: height - 18, "text-anchor": "middle" }, label));
    });
    svg.append(
      drawn("line", { x1: left, x2: width - right, y1: height - below, y2: height - below, class: "axis" }),
      drawn("text", { x: width - right, y: height - 3, "text-anchor": "end" }, xName),
    );
    return { svg };
  };
  return { draw };
}

// Bars that lie, each of parts.  rows: [{label, parts: [values]}]; names: of the parts; limit: the value of the full
// width, else the longest bar has it.
function lying({ rows, names, text, limit }) {
  const sums = rows.map(({ parts }) => parts.reduce((sum, value) => sum + (value ?? 0), 0));
  const most = limit ?? Math.max(...sums, 1e-12);
  const draw = (width) => {
    const label = Math.min(110, Math.max(...rows.map((row) => row.label.length)) * 7.5 + 8),
      end = 66,
      line = 24;
    const height = rows.length * line + 4;
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    rows.forEach((row, index) => {
      const y = index * line + 3;
      let x = label;
      svg.append(drawn("text", { x: 0, y: y + 13, class: "strong" }, row.label));
      row.parts.forEach((value, part) => {
        const size = (Math.max(0, value ?? 0) / most) * (width - label - end);
        if (!size) return;
        const name = names[part] ? `${names[part]} ` : "";
        svg.append(
          drawn(
            "rect",
            { x, y, width: size, height: line - 7, class: `fill s${part % 8}` },
            drawn("title", {}, `${name}${text(value)}`),
          ),
        );
        if (names[part] && size > names[part].length * 7 + 8)
          svg.append(drawn("text", { x: x + size / 2, y: y + 13, "text-anchor": "middle", class: "on" }, names[part]));
        x += size;
      });
      svg.append(
        drawn("text", { x: x + 5, y: y + 13 }, row.parts.every((value) => value === null) ? "–" : text(sums[index])),
      );
    });
    return { svg };
  };
  return { draw, names: names.length > 1 ? names.map((name, index) => ({ name, sample: boxSample(index) })) : [] };
}

const EVENTS = {
  started: ["▶", "ok"],
  joined: ["+", "ok"],
  lost: ["✕", "bad"],
  restarted: ["↻", "warn"],
  saved: ["■", "muted"],
  restored: ["◀", "warn"],
  fault: ["⚡", "warn"],
  evaluated: ["◆", "muted"],
  ended: ["●", "muted"],
};

// One lane of symbols for each kind of event that came, over the time of the job.
function timeline({ events, from, to }) {
  const kinds = [
    ...Object.keys(EVENTS),
    ...new Set(events.map(({ kind }) => kind).filter((kind) => !(kind in EVENTS))),
  ].filter((kind) => events.some((event) => event.kind === kind));
  const draw = (width) => {
    const [left, right, line] = [82, 14, 24],
      height = kinds.length * line + 24;
    const [start, end] = [
      Math.min(from, ...events.map(({ time }) => time)),
      Math.max(to, ...events.map(({ time }) => time)),
    ];
    const x = (time) => left + ((time - start) / Math.max(end - start, 1e-3)) * (width - left - right);
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    for (const value of ticks(0, end - start, Math.max(2, Math.floor(width / 130)), duration))
      svg.append(
        drawn("line", { x1: x(start + value), x2: x(start + value), y1: 0, y2: height - 20, class: "grid" }),
        drawn(
          "text",
          {
            x: x(start + value),
            y: height - 5,
            "text-anchor": !value ? "start" : x(start + value) > width - 40 ? "end" : "middle",
          },
          duration(value),
        ),
      );
    kinds.forEach((kind, index) => {
      const y = index * line + 16,
        [symbol, look] = EVENTS[kind] ?? ["○", "muted"];
      svg.append(
        drawn("text", { x: 0, y, class: "strong" }, kind),
        drawn("line", { x1: left, x2: width - right, y1: y - 4, y2: y - 4, class: "grid" }),
      );
      for (const event of events.filter((other) => other.kind === kind))
        svg.append(
          drawn(
            "text",
            { x: x(event.time), y, "text-anchor": "middle", class: `event-${look}` },
            symbol,
            drawn("title", {}, `${clock(event.time)} ${event.text}`),
          ),
        );
    });
    return { svg };
  };
  return { draw, kinds };
}
