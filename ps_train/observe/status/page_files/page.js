// Puts the job's state and curves into the page, and asks for them again while somebody looks.

let answered = null,
  ended = false;

function showStatus(status) {
  last.status = status;
  ended = ENDED.includes(status.state);
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
  showStream(status.stream ?? null);
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
}

function begin() {
  if (isReport) {
    const { status, history } = JSON.parse($("data").textContent);
    showStatus(status);
    showHistory(history ?? {});
    setText($("connection"), "This is the report of a job that has ended.");
  } else {
    poll(
      "api/status",
      2,
      (status) => {
        answered = Date.now() / 1000;
        showStatus(status);
        showConnection(null);
      },
      showConnection,
    );
    poll("api/history", 5, showHistory, () => {});
  }
  for (const id of ["logarithmic", "over-time"])
    $(id).addEventListener("change", () => last.history && showCurves(last.history));
  $("histogram-of").addEventListener("change", () => last.status && showSteps(last.status));
  let resizing = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(resizing);
    resizing = requestAnimationFrame(() => Object.values(figures).forEach((one) => one.redraw()));
  });
}

begin();
