// The sections of the page that show the present state.

const STATES = {
  preparing: ["…", "muted"],
  starting: ["…", "muted"],
  training: ["▶", "ok"],
  recovering: ["↻", "warn"],
  finishing: ["▶", "ok"],
  done: ["✓", "ok"],
  stopped: ["■", "warn"],
  failed: ["✕", "bad"],
  serving: ["✓", "ok"],
  silent: ["✕", "bad"],
  waiting: ["…", "muted"],
  ended: ["■", "muted"],
  "input ended": ["■", "muted"],
  leaving: ["■", "muted"],
  left: ["■", "muted"],
  lost: ["✕", "bad"],
  absent: ["○", "muted"],
};
const ENDED = ["done", "stopped", "failed"];
const HEALTH = { warn: ["▲", "warn", "warning"], unknown: ["?", "muted", "not known"], ok: ["✓", "ok", "ok"] };
const PARTS = ["input", "pull", "compute", "push", "wait", "update", "other"];

// What features show: gauges of the job, columns of the workers, and keys that name a ps in a worker's process.
const DISPLAYS = JSON.parse($("displays").textContent);
const wordsOf = (gauges) => Object.fromEntries(gauges.filter((one) => one.meaning).map((one) => [one.label, one.meaning]));

// What the words of the page mean: tooltips, and a list at its end for those who have no pointer.
const WORDS = {
  "Time left (ETA)": "Steps that are left, at the present speed.",
  Waiting: "Share of the steps' time that workers waited for other workers, since the beginning of the run.",
  "Staleness, mean": "Updates of other workers between the pull of a gradient's values and its own update.",
  ...wordsOf(DISPLAYS.gauges),
  "Batch size": "Examples that a worker uses in a step.",
  "Updates skipped": "Gradients that were not finite and changed nothing.",
  "Gradients dropped": "Gradients that came too late and changed nothing.",
  "Last save": "Step of the newest checkpoint of this process: what a fault now would go back to.",
  "Hold of a save": "How long updates wait while a checkpoint is taken: the mean, and the longest.",
  "Part of the plan": "Share of the bytes of all variables that a parameter server holds. The plan says which holds what.",
  "Last heartbeat": "Time since the worker last showed that it lives.",
  "CPU (cores)": "Cores that the process uses now.",
  Memory: "Resident memory of the process, and the limit of its machine or container.",
  ...wordsOf(DISPLAYS.columns),
};

const figures = {},
  last = { status: null, history: null };
const isReport = $("data").textContent.trim() !== "";

function figure(parent, key, title) {
  return (figures[key] ??= new Figure($(parent), key, title));
}

function stateOf(text) {
  const [symbol, kind] = STATES[text] ?? (text?.startsWith("waiting for ") ? STATES.waiting : ["○", "muted"]);
  return text === null || text === undefined ? null : { text, symbol, kind };
}

function memory(used, limit) {
  if (!isNumber(used)) return null;
  return isNumber(limit) ? { text: `${bytes(used)} of ${bytes(limit)}`, bar: used / limit } : bytes(used);
}

const FORMATS = { bytes, count, utc };
const at = (data, path) => path.split(".").reduce((found, name) => found?.[name], data);

// The text of a gauge with values in braces: "{a.b}", "{a.b|bytes}", and "{a.b?text}" for a text where a.b is true.
// A gauge without a value does not apply to the job.
function gaugeText({ key, text }, data) {
  if ((at(data, key) ?? null) === null) return undefined;
  return (text || `{${key}}`).replace(/\{([\w.]+)(?:\|(\w+)|\?([^}]*))?\}/g, (_, path, format, mark) => {
    const value = at(data, path);
    if (mark !== undefined) return value ? mark : "";
    return (isNumber(value) ? FORMATS[format ?? "count"](value) : value) ?? "–";
  });
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// The first ones are seen on a small screen, too.
function showFacts(list, facts, first) {
  while (list.children.length > facts.length) list.lastChild.remove();
  facts.forEach(([name, value], index) => {
    const item = list.children[index] ?? list.appendChild(element("div", "", element("dt"), element("dd")));
    setText(item.children[0], name);
    explain(item.children[0], name);
    show(item.children[1], value);
    item.classList.toggle("more", index >= first);
  });
}

function explain(node, name) {
  if (node.title !== (WORDS[name] ?? "")) node.title = WORDS[name] ?? "";
}

function showHeader(status) {
  const { job, state, step, max_steps: most } = status;
  const [symbol] = STATES[state] ?? ["○"];
  setText($("model"), job.model ?? "a job");
  setText($("state-symbol"), symbol);
  setText($("state-text"), state ?? "not known");
  $("state").className = `kind-${STATES[state]?.[1] ?? "muted"}`;
  $("cause").hidden = !status.cause;
  setText($("cause"), status.cause ?? "");
  $("progress").hidden = !isNumber(most) || !isNumber(step);
  if (!$("progress").hidden)
    [$("progress").max, $("progress").value] = [Math.max(most, 1), Math.min(step, Math.max(most, 1))];
  const progress = isNumber(most) && isNumber(step) ? share(Math.floor((step / most) * 100) / 100) : null;
  document.title = [progress, state, job.model ?? "ps_train"].filter((part) => part !== null).join(" · ");
  const save = status.save ?? {},
    isOver = ENDED.includes(state),
    known = (value) => value ?? undefined; // what is not known does not apply to the job
  const facts = [
    ["Mode", job.update],
    ["Step", isNumber(most) ? `${count(step) ?? "–"} of ${count(most)}` : count(step)],
    ["Time left (ETA)", isOver ? "ended" : most === null ? "no end set" : duration(status.eta_secs)],
    ["Loss", number(status.loss)],
    ["Examples/s", isOver ? known(number(status.examples_per_sec)) : number(status.examples_per_sec)],
    ...Object.entries(status.metrics ?? {}).map(([name, value]) => [name, number(value)]),
  ];
  const more = [
    ["Running for", duration(status.elapsed_secs)],
    ["Steps/s", isOver ? known(number(status.steps_per_sec)) : number(status.steps_per_sec)],
    ["Waiting", status.waiting ? share(status.waiting.share) : undefined],
    ["Staleness, mean", status.staleness ? number(status.staleness.mean) : undefined],
    ["Batch size", count(job.batch_size) ?? job.batch_size],
    ...DISPLAYS.gauges.filter(({ key }) => !isOfStream(key)).map((gauge) => [gauge.label, gaugeText(gauge, status)]),
    ["Updates skipped", known(count(status.skipped))],
    ["Gradients dropped", known(count(status.dropped))],
    ["Last save", isNumber(save.last_step) ? `step ${count(save.last_step)}` : "none yet"],
    [
      "Hold of a save",
      save.count ? `${duration(save.hold_secs_mean) ?? "–"}, most ${duration(save.hold_secs_max) ?? "–"}` : undefined,
    ],
  ];
  const applies = ([, value]) => value !== undefined;
  const shown = facts.filter(applies);
  showFacts($("facts"), [...shown, ...new Map(more.filter(applies))], shown.length); // a later value of a label counts
  setText(
    $("about"),
    "Times of day are this machine's; " +
      `${isReport ? "written" : "state of"} ${new Date(status.time * 1000).toLocaleString("en-GB")}. ` +
      `${job.model_dir ?? "no model_dir"} · ps_train ${job.ps_train ?? "–"} · TensorFlow ${job.tensorflow ?? "–"}`,
  );
}

function measured(value, unit) {
  const text = { share, secs: duration }[unit] ?? number;
  const shown = text(value);
  return shown !== null && ["steps", "gradients"].includes(unit) ? `${shown} ${unit}` : shown;
}

const helped = (advice, page) => (advice && page ? `${advice} (help: ${page})` : advice);

function showHealth(rules) {
  const order = Object.keys(HEALTH);
  const sorted = [...rules].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  const many = (state) => rules.filter((rule) => rule.state === state).length;
  const warnings = sorted.filter(({ state }) => state === "warn");
  setText(
    $("health-summary"),
    !rules.length
      ? "No rule has been looked at yet."
      : `${warnings.length ? `▲ ${warnings.length} ${warnings.length === 1 ? "warning" : "warnings"}` : "✓ No warning"}, ` +
          `${many("ok")} ok, ${many("unknown")} not known.`,
  );
  const list = $("warnings");
  while (list.children.length > warnings.length) list.lastChild.remove();
  warnings.forEach(({ text, advice, page }, index) => {
    const item = list.children[index] ?? list.appendChild(element("li", "", element("strong"), element("p")));
    setText(item.children[0], `▲ ${text}`);
    setText(item.children[1], helped(advice ?? "", page));
  });
  fill(
    $("health-table").tBodies[0],
    sorted.map((rule) => {
      const [symbol, kind, text] = HEALTH[rule.state] ?? HEALTH.unknown;
      return [
        rule.task ? `${rule.title} (${rule.task})` : rule.title,
        { text, symbol, kind },
        measured(rule.value, rule.unit),
        measured(rule.limit, rule.unit),
        { text: [rule.text, helped(rule.advice ?? "", rule.page)].filter(Boolean).join("\n"), className: "wide" },
      ];
    }),
  );
}

function showTasks({ ps, workers, job }) {
  const rest = (task) => [bytes(task.sent_bytes_per_sec), bytes(task.received_bytes_per_sec)];
  const plan = (task) => [
    isNumber(task?.share)
      ? { text: `${share(task.share)} (${bytes(task.variable_bytes) ?? "–"})`, bar: task.share }
      : null,
    count(task?.variables),
  ];
  const hosts = (key) => workers.filter((task) => task[key]).map((task) => [task[key], task]);
  const hosted = new Map(DISPLAYS.processes.flatMap(({ key }) => hosts(key))); // one process, one row
  const servers = ps.filter(({ task }) => !hosted.has(task));
  $("ps").hidden = $("ps-link").hidden = !servers.length && hosted.size > 0;
  const shownPs = servers.map((task) => [
    task.task,
    stateOf(task.state),
    number(task.cpu),
    memory(task.rss_bytes, task.memory_limit_bytes),
    ...rest(task),
    ...plan(task),
    task.address,
  ]);
  const shownWorkers = workers.map((task) => {
    const own = ps.find((one) => hosted.get(one.task) === task),
      isSilent = own?.state === "silent" && task.state !== "lost";
    return [
      [task.task, task.is_chief ? " (chief)" : "", own ? `, ${own.task}` : ""].join(""),
      stateOf(isSilent ? "silent" : task.state),
      isNumber(task.heartbeat_age_secs) ? `${duration(task.heartbeat_age_secs)} ago` : null,
      number(task.examples_per_sec),
      number(task.steps_per_sec),
      number(task.cpu),
      memory(task.rss_bytes, task.memory_limit_bytes),
      ...rest(task),
      ...DISPLAYS.columns.map((column) => gaugeText(column, task) ?? null),
      ...plan(own),
      task.location?.replace(`${task.task} on `, ""),
    ];
  });
  for (const [name, rows] of [
    ["ps-table", shownPs],
    ["workers-table", shownWorkers],
  ]) {
    const body = $(name).tBodies[0];
    for (const head of body.parentNode.tHead.rows[0].cells) explain(head, head.textContent);
    fill(body, rows);
    hideEmptyColumns(body, rows);
  }
  const states = new Map(),
    named = (state) =>
      STATES[state]?.[1] === "bad"
        ? ` (${workers
            .filter((task) => task.state === state)
            .map(({ task }) => task)
            .join(", ")})`
        : "";
  for (const { state } of workers) states.set(state, (states.get(state) ?? 0) + 1);
  setText(
    $("workers-summary"),
    `${hosted.size ? DISPLAYS.processes.map(({ label }) => `${label} `).join("") : ""}${workers.length} of ${job.num_workers ?? "?"} workers: ` +
      `${[...states].map(([state, many]) => `${many} ${state}${named(state)}`).join(", ") || "none"}.`,
  );
}

const isOfStream = (key) => key.startsWith("stream.");

function showStream(status) {
  const stream = status.stream ?? null;
  $("stream").hidden = stream === null;
  if (stream === null) return;
  const left = (value) => (stream.unit === "bytes" ? bytes(value) : `${count(value)} ${stream.unit}`),
    growth = isNumber(stream.growth) ? `${number(stream.growth)} times as fast as they are read` : "at a rate not known yet";
  const more = DISPLAYS.gauges.filter(({ key }) => isOfStream(key) && isNumber(at(status, key)));
  const sentences = [`${left(stream.lag)} are left to read; data arrive ${growth}.`];
  sentences.push(...more.map((gauge) => `${gauge.label}: ${gaugeText(gauge, status)}.`));
  setText($("stream-summary"), sentences.join(" "));
  fill(
    $("stream-table").tBodies[0],
    stream.partitions.map(({ partition, lag, task }) => [String(partition), left(lag), task ?? "no worker"]),
  );
}

function showSlices(slices) {
  const rows = slices?.rows ?? [];
  $("slices").hidden = !rows.length;
  if (!rows.length) return;
  const names = [...new Set(rows.flatMap(({ metrics }) => Object.keys(metrics)))],
    head = $("slices-table").tHead.rows[0];
  setText($("slices-title"), `Metrics by ${slices.field}`);
  while (head.cells.length > names.length + 1) head.lastChild.remove();
  [slices.field, ...names].forEach((name, index) => {
    const cell = head.cells[index] ?? head.appendChild(document.createElement("th"));
    cell.scope = "col";
    setText(cell, name);
  });
  fill(
    $("slices-table").tBodies[0],
    rows.map(({ value, metrics }) => [value, ...names.map((name) => number(metrics[name]))]),
  );
}

function showSteps({ step_time: times, waiting, staleness }) {
  const rows = Object.entries(times ?? {}).map(([label, traced]) => ({
    label,
    traced,
    parts: PARTS.map((part) => traced[part] ?? null),
  }));
  const notes = [
    rows.length ? "" : "No worker has traced a step yet.",
    staleness ? "" : "Staleness: none under synchronous updates.",
    waiting ? "" : "Waiting: no worker waits for another in this mode.",
  ];
  setText($("steps-note"), notes.filter(Boolean).join(" "));
  if (rows.length)
    figure("step-charts", "parts", "Time of a step by part").update({
      ...lying({ rows, names: PARTS, text: duration }),
      summary:
        rows
          .slice(0, 3)
          .map(({ label, traced }) => `${label} ${duration(traced.secs) ?? "not known"}`)
          .join(", ") + (rows.length > 3 ? " and others" : ""),
      table: () => ({
        head: ["Worker", "Step", "Whole", ...PARTS],
        rows: rows.map(({ label, traced, parts }) => [
          label,
          count(traced.step),
          duration(traced.secs),
          ...parts.map(duration),
        ]),
      }),
    });
  if (waiting) {
    const shares = Object.entries({ all: waiting.share, ...waiting.per_worker });
    figure("step-charts", "waiting", "Share of waiting").update({
      ...lying({
        rows: shares.map(([label, value]) => ({ label, parts: [value] })),
        names: [""],
        text: share,
        limit: 1,
      }),
      summary: `${share(waiting.share) ?? "not known"} of the workers' time`,
      table: () => ({ head: ["Worker", "Share"], rows: shares.map(([name, value]) => [name, share(value)]) }),
    });
  } else if (figures.waiting) figures.waiting.node.hidden = true;
  $("histogram-option").hidden = !staleness;
  if (staleness) showStaleness(staleness);
  else if (figures.staleness) figures.staleness.node.hidden = true;
}

// Bins of whole numbers as [first, last]: one for each number of a short range, else each twice as wide as the one
// before, so that a few large numbers do not make one bar of all others.
function bins(low, high) {
  const isLong = high - low >= 20,
    found = [];
  for (let first = isLong ? 0 : low, end = first; first <= high; first = end + 1) {
    end = isLong && first > 4 ? 2 * first - 2 : first;
    if (end >= low) found.push([first, Math.min(end, high)]);
  }
  return found;
}

function showStaleness(staleness) {
  const select = $("histogram-of"),
    workers = Object.keys(staleness.per_worker ?? {});
  if (
    select.options.length !== workers.length + 1 ||
    workers.some((name, index) => select.options[index + 1].value !== name)
  ) {
    const chosen = select.value;
    select.replaceChildren(new Option("all workers", ""), ...workers.map((name) => new Option(name, name)));
    select.value = workers.includes(chosen) ? chosen : "";
  }
  const chosen = staleness.per_worker?.[select.value] ?? staleness;
  const counts = Object.entries(chosen.histogram ?? {})
    .map(([value, times]) => [Number(value), times])
    .sort((a, b) => a[0] - b[0]);
  const bars = bins(counts[0]?.[0] ?? 0, counts.at(-1)?.[0] ?? 0).map(([first, end]) => ({
    label: first === end ? String(first) : `${first}–${end}`,
    value: counts.reduce((sum, [value, times]) => sum + (value >= first && value <= end ? times : 0), 0),
  }));
  const row = (name, of) => [name, number(of.mean), number(of.p95), number(of.max), share(of.conflict_rate)];
  figure("step-charts", "staleness", "Staleness of gradients").update({
    ...upright({ bars, yText: number, xName: "updates between pull and apply" }),
    summary:
      `${select.value || "all workers"}: mean ${number(chosen.mean) ?? "not known"}, ` +
      `95 % at most ${number(chosen.p95) ?? "not known"}, most ${number(chosen.max) ?? "not known"}`,
    table: () => ({
      head: ["Worker or staleness", "Mean (or gradients)", "95 %", "Most", "Conflicts"],
      rows: [
        row("all workers", staleness),
        ...workers.map((name) => row(name, staleness.per_worker[name])),
        ...bars.map(({ label, value }) => [`staleness ${label}`, count(value), "", "", ""]),
      ],
    }),
  });
}

function showEvents(status) {
  const events = [...status.events].reverse();
  if (events.length) {
    const { draw, kinds } = timeline({ events: status.events, from: status.start_time ?? Infinity, to: status.time });
    const many = (kind) => events.filter((event) => event.kind === kind).length;
    figure("event-charts", "events", "Timeline").update({
      draw,
      summary: kinds.map((kind) => `${many(kind)} ${kind}`).join(", "),
      table: () => ({ head: ["Event", "Times"], rows: kinds.map((kind) => [kind, count(many(kind))]) }),
    });
  }
  fill(
    $("events-table").tBodies[0],
    events.map(({ time, kind, task, text }) => {
      const [symbol, look] = EVENTS[kind] ?? ["○", "muted"];
      return [clock(time), { text: kind, symbol, kind: look }, task, { text, className: "wide" }];
    }),
  );
  const isEvent = (line) => events.some(({ time, text }) => text === line.text && Math.abs(time - line.time) < 1);
  fill(
    $("log-table").tBodies[0],
    [...status.log]
      .filter((line) => !isEvent(line))
      .reverse()
      .map(({ time, level, text }) => [
      clock(time),
      {
        text: level,
        symbol: level === "warning" ? "▲" : level === "error" ? "✕" : "",
        kind: { warning: "warn", error: "bad" }[level] ?? "muted",
      },
      { text, className: "wide" },
    ]),
  );
}
