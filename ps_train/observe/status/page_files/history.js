// Curves of the history.

const OPEN = "Many workers: the slowest and the fastest now are named; all are in the table.";

// The points of a curve over time, with one of unknown values wherever the job has made none for long.
function withGaps(points) {
  const pauses = points.slice(1).map(({ time }, index) => time - points[index].time);
  const usual = [...pauses].sort((a, b) => a - b)[Math.floor(pauses.length / 2)];
  return points.flatMap((point, index) =>
    index && pauses[index - 1] > Math.max(5, 4 * usual)
      ? [{ time: (points[index - 1].time + point.time) / 2 }, point]
      : [point],
  );
}

// The last value of a curve, and the lowest and the highest one.
function rangeOf({ name, points }, text) {
  const known = points.map(([, value]) => value).filter(isNumber);
  if (!known.length) return `${name}: not known`;
  const last = isNumber(points.at(-1)[1]) ? text(points.at(-1)[1]) : "not known now",
    [low, high] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  return low === high && last === text(low) ? `${name}: ${last}` : `${name}: ${last}, between ${text(low)} and ${text(high)}`;
}

function curve(parent, key, title, { x, points, series, many, marks, y, rest = {}, table }) {
  const isTime = x === "time",
    start = last.status?.start_time ?? points[0]?.time ?? 0;
  const at = (point) => (isTime ? point.time - start : point.step);
  const shown = isTime ? withGaps(points) : points;
  const pairs = ({ name, of }) => ({ name, points: shown.map((point) => [at(point), of(point)]) });
  const xName = isTime ? "time since the start" : "step",
    xText = isTime ? duration : count;
  const drawn = series.map((one) => (one.own ? { name: one.name, points: one.own } : pairs(one)));
  if (!drawn.some(({ points }) => points.some(([, value]) => isNumber(value)))) {
    if (figures[key]) figures[key].node.hidden = true; // another job may answer at the same port
    return;
  }
  const every = Math.max(1, Math.ceil(points.length / 100));
  const rows = () => points.filter((_, index) => (points.length - 1 - index) % every === 0);
  const made = curves({
    series: drawn,
    many: (many ?? []).map(pairs),
    marks: isTime ? marks : [],
    xText,
    yText: y,
    xName,
    ...rest,
  });
  figure(parent, key, title).update({
    ...made,
    summary: `${drawn.map((one) => rangeOf(one, y)).join("; ")}${rest.note ? `. ${rest.note}` : ""}`,
    table:
      table ??
      (() => ({
        head: [xName, ...[...(many ?? []), ...series.filter((one) => one.of && !many?.length)].map(({ name }) => name)],
        rows: rows().map((point) => [
          xText(at(point)),
          ...(many?.length ? many : series.filter((one) => one.of)).map(({ of }) => y(of(point))),
        ]),
      })),
  });
}

function showCurves({ points, evaluations }) {
  const x = $("over-time").checked ? "time" : "step",
    start = last.status?.start_time ?? points[0]?.time ?? 0;
  const marks = (last.status?.events ?? [])
    .filter(({ kind }) => ["lost", "restarted", "restored", "fault"].includes(kind))
    .map(({ time, kind, text }) => ({ x: time - start, text: `${kind}: ${text}` }));
  const scored = evaluations
    .filter(({ metrics }) => isNumber(metrics.loss))
    .map(({ step, metrics }) => [step, metrics.loss]);
  const loss = [{ name: "training", of: (point) => point.loss }];
  if (scored.length && x === "step") loss.push({ name: "evaluation", own: scored });
  curve("curve-charts", "loss", "Loss", {
    x,
    points,
    series: loss,
    marks,
    y: number,
    rest: { logarithmic: $("logarithmic").checked },
  });
  curve("curve-charts", "examples", "Examples/s", {
    x: "time",
    points,
    series: [{ name: "all workers", of: (point) => point.examples_per_sec }],
    marks,
    y: number,
    rest: { zero: true },
  });
  const names = [...new Set(points.flatMap((point) => Object.keys(point.workers ?? {})))].sort((a, b) =>
    a.localeCompare(b, "en", { numeric: true }),
  );
  const each = names.map((name) => ({ name, of: (point) => point.workers?.[name] ?? null }));
  const now = each
    .filter(({ of }) => points.length && isNumber(of(points.at(-1))))
    .sort((a, b) => a.of(points.at(-1)) - b.of(points.at(-1)));
  const isMany = each.length > 8 && now.length > 1;
  curve("curve-charts", "by-worker", "Examples/s by worker", {
    x: "time",
    points,
    marks,
    y: number,
    many: isMany ? each : undefined,
    series: isMany ? [now[0], now.at(-1)] : each.slice(0, 8),
    rest: { zero: true, note: isMany ? OPEN : "" },
  });
  curve("curve-charts", "mean-staleness", "Staleness, mean", {
    x: "time",
    points,
    marks,
    y: number,
    rest: { zero: true },
    series: [{ name: "all workers", of: (point) => point.staleness }],
  });
  curve("curve-charts", "waiting-share", "Share of waiting over time", {
    x: "time",
    points,
    marks,
    y: share,
    rest: { zero: true },
    series: [{ name: "all workers", of: (point) => point.waiting }],
  });
  showMetrics(evaluations);
}

function showMetrics(evaluations) {
  const names = [...new Set(evaluations.flatMap(({ metrics }) => Object.keys(metrics)))];
  setText($("metrics-note"), names.length ? "" : "No evaluation yet.");
  for (const name of names)
    curve("metric-charts", `metric ${name}`, `Evaluation: ${name}`, {
      x: "step",
      points: evaluations,
      y: number,
      series: [{ name: "evaluation", of: ({ metrics }) => metrics[name] ?? null }],
    });
}
