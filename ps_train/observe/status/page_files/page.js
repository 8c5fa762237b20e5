// Puts the job's state and curves into the page, and asks for them again while somebody looks.

let answered = null,
  ended = false,
  askHistory = () => {};

function showStatus(status) {
  last.status = status;
  const hasEnded = ENDED.includes(status.state) && !ended;
  ended = ENDED.includes(status.state);
  if (hasEnded) askHistory(); // the last points, before the server goes
  for (const part of [showHeader, showTasks, showSteps, showEvents])
    part({
      ...status,
      ps: status.ps ?? [],
      workers: status.workers ?? [],
      events: status.events ?? [],
      log: status.log ?? [],
      job: status.job ?? {},
    });
  showHealth(status.health ?? []);
  showStream(status);
  showSlices(status.slices ?? null);
}

function showHistory(history) {
  last.history = { points: history.points ?? [], evaluations: history.evaluations ?? [] };
  showCurves(last.history);
}

function showConnection(problem) {
  const isLost = problem !== null && !ended;
  document.body.classList.toggle("silent", isLost);
  setText(
    $("connection"),
    problem === null
      ? ""
      : ended
        ? "The job has ended and its server is gone; this was its last state."
        : answered === null
          ? `No answer yet (${problem}); trying again.`
          : `No answer since ${clock(answered)} (${problem}); trying again. Shown is the last known state. ` +
            "If the job has ended, see report.html in its model_dir.",
  );
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(10000) }).catch((error) => {
    throw new Error(error.name === "TimeoutError" ? "it does not answer in 10 s" : "it cannot be reached");
  });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json().catch(() => {
    throw new Error("its answer is not complete");
  });
}

// Asks every few seconds while the page is seen, less often after failures and where an answer takes long.
function poll(path, secs, take, failed) {
  let timer = 0,
    failures = 0,
    isAsking = false;
  const once = async () => {
    clearTimeout(timer);
    if (document.hidden || isAsking) return;
    isAsking = true;
    const start = performance.now();
    let answer = null;
    try {
      answer = await ask(path);
      failures = 0;
    } catch (error) {
      failures += 1;
      failed(error.message);
    }
    try {
      if (answer !== null) take(answer);
    } finally {
      isAsking = false;
      const took = (performance.now() - start) / 1000;
      timer = setTimeout(once, 1000 * Math.max(Math.min(secs * 2 ** failures, 15), failures ? 0 : 10 * took));
    }
  };
  for (const event of ["visibilitychange", "focus", "online"])
    (event === "visibilitychange" ? document : window).addEventListener(event, once);
  once();
  return once;
}

// A page that is not seen asks for one thing: the end of the job, of which it is told at once.
let isAwaitingEnd = false;
async function awaitEnd() {
  if (isAwaitingEnd) return;
  isAwaitingEnd = true;
  try {
    while (document.hidden && !ended) takeStatus(await ask("api/end"));
  } catch {
    // a page that is seen again finds out what is wrong
  } finally {
    isAwaitingEnd = false;
  }
}

function takeStatus(status) {
  answered = Date.now() / 1000;
  showStatus(status);
  showConnection(null);
}

// A button that shows more and hides it again.
function toggle(id, [more, less], change) {
  const button = $(id);
  button.addEventListener("click", () => {
    const isShown = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(isShown));
    setText(button, isShown ? less : more);
    change(isShown);
  });
}

function begin() {
  $("words").replaceChildren(
    ...Object.entries(WORDS).flatMap(([name, text]) => [element("dt", "", name), element("dd", "", text)]),
  );
  if (isReport) {
    const { status, history } = JSON.parse($("data").textContent);
    showStatus(status);
    showHistory(history ?? {});
    setText($("connection"), "This is the report of a job that has ended.");
  } else {
    poll("api/status", 2, takeStatus, showConnection);
    askHistory = poll("api/history", 5, showHistory, () => {});
    document.addEventListener("visibilitychange", awaitEnd);
    awaitEnd();
  }
  for (const id of ["logarithmic", "over-time"])
    $(id).addEventListener("change", () => last.history && showCurves(last.history));
  toggle("health-all", ["Show all rules", "Show warnings only"], (isShown) => ($("health-rules").hidden = !isShown));
  toggle("facts-all", ["More figures", "Fewer figures"], (isShown) => $("facts").classList.toggle("all", isShown));
  $("histogram-of").addEventListener("change", () => last.status && showSteps(last.status));
  let resizing = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(resizing);
    resizing = requestAnimationFrame(() => Object.values(figures).forEach((one) => one.redraw()));
  });
}

begin();
