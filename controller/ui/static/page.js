// The live page: the master's data, drawn. All text of applications is put in as text, never as HTML.
// Field names are those of the master's API (docs/protocol.md); a course's points are rows of POINT.
import uPlot from "./uPlot.esm.js";

const POINT = { time: 0, stage: 1, setPoint: 2, progress: 3, demand: 4, granted: 5, used: 6, debt: 7 };
const MOST_LAYERS = 11; // applications with a colour of their own; the rest is one layer
const MOST_ROWS = 200; // of a table
const LONGEST_STAGE = 200; // characters of a stage's name, as in a terminal
const KEPT_LOOKS = 900;
const RETRY_MS = 2000;
const PRIORITIES = { "-1": "backfill", 0: "low", 50: "normal", 100: "high" };
const DASHES = { dashed: [8, 5], dotted: [3, 4] };

const main = document.getElementById("main");
const stateLine = document.getElementById("state");
const announced = document.getElementById("announced");
const dialog = document.getElementById("dialog");
const dark = matchMedia("(prefers-color-scheme: dark)");

// ------------------------------------------------------------------ elements and words

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function announce(text) {
  announced.textContent = text;
}

const plain = (value, digits = 2) => (value == null ? "–" : value.toFixed(digits));
const cores = (value) => plain(value, 2);
const percent = (value, digits = 0) => (value == null ? "–" : `${value.toFixed(digits)}%`);
const share = (value) => (value == null ? "–" : percent(100 * value));
const memory = (mb) => (!mb ? "–" : mb < 10240 ? `${mb} MiB` : `${(mb / 1024).toFixed(1)} GiB`);

function duration(seconds) {
  if (seconds == null) return "–";
  const sign = seconds < 0 ? "-" : "";
  const whole = Math.abs(seconds);
  if (Math.round(10 * whole) < 600) return `${sign}${whole.toFixed(1)}s`;
  const rounded = Math.round(whole);
  const parts = [[Math.floor(rounded / 86400), "d"], [Math.floor(rounded / 3600) % 24, "h"],
    [Math.floor(rounded / 60) % 60, "m"], [rounded % 60, "s"]];
  const first = parts.findIndex(([number]) => number > 0);
  return sign + parts.slice(first, first + 2).filter(([number]) => number > 0).map((part) => part.join("")).join("");
}

const cut = (text) => (text.length > LONGEST_STAGE ? `${text.slice(0, LONGEST_STAGE)}…` : text);
const counted = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
const moment = (epoch_s) => new Date(1000 * epoch_s).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
const ended = (view) => view.state === "ended";
const succeeded = (one) => one.outcome === "succeeded";
const priorityName = (view) => PRIORITIES[view.priority] ?? String(view.priority);
const inPipeline = (view) => view.pipeline || "–";
const applicationLink = (id, name) => element("a", { href: `#/application/${encodeURIComponent(id)}` }, name);

// The distance from the deadline in percent of it; null without a deadline, or if the run did not succeed: its reason says why.
const distance = (view) => (ended(view) && view.deadline_s && succeeded(view) ? 100 * (view.elapsed_s / view.deadline_s - 1) : null);
const late = (view) => (ended(view) ? distance(view) > 0
  : view.deadline_s != null && Math.max(view.elapsed_s, view.forecast_end_s ?? 0) > view.deadline_s);
const lateSince = (view) => (view.basis?.late_since_s == null ? "" : ` since ${duration(view.basis.late_since_s)}`);
const forecastEnd = (view) => duration(view.forecast_end_s) + (!ended(view) && late(view) ? `, late${lateSince(view)}` : "");

function offBy(percentage) {
  if (percentage == null) return "–";
  return `${Math.abs(percentage).toFixed(1)}% ${percentage > 0 ? "late" : "early"}`;
}

function howEnded(view) {
  const percentage = distance(view);
  if (percentage == null) return view.reason || (succeeded(view) ? "by itself" : "–");
  const why = view.lateness ? `: ${view.lateness.sentence}` : "";
  return `${percentage > 0 ? "late" : "early"} by ${Math.abs(percentage).toFixed(1)}%${why}`;
}

// Return the name of each application; a name that several of them have gets the end of the id.
function labels(applications) {
  const times = new Map();
  for (const { name } of applications) times.set(name, (times.get(name) ?? 0) + 1);
  const label = (view) => (times.get(view.name) > 1 ? `${view.name} …${view.application_id.slice(-6)}` : view.name);
  return applications.map((view) => [view.application_id, view.name ? label(view) : view.application_id]);
}

// ------------------------------------------------------------------ tables

// `columns`: heading, text of an item (or a link), whether it is a number, and when it is shown, if not always.
class Table {
  constructor(caption, columns, empty) {
    this.name = caption;
    this.columns = columns;
    this.rows = new Map();
    this.caption = element("caption", {}, caption);
    this.body = element("tbody");
    this.empty = element("p", { class: "quiet" }, empty);
    this.heads = element("tr");
    this.table = element("table", {}, this.caption, element("thead", {}, this.heads), this.body);
    this.node = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, this.table, this.empty);
  }

  show(all, keyOf, isLate = () => false) {
    const items = all.slice(0, MOST_ROWS);
    say(this.caption, all.length > MOST_ROWS ? `${this.name}: the first ${MOST_ROWS} of ${all.length}` : this.name);
    const columns = this.columns.filter(([, , , shown]) => !shown || shown());
    if (columns.length !== this.heads.childElementCount) {
      this.heads.replaceChildren(
        ...columns.map(([name, , number]) => element("th", { scope: "col", class: number ? "number" : "" }, name)));
      this.rows.clear();
      this.body.replaceChildren();
    }
    const keys = new Set();
    let before = null;
    for (const item of items) {
      const key = keyOf(item);
      keys.add(key);
      let row = this.rows.get(key);
      if (!row) {
        row = element("tr", {}, ...columns.map(([, of, number], index) => {
          const content = of(item);
          const properties = { class: number ? "number" : "" };
          const cell = element(index === 0 ? "th" : "td", index === 0 ? { ...properties, scope: "row" } : properties);
          cell.append(content);
          return cell;
        }));
        this.rows.set(key, row);
      } else {
        columns.forEach(([, of], index) => {
          const content = of(item);
          const cell = row.cells[index];
          if (cell.textContent !== (content.textContent ?? content)) cell.replaceChildren(content);
        });
      }
      row.classList.toggle("late", isLate(item));
      const place = before ? before.nextSibling : this.body.firstChild;
      if (place !== row) this.body.insertBefore(row, place);
      before = row;
    }
    for (const [key, row] of this.rows) {
      if (!keys.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    }
    this.table.hidden = keys.size === 0;
    this.empty.hidden = keys.size > 0;
  }
}

// ------------------------------------------------------------------ charts

const clockTimes = (_, ticks) => ticks.map((tick) => new Date(1000 * tick).toLocaleTimeString());
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const layerColour = (number) =>
  `hsl(${(number * 137 + 210) % 360} 60% ${(dark.matches ? 60 : 45) + 13 * (Math.floor(number / MOST_LAYERS) % 3)}%)`;

// An application keeps the number of its colour while it has grants here: over changes of rank, pages and reloads.
class Colours {
  constructor() {
    this.numbers = new Map(JSON.parse(sessionStorage.getItem("sparkpace-colours") ?? "[]"));
  }

  give(ids, grants) {
    for (const id of this.numbers.keys()) if (!grants.has(id)) this.numbers.delete(id);
    const taken = new Set(this.numbers.values());
    let free = 0;
    for (const id of ids.filter((one) => !this.numbers.has(one))) {
      while (taken.has(free)) free += 1;
      taken.add(free);
      this.numbers.set(id, free);
    }
    sessionStorage.setItem("sparkpace-colours", JSON.stringify([...this.numbers]));
  }
}

// `describe` puts the picture in words, for readers who cannot see it; `marks` are vertical lines, named above the plot.
// Without any value there is the sentence `empty` instead.
class Chart {
  constructor(label, { time = false, height = 240, unit = "", across = "", whole = false, empty = "" } = {}) {
    this.whole = whole; // x counts
    this.label = label;
    this.time = time;
    this.height = height;
    this.unit = unit;
    this.across = across; // what x counts, in words
    this.shape = "";
    this.marks = [];
    this.plotted = element("div");
    this.legend = element("ul", { class: "legend" });
    this.picture = element("div", { role: "img", "aria-label": label }, this.plotted);
    this.empty = element("p", { class: "quiet" }, empty);
    this.empty.hidden = true;
    this.node = element("div", { class: "chart" }, this.picture, this.legend, this.empty);
    this.resized = new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: this.height }));
    this.resized.observe(this.node);
    this.themed = () => { this.shape = ""; if (this.last) this.draw(...this.last); };
    dark.addEventListener("change", this.themed);
  }

  width() {
    return Math.max(200, this.node.clientWidth - 18);
  }

  // `series`: label, colour, dash, fill, range of its scale.
  draw(series, data, marks = [], describe = "", xRange = null) {
    this.last = [series, data, marks, describe, xRange];
    this.marks = marks;
    this.xRange = xRange;
    const blank = data.slice(1).every((values) => values.every((value) => value == null));
    this.picture.hidden = this.legend.hidden = blank;
    this.empty.hidden = !blank;
    if (blank) return;
    this.picture.setAttribute("aria-label", `${this.label}. ${describe}`);
    const shape = JSON.stringify([series.map((one) => [one.label, one.colour(), one.dash, one.fill, one.points]), Boolean(xRange), dark.matches]);
    if (shape === this.shape) {
      this.plot.setData(data);
      return;
    }
    this.shape = shape;
    this.plot?.destroy();
    this.plot = new uPlot(this.options(series), data, this.plotted);
    this.legend.replaceChildren(...series.map((one) => {
      const swatch = element("span", { class: `swatch ${one.dash ?? ""}`, "aria-hidden": "true" });
      swatch.style.color = one.colour();
      return element("li", {}, swatch, one.label);
    }));
  }

  options(series) {
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    return {
      width: this.width(),
      height: this.height,
      padding: [this.marks.length ? 6 + 15 * this.marks.length : null, null, null, null],
      legend: { show: false },
      cursor: { drag: { x: false, y: false } },
      scales: {
        x: { time: this.time, range: (_, low, high) => (this.xRange ? this.xRange() : [low ?? 0, high > low ? high : (low ?? 0) + 1]) },
        y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 0.1) * 1.05] },
      },
      axes: [{ ...axis, ...(this.time ? { space: 110, size: 30, values: clockTimes } : {}),
        ...(this.across ? { label: this.across, size: 30, labelSize: 20 } : {}), ...(this.whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] } : {}) }, { ...axis, label: this.unit, size: 60 }],
      series: [{}, ...series.map((one) => ({
        label: one.label, stroke: one.colour(), fill: one.fill ? (one.faint ? `${one.colour()}55` : one.colour()) : undefined, width: 1.5, dash: DASHES[one.dash],
        points: { show: Boolean(one.points) }, paths: one.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
      }))],
      hooks: { draw: [(plot) => this.drawMarks(plot)] },
    };
  }

  drawMarks(plot) {
    const { ctx, bbox } = plot;
    const shown = this.marks.map((mark, index) => ({ ...mark, index })).filter(
      ({ x }) => x != null && x >= plot.scales.x.min && x <= plot.scales.x.max);
    ctx.save();
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash([]);
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    for (const { x, name, colour: of, index } of shown) {
      const left = plot.valToPos(x, "x", true);
      ctx.strokeStyle = ctx.fillStyle = colour(of);
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      ctx.textAlign = left > bbox.left + bbox.width / 2 ? "right" : "left";
      ctx.fillText(name, left, bbox.top - (4 + 15 * index) * devicePixelRatio);
    }
    ctx.restore();
  }

  close() {
    this.resized.disconnect();
    dark.removeEventListener("change", this.themed);
    this.plot?.destroy();
  }
}

// ------------------------------------------------------------------ cluster

class ClusterPage {
  constructor() {
    this.title = "Cluster";
    this.query = "?past=1";
    this.times = [];
    this.grants = new Map();
    this.names = new Map();
    this.colours = new Colours();
    this.sums = element("p", { id: "sums" });
    this.chart = new Chart("Cores granted over time, by application", { time: true, height: 280, unit: "cores",
      empty: "No application has been granted cores in this time." });
    this.since = element("p", { class: "quiet" });
    this.silences = element("p", { id: "silences" });
    this.workers = new Table("Workers", [
      ["Worker", (worker) => worker.worker_id], ["Host", (worker) => worker.host], ["Runtime", (worker) => worker.runtime],
      ["Cores", (worker) => cores(worker.cores), true], ["Memory", (worker) => memory(worker.memory_mb), true],
      ["Heard", (worker) => `${duration(worker.seen_s_ago)} ago`, true],
    ], "No worker is here.");
    const whose = [
      ["Application", (view) => applicationLink(view.application_id, this.names.get(view.application_id))],
      ["Pipeline", inPipeline, false, () => this.pipelines],
    ];
    this.waiting = new Table("Applications that wait, in order, and why", [
      ...whose,
      ["Place", (view) => (view.place == null ? "–" : String(view.place)), true],
      ["Waited", (view) => duration(view.elapsed_s), true], ["Why", (view) => view.reason || "–"],
    ], "No application waits.");
    this.running = new Table("Running applications", [
      ...whose, ["Priority", priorityName, true], ["Elapsed", (view) => duration(view.elapsed_s), true],
      ["Deadline", (view) => duration(view.deadline_s), true], ["Forecast end", forecastEnd, true],
      ["Done", (view) => share(view.progress), true], ["Granted", (view) => cores(view.granted_cores), true],
      ["Demanded", (view) => cores(view.demand_cores), true], ["Used", (view) => cores(view.used_cores), true],
      ["Debt, core-s", (view) => plain(view.debt_core_s, 1), true], ["Memory", (view) => memory(view.memory_mb), true],
    ], "Nothing runs.");
    this.ended = new Table("Ended applications, the newest first", [
      ...whose, ["Priority", priorityName, true], ["Deadline", (view) => duration(view.deadline_s), true],
      ["End", (view) => duration(view.elapsed_s), true], ["How it ended", howEnded],
    ], "None is remembered.");
    this.node = element("div", {}, element("h1", {}, "Cluster"), this.sums, element("h2", {}, "Grants"), this.chart.node, this.since,
      element("h2", {}, "Waiting"), this.waiting.node, element("h2", {}, "Running"), this.running.node,
      element("h2", {}, "Workers"), this.silences, this.workers.node, element("h2", {}, "Ended"), this.ended.node);
  }

  past({ times, grants }) {
    this.times = times;
    this.grants = new Map(Object.entries(grants));
    this.first = true;
  }

  cluster({ at, trouble, applications, workers }) {
    const alive = applications.filter((view) => !ended(view));
    const sum = (field) => alive.reduce((total, view) => total + view[field], 0);
    const all = workers.reduce((total, worker) => total + (worker.silence ? 0 : worker.cores), 0);
    say(this.sums, `${alive.length} running or waiting, ${applications.length - alive.length} ended · ` +
      `${cores(sum("granted_cores"))} of ${cores(all)} cores granted, ${cores(sum("demand_cores"))} demanded, ` +
      `${cores(sum("used_cores"))} used`);
    for (const [id, label] of labels(applications)) this.names.set(id, label);
    this.pipelines = applications.some((view) => view.pipeline);
    if (!trouble && at > (this.times.at(-1) ?? 0)) this.add(at, alive);
    this.drawStack();
    say(this.silences, workers.map((worker) => worker.silence).filter(Boolean).join(". "));
    this.workers.show(workers, (worker) => worker.worker_id, (worker) => Boolean(worker.silence));
    const waits = alive.filter((view) => view.state === "waiting" || view.place != null);
    waits.sort((one, other) => (one.place ?? Infinity) - (other.place ?? Infinity));
    this.waiting.show(waits, (view) => view.application_id);
    this.running.show(alive.filter((view) => view.state === "running"), (view) => view.application_id, late);
    this.ended.show(applications.filter(ended).reverse(), (view) => view.application_id, late);
  }

  add(at, alive) {
    const granted = new Map(alive.filter((view) => view.granted_cores > 0).map((view) => [view.application_id, view.granted_cores]));
    for (const id of granted.keys()) if (!this.grants.has(id)) this.grants.set(id, new Array(this.times.length).fill(0));
    this.times.push(at);
    for (const [id, values] of this.grants) values.push(granted.get(id) ?? 0);
    if (this.times.length > KEPT_LOOKS) {
      this.times.shift();
      for (const [id, values] of this.grants) {
        values.shift();
        if (!values.some((value) => value > 0)) this.grants.delete(id);
      }
    }
  }

  // The largest applications are layers of their own. Each layer is drawn down to 0, the highest first.
  drawStack() {
    if (!this.times.length) return;
    say(this.since, `Since ${new Date(1000 * this.times[0]).toLocaleTimeString()}: at most the last quarter of an hour that ` +
      "this page's server has seen.");
    const total = (values) => values.reduce((sum, value) => sum + value, 0);
    const ranked = [...this.grants].map(([id, values]) => [id, values, total(values)]).sort((one, other) => other[2] - one[2]);
    const own = ranked.slice(0, MOST_LAYERS);
    this.colours.give(own.map(([id]) => id), this.grants);
    const layers = own.map(([id, values]) => [this.names.get(id) ?? id, values, () => layerColour(this.colours.numbers.get(id))]);
    const rest = ranked.slice(MOST_LAYERS);
    if (rest.length) {
      const others = this.times.map((_, index) => rest.reduce((sum, [, values]) => sum + values[index], 0));
      layers.push([counted(rest.length, "other"), others, () => colour("--quiet")]);
    }
    const sums = [];
    let below = new Array(this.times.length).fill(0);
    layers.forEach(([name, values, of]) => {
      below = below.map((value, at) => value + values[at]);
      sums.push({ label: name, values: below, colour: of, fill: true, steps: true });
    });
    sums.reverse();
    const describe = layers.map(([name, values]) => `${name}: ${cores(values.at(-1))}`).join(", ");
    this.chart.draw(sums, [this.times, ...sums.map((one) => one.values)], [], `Now ${describe}.`);
  }

  close() {
    this.chart.close();
  }
}

// ------------------------------------------------------------------ application

const FIGURES = [
  ["state", "State", (view) => (view.place != null ? `${view.state}, place ${view.place}` : view.outcome ? view.outcome.replace("_", " ") : view.state)],
  ["pipeline", "Pipeline", inPipeline],
  ["elapsed_s", "Elapsed", (view) => duration(view.elapsed_s)],
  ["deadline_s", "Deadline", (view) => duration(view.deadline_s)],
  ["forecast_end_s", "Forecast end", forecastEnd],
  ["distance", "Distance from deadline", (view) => offBy(distance(view))],
  ["progress", "Progress", (view) => share(view.progress)],
  ["stages", "Stages done", (view) => `${view.stages_done}${view.stages_total == null ? "" : ` of ${view.stages_total}`}`],
  ["granted_cores", "Cores granted", (view) => cores(view.granted_cores)],
  ["demand_cores", "Cores demanded", (view) => cores(view.demand_cores)],
  ["used_cores", "Cores used", (view) => cores(view.used_cores)],
  ["debt_core_s", "Debt, core-s", (view) => plain(view.debt_core_s, 1)],
  ["executors", "Executors", (view) => String(view.executors)],
  ["memory_mb", "Memory", (view) => memory(view.memory_mb)],
  ["priority", "Priority", priorityName],
  ["law", "Law", (view) => view.law],
  ["profile", "Profile", (view) => (view.profile ? `${view.profile} (${counted(view.profile_runs, "run")})` : "–")],
  ["basis", "Forecast rests on", (view) => view.basis?.sentence || "–"],
  ["lateness", "Why it was late", (view) => view.lateness?.sentence || "–"],
];

class ApplicationPage {
  constructor(id) {
    this.id = id;
    this.title = "Application";
    this.query = id ? `?application=${encodeURIComponent(id)}` : "";
    this.points = [];
    this.quotas = [];
    this.numbered = 0;
    this.stages = new Map();
    this.heading = element("h1", {}, id || "Application");
    this.reason = element("p", { id: "reason" });
    this.problem = element("p", { class: "problem" });
    this.notices = element("ul");
    this.figures = new Map(FIGURES.map(([key]) => [key, element("dd", { "data-figure": key }, "–")]));
    this.list = element("dl", { class: "figures" }, ...FIGURES.map(([key, name]) => element("div", {}, element("dt", {}, name), this.figures.get(key))));
    this.setButton = element("button", { type: "button", onclick: () => askSet(this.view) }, "Change deadline or priority…");
    this.killButton = element("button", { type: "button", class: "danger", onclick: () => askKill(this.view) }, "End it…");
    this.buttons = element("div", { class: "buttons" }, this.setButton, this.killButton);
    this.buttons.hidden = true;
    this.progress = new Chart("Progress of the stage", { height: 220, unit: "progress", across: "seconds after submission",
      empty: "No stage has reported its progress." });
    this.use = new Chart("Cores granted, used and demanded over all executors", { height: 220, unit: "cores", across: "seconds after submission",
      empty: "No executor has reported its cores." });
    this.gantt = element("tbody");
    const heads = ["Stage", "Name", "Tasks", "From", "To", "When"].map((name) => element("th", { scope: "col" }, name));
    this.ganttCaption = element("caption", {}, "No stage has begun.");
    const gantt = element("table", { class: "gantt" }, this.ganttCaption, element("thead", {}, element("tr", {}, ...heads)), this.gantt);
    this.bounds = new Table("Largest stages in the runs that it is planned from, and what bounds each", [
      ["Stage", (bound) => element("span", { class: "long" }, cut(bound.name))],
      ["Number", (bound) => String(bound.number), true], ["Bound by", (bound) => bound.bound],
      ["Tasks", (bound) => String(bound.tasks), true], ["Time", (bound) => duration(bound.time_s), true],
      ["Share of the run", (bound) => share(bound.share), true],
    ], "No earlier run shows what bounds its largest stages.");
    this.bounds.node.hidden = true;
    this.quotaTable = new Table("Changes of CPU quotas, the newest first, and why", [
      ["At", (quota) => duration(quota.time_s)], ["Executor", (quota) => quota.executor_id],
      ["From", (quota) => (quota.before == null ? "no limit" : cores(quota.before)), true], ["To", (quota) => cores(quota.cores), true],
      ["Why", (quota) => quota.reason],
    ], "No quota was changed yet.");
    this.details = element("div", {}, this.buttons, this.list, this.notices,
      element("h2", {}, "Progress"), this.progress.node, element("h2", {}, "Cores"), this.use.node,
      element("h2", {}, "Stages"), element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Stages" }, gantt), this.bounds.node,
      element("h2", {}, "Quota changes"), this.quotaTable.node);
    this.list.hidden = this.details.hidden = true;
    this.node = element("div", {}, this.heading, this.reason, this.problem, this.details);
  }

  cluster({ applications }) {
    if (!this.id) {
      const newest = applications.findLast((view) => !ended(view)) ?? applications.at(-1);
      if (newest) location.replace(`#/application/${encodeURIComponent(newest.application_id)}`);
      else say(this.reason, "No application is known here yet.");
      return;
    }
    const view = applications.find((one) => one.application_id === this.id);
    this.buttons.hidden = !view || ended(view);
    if (!view) return;
    if (this.view && this.view.state !== view.state) announce(`${view.name}: ${view.state}. ${view.reason}`);
    if (view.profile_runs && !this.view?.profile_runs) this.loadBounds();
    this.view = view;
    say(this.heading, view.name || view.application_id);
    document.title = `${view.name} · Sparkpace`;
    for (const [key, , of] of FIGURES) say(this.figures.get(key), of(view));
    this.figures.get("forecast_end_s").classList.toggle("late", !ended(view) && late(view));
    say(this.reason, [view.application_id, view.stage && `stage ${view.stage}`, view.reason].filter(Boolean).join(" · "));
    if (this.notices.childElementCount !== view.notices.length) {
      this.notices.replaceChildren(...view.notices.map((notice) => element("li", {}, notice)));
    }
    this.list.hidden = this.details.hidden = false;
    this.drawCurves();
  }

  // Asked once only: the answer follows from the runs before.
  async loadBounds() {
    let largest = [];
    try {
      ({ largest_stages: largest } = await call(`applications/${encodeURIComponent(this.id)}/explain`));
    } catch (failure) {
      say(this.bounds.empty, `What bounds its largest stages is not known: ${failure.message}`);
    }
    this.bounds.show(largest, (bound) => largest.indexOf(bound));
    this.bounds.node.hidden = false;
  }

  course({ first, points, quotas, stages, loading, problem }) {
    this.points.splice(first, Infinity, ...points);
    for (const quota of quotas) this.quotas.push({ ...quota, number: this.numbered++ });
    this.quotas.sort((one, other) => other.time_s - one.time_s || other.number - one.number).splice(MOST_ROWS);
    for (const stage of stages) this.stages.set(`${stage.stage}.${stage.attempt}`, stage);
    say(this.problem, problem || (loading ? "The records are being read." : ""));
    if (!this.view && (this.points.length || this.stages.size)) {
      say(this.reason, "The master does not list this application (any more); its records are shown.");
      this.details.hidden = false;
    }
    this.drawCurves();
    if (quotas.length || !this.quotasShown) {
      this.quotasShown = true;
      this.quotaTable.show(this.quotas, (quota) => quota.number);
    }
    this.drawGantt();
  }

  drawCurves() {
    const column = (name) => this.points.map((point) => point[POINT[name]]);
    const times = column("time");
    const last = this.points.at(-1) ?? [];
    const aimed = column("setPoint").some((value) => value != null);
    const marks = [{ x: this.view?.deadline_s, name: "deadline", colour: "--late" },
      { x: this.view && !ended(this.view) ? this.view.forecast_end_s : null, name: "forecast end", colour: "--progress" }];
    const range = () => [0, Math.max(times.at(-1) ?? 0, 1, ...marks.map(({ x }) => x ?? 0)) * 1.02];
    this.progress.draw([
      { label: "progress", colour: () => colour("--progress") },
      ...(aimed ? [{ label: "set-point", colour: () => colour("--set-point"), dash: "dashed" }] : []),
    ], [times, column("progress"), ...(aimed ? [column("setPoint")] : [])], marks,
    `Now stage ${last[POINT.stage] ?? "none"}, progress ${share(last[POINT.progress])}` +
      `${aimed ? `, set-point ${share(last[POINT.setPoint])}` : ""}.`, range);
    this.use.draw([
      { label: "used", colour: () => colour("--used"), fill: true, faint: true, steps: true },
      { label: "demanded", colour: () => colour("--demand"), dash: "dotted", steps: true },
      { label: "granted", colour: () => colour("--granted"), steps: true },
    ], [times, column("used"), column("demand"), column("granted")], marks,
    `Now ${cores(last[POINT.granted])} granted, ${cores(last[POINT.used])} used, ${cores(last[POINT.demand])} demanded.`, range);
  }

  drawGantt() {
    const spans = [...this.stages.values()].sort((one, other) => one.start_s - other.start_s).slice(-MOST_ROWS);
    if (!spans.length) return;
    const over = !this.view || ended(this.view);
    const latest = over && this.view ? this.view.elapsed_s : (this.points.at(-1)?.[POINT.time] ?? 0);
    const until = Math.max(latest, ...spans.map((span) => span.end_s ?? span.start_s), 0.1);
    const from = spans[0].start_s;
    const width = Math.max(until - from, 0.1);
    say(this.ganttCaption, `${spans.length} of ${this.stages.size} attempts of stages, from ${duration(from)} to ${duration(until)}`);
    this.bars ??= new Map();
    for (const [index, span] of spans.entries()) {
      const key = `${span.stage}.${span.attempt}`;
      let row = this.bars.get(key);
      if (!row) {
        const name = span.attempt ? `${span.stage}, attempt ${span.attempt}` : String(span.stage);
        const bar = element("div", { class: "bar", "aria-hidden": "true" });
        row = element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, span.name), element("td", {}, String(span.tasks)),
          element("td", {}, duration(span.start_s)), element("td"), element("td", { class: "bars" }, bar));
        this.bars.set(key, row);
      }
      say(row.cells[4], span.end_s != null ? duration(span.end_s) : over ? `${duration(until)}, cut off` : "runs");
      const bar = row.cells[5].firstChild;
      bar.className = span.end_s == null && !over ? "bar active" : "bar";
      bar.style.left = `min(${(100 * (span.start_s - from)) / width}%, 100% - 2px)`; // as wide as a bar is at least
      bar.style.width = `${(100 * Math.max(0, (span.end_s ?? until) - span.start_s)) / width}%`;
      if (this.gantt.rows[index] !== row) this.gantt.insertBefore(row, this.gantt.rows[index] ?? null);
    }
    while (this.gantt.rows.length > spans.length) this.gantt.lastChild.remove();
  }

  close() {
    this.progress.close();
    this.use.close();
  }
}

// ------------------------------------------------------------------ history

function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// The excess of the last run's use over the median of the runs before, in percent; null without a run before.
function drift(runs) {
  const used = runs.map((run) => run.used_core_s).filter((value) => value != null && value > 0);
  return used.length < 2 ? null : 100 * (used.at(-1) / median(used.slice(0, -1)) - 1);
}

const interval = ({ least_core_s: least, most_core_s: most }) =>
  (least == null || most == null ? "not known" : `${plain(least, 0)} to ${plain(most, 0)}`);
const signed = (value) => (value == null ? "–" : `${value > 0 ? "+" : ""}${value.toFixed(1)}%`);

class HistoryPage {
  constructor(job) {
    this.job = job;
    this.title = "History";
    this.query = "";
    this.problem = element("p", { class: "problem" });
    this.jobs = new Table("Jobs, by profile", [
      ["Job", (one) => element("a", { href: `#/history/${encodeURIComponent(one.key)}` }, one.name)],
      ["Runs", (one) => String(one.runs.length), true], ["Last off by", (one) => offBy(one.last?.error_pct), true],
      ["Off by on average", (one) => (one.errors.length ? percent(one.errors.reduce((sum, value) => sum + Math.abs(value), 0) / one.errors.length, 1) : "–"), true],
      ["Late", (one) => String(one.runs.filter((run) => run.violated).length), true],
      ["Used, core-s", (one) => plain(one.last?.used_core_s, 1), true], ["Granted, core-s", (one) => plain(one.last?.allocated_core_s, 1), true],
      ["Drift of use", (one) => signed(drift(one.whole)), true],
    ], "No run has ended yet.");
    this.heading = element("h2", {}, "");
    this.whatIf = element("a", {}, "What if it had fewer cores?");
    this.errors = new Chart("Distance from the deadline, run by run", { height: 200, unit: "% of the deadline", across: "run", whole: true,
      empty: "No run that succeeded had a deadline." });
    this.core_s = new Chart("Core-seconds granted and used, run by run", { height: 200, unit: "core-seconds", across: "run", whole: true,
      empty: "No core-seconds are known of a run that succeeded." });
    this.runs = new Table("Runs, the newest first", [
      ["Run", (run) => applicationLink(run.app_id, run.app_id)],
      ["Submitted", (run) => (run.submitted_epoch_s == null ? "–" : moment(run.submitted_epoch_s)), true],
      ["Deadline", (run) => duration(run.deadline_s), true], ["End", (run) => duration(run.end_s), true],
      ["Off by", (run) => offBy(run.error_pct), true], ["Granted, core-s", (run) => plain(run.allocated_core_s, 1), true],
      ["Used, core-s", (run) => plain(run.used_core_s, 1), true], ["Failed tasks", (run) => String(run.tasks_failed ?? "–"), true],
      ["Recog\u00adnised", (run) => share(run.profile_match), true],
      ["Why it ended", (run) => run.end_reason || run.lateness?.sentence || (succeeded(run) ? "by itself" : run.outcome)],
    ], "No run of this job is kept.");
    this.details = element("section", { "aria-label": "One job" }, this.heading, element("p", {}, this.whatIf), this.errors.node, this.core_s.node, this.runs.node);
    this.details.hidden = true;
    this.savedRuns = new Table("Runs that were only watched, the newest first", [
      ["Run", (saved) => applicationLink(saved.application_id, saved.application_id)], ["Name", (saved) => saved.name || "–"],
      ["On time", (saved) => (saved.on_time == null ? "–" : saved.on_time ? "yes" : "no")],
      ["Deadline", (saved) => duration(saved.deadline_s), true], ["End", (saved) => duration(saved.end_s), true],
      ["Least deadline", (saved) => duration(saved.least_deadline_s), true],
      ["Held, core-s", (saved) => plain(saved.held_core_s, 0), true], ["Used, core-s", (saved) => plain(saved.used_core_s, 0), true],
      ["Saved, core-s", (saved) => plain(saved.saved_core_s, 0), true], ["Interval", interval, true],
      ["Remark", (saved) => saved.remark || "–"],
    ], "All of these runs are damaged or have too many samples to be read here.");
    this.savedInAll = element("p", { id: "saved" });
    this.watched = element("section", { "aria-label": "Savings" }, element("h2", {}, "Savings"),
      element("p", { class: "quiet" }, "Saved: core-seconds that the fewest cores for the same deadline, or for the same end, would not have " +
        "held, without what a law keeps in reserve; paced runs usually save less. The interval is the spread over single runs of the " +
        "profile, not a probability."),
      this.savedInAll, this.savedRuns.node);
    this.watched.hidden = true;
    this.node = element("div", {}, element("h1", {}, "History"), this.problem,
      element("p", { class: "quiet" }, "Distances, core-seconds and drift are of runs that succeeded. Drift: how much more the last one used " +
        "than the median of those before it."),
      this.jobs.node, this.details, this.watched);
  }

  cluster({ applications }) {
    const finished = applications.filter((view) => view.finished).length;
    if (finished !== this.finished) {
      this.finished = finished;
      this.load();
    }
  }

  async load() {
    try {
      const { runs } = await call("runs");
      this.show(runs);
      if (runs.some((run) => run.observed)) this.showSavings(await call("savings"));
      say(this.problem, "");
    } catch (failure) {
      this.finished = undefined; // the next look asks again
      say(this.problem, failure.message);
    }
  }

  showSavings({ savings, left_out: leftOut }) {
    this.watched.hidden = false;
    const without = leftOut ? ` (without ${counted(leftOut, "run")}, damaged or of too many samples to be read here)` : "";
    say(this.savedInAll, `In total${without}: ${plain(savings.held_core_s, 0)} core-s held, ${plain(savings.used_core_s, 0)} used, ` +
      `${plain(savings.saved_core_s, 0)} saved (interval: ${interval(savings)})`);
    this.savedRuns.show([...savings.applications].reverse(), (saved) => saved.application_id, (saved) => saved.on_time === false);
  }

  show(runs) {
    const byJob = Map.groupBy ? Map.groupBy(runs, keyOf) : grouped(runs, keyOf);
    const jobs = [...byJob].map(([key, of]) => {
      const well = of.filter(succeeded);
      return { key, name: of.at(-1).name || key, runs: of, whole: well, last: well.at(-1),
        errors: well.map((run) => run.error_pct).filter((value) => value != null) };
    });
    this.jobs.show(jobs.reverse(), (one) => one.key);
    const chosen = jobs.find((one) => one.key === this.job) ?? jobs[0];
    this.details.hidden = !chosen;
    if (!chosen) return;
    say(this.heading, `${chosen.name} (${chosen.key})`);
    this.whatIf.hidden = !chosen.runs.at(-1).profile;
    this.whatIf.setAttribute("href", `#/whatif/${encodeURIComponent(chosen.key)}`);
    const numbers = chosen.runs.map((_, index) => index + 1);
    const range = () => [0.5, numbers.length + 0.5];
    const of = (field) => chosen.runs.map((run) => (succeeded(run) ? run[field] : null));
    this.errors.draw([{ label: "distance from deadline: above 0 is late", colour: () => colour("--progress"), points: true }], [numbers, of("error_pct")], [],
      `Of the last run: ${offBy(chosen.last?.error_pct)}.`, range);
    this.core_s.draw([
      { label: "granted", colour: () => colour("--granted"), points: true },
      { label: "used", colour: () => colour("--used"), points: true },
    ], [numbers, of("allocated_core_s"), of("used_core_s")], [],
    `The last run was granted ${plain(chosen.last?.allocated_core_s, 1)} and used ${plain(chosen.last?.used_core_s, 1)}.`, range);
    this.runs.show([...chosen.runs].reverse(), (run) => run.app_id, (run) => Boolean(run.violated));
  }

  close() {
    this.errors.close();
    this.core_s.close();
  }
}

const keyOf = (run) => run.profile || run.name || run.app_id;

function grouped(items, key) {
  const groups = new Map();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
}

// ------------------------------------------------------------------ what if

class WhatIfPage {
  constructor(profile) {
    this.title = "What-if";
    this.query = "";
    this.known = element("datalist", { id: "profiles" });
    this.profile = element("input", { name: "profile", list: "profiles", value: profile, required: "", autocomplete: "off", maxlength: "1000" });
    this.deadline = element("input", { name: "deadline", placeholder: "90s, 10min, 1h30m", autocomplete: "off" });
    this.cores = element("input", { name: "cores", inputmode: "decimal", placeholder: "all", autocomplete: "off" });
    this.problem = element("p", { class: "problem", role: "alert" });
    this.answer = element("p", { role: "status" });
    this.none = element("p", { class: "quiet" });
    this.needed = element("dd", { "data-figure": "needed" });
    this.least = element("dd", { "data-figure": "least" });
    this.chart = new Chart("When it would end with each number of cores", { height: 300, unit: "seconds to the end", across: "cores" });
    this.points = new Table("Cores against end", [
      ["Cores", (point) => cores(point.cores), true], ["End", (point) => duration(point.end_s), true],
      ["Least of its runs", (point) => duration(point.least_s), true], ["Most of its runs", (point) => duration(point.most_s), true],
    ], "There is no curve.");
    this.spread = element("p", { class: "quiet" });
    this.results = element("section", { "aria-label": "What would be" }, this.answer,
      element("dl", { class: "figures" }, element("div", {}, element("dt", {}, "Fewest cores for the deadline"), this.needed),
        element("div", {}, element("dt", {}, "Earliest deadline with these cores"), this.least)),
      this.chart.node, this.spread, this.points.node);
    this.results.hidden = true;
    const form = element("form", { class: "ask", onsubmit: (event) => { event.preventDefault(); this.load(); } },
      element("label", {}, "Profile", this.profile), element("label", {}, "Deadline after submission", this.deadline),
      element("label", {}, "Cores to itself", this.cores), element("button", {}, "Show"), this.known);
    this.node = element("div", {}, element("h1", {}, "What-if"),
      element("p", { class: "quiet" }, "What a job's earlier runs predict on this cluster: when it would end with fewer cores, " +
        "the fewest cores for a deadline, and the earliest deadline that a number of cores keeps."),
      form, this.none, this.problem, this.results);
    if (profile) this.load();
  }

  cluster({ applications }) {
    const finished = applications.filter((view) => view.finished).length;
    if (finished !== this.finished) {
      this.finished = finished;
      this.list();
    }
  }

  // The profiles to choose from are those of the runs that are kept; any other may be typed.
  async list() {
    try {
      const keys = new Set((await call("runs")).runs.map((run) => run.profile).filter(Boolean));
      say(this.none, keys.size ? "" : "No run that is kept has a profile: the first run of a job that does all its work makes one.");
      this.known.replaceChildren(...[...keys].reverse().slice(0, MOST_ROWS).map((key) => element("option", { value: key })));
    } catch {
      this.finished = undefined; // the next look asks again
    }
  }

  async load() {
    const asked = this.asked = new URLSearchParams({ profile: this.profile.value, deadline: this.deadline.value, cores: this.cores.value });
    try {
      const { plan, deadline_s } = await call(`plan?${asked}`);
      if (asked === this.asked) this.show(plan, deadline_s);
    } catch (failure) {
      if (asked !== this.asked) return;
      this.results.hidden = true;
      say(this.problem, failure.message);
    }
  }

  show({ known, curve, cores: needed, least_deadline_s, cluster_cores, reason }, deadline_s) {
    this.results.hidden = !curve;
    say(this.problem, curve ? "" : reason || (known ? "The master sends no curve." : ""));
    if (!curve) return;
    say(this.answer, reason);
    say(this.needed, cores(needed));
    say(this.least, `${duration(least_deadline_s)} with ${cores(cluster_cores)}`);
    const { points, runs } = curve;
    const of = (field) => points.map((point) => point[field]);
    const alone = runs < 2;
    say(this.spread, alone ? "A single run gives no interval." : `Least and most are those of only ${runs} runs: a spread, not a probability.`);
    const series = [{ label: "end", colour: () => colour("--progress"), points: true }];
    if (!alone) {
      series.push({ label: "least of its runs", colour: () => colour("--demand"), dash: "dotted" },
        { label: "most of its runs", colour: () => colour("--set-point"), dash: "dashed" });
    }
    const data = [of("cores"), of("end_s"), ...(alone ? [] : [of("least_s"), of("most_s")])];
    if (deadline_s != null && deadline_s < 2 * points[0].end_s) { // a later one would flatten the curve
      series.push({ label: `deadline ${duration(deadline_s)}`, colour: () => colour("--late") });
      data.push(points.map(() => deadline_s));
    }
    const mark = { x: needed, name: `needed ${cores(needed)}`, colour: "--granted" };
    const [first, last] = [points[0], points.at(-1)];
    this.chart.draw(series, data, [mark], `With ${cores(first.cores)} cores ${duration(first.end_s)}, with ${cores(last.cores)} ${duration(last.end_s)}.`,
      () => [0, last.cores * 1.02]);
    this.points.show(points, (point) => points.indexOf(point));
  }

  close() {
    this.asked = null;
    this.chart.close();
  }
}

// ------------------------------------------------------------------ changes, each behind a question

async function call(path, body) {
  const asked = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const reply = await fetch(path, asked);
  const answer = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(answer.error ?? `the page's server answered with status ${reply.status}`);
  return answer;
}

function ask(title, contents, verb, act) {
  const problem = element("p", { class: "problem", role: "alert" });
  const cancel = element("button", { type: "button", onclick: () => dialog.close() }, "Leave it");
  const go = element("button", { class: "danger" }, verb);
  const form = element("form", { onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      announce(await act());
      dialog.close();
    } catch (failure) {
      say(problem, failure.message);
    }
    go.disabled = false;
  } }, ...contents, problem, element("div", { class: "buttons" }, cancel, go));
  dialog.replaceChildren(element("h2", { id: "dialog-title" }, title), form);
  dialog.showModal();
  (contents.map((one) => one.querySelector?.("input")).find(Boolean) ?? cancel).focus();
}

function askKill(view) {
  const path = `applications/${encodeURIComponent(view.application_id)}/kill`;
  ask(`End ${view.name}?`, [element("p", {}, `${view.application_id} and its executors end at once. This cannot be taken back.`)], "End it",
    async () => {
      await call(path, {});
      return `${view.name} is being ended.`;
    });
}

function askSet(view) {
  const deadline = element("input", { name: "deadline", placeholder: view.deadline_s == null ? "none" : duration(view.deadline_s), autocomplete: "off" });
  const priority = element("input", { name: "priority", placeholder: priorityName(view), autocomplete: "off" });
  const force = element("input", { name: "force", type: "checkbox" });
  const contents = [
    element("p", {}, `${view.application_id}. What is left empty stays as it is.`),
    element("label", {}, "Deadline: 90s, 10min or 1h30m after submission, by 07:00, weekdays 07:00 Europe/Berlin, an ISO time, or none ", deadline),
    element("label", {}, "Priority: backfill, low, normal, high or 0 to 100 ", priority),
    element("label", {}, force, " even if that deadline cannot be met"),
  ];
  ask(`Change ${view.name}?`, contents, "Change it", async () => {
    const typed = (input) => input.value.trim() || null;
    await call(`applications/${encodeURIComponent(view.application_id)}/set`,
      { deadline: typed(deadline), priority: typed(priority), force: force.checked });
    return `${view.name} was changed.`;
  });
}

// ------------------------------------------------------------------ the pages, and the server's events

const PAGES = { "": ClusterPage, application: ApplicationPage, history: HistoryPage, whatif: WhatIfPage };
let page = null;
let events = null;

function tellState(text, trouble = false) {
  if (stateLine.textContent !== text && trouble) announce(text);
  say(stateLine, text);
  stateLine.classList.toggle("trouble", trouble);
}

function open() {
  const [, kind = "", rest = ""] = location.hash.match(/^#\/([a-z]*)\/?(.*)$/) ?? [];
  const Kind = Object.hasOwn(PAGES, kind) ? PAGES[kind] : ClusterPage;
  let argument = "";
  try {
    argument = decodeURIComponent(rest);
  } catch {
    argument = rest;
  }
  page?.close();
  dialog.close();
  page = new Kind(argument);
  document.title = `${page.title} · Sparkpace`;
  main.replaceChildren(page.node);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === page.title.toLowerCase()) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  listen();
}

function listen() {
  events?.close();
  const mine = page;
  const source = events = new EventSource(`events${page.query}`);
  const on = (name, act) => source.addEventListener(name, (event) => { if (page === mine) act(JSON.parse(event.data)); });
  on("past", (past) => mine.past?.(past));
  on("cluster", (picture) => {
    const at = new Date(1000 * picture.at).toLocaleTimeString();
    if (picture.trouble) tellState(`Not current${picture.at ? ` (as of ${at})` : ""}: ${picture.trouble}`, true);
    else tellState(`Live, ${at}`);
    mine.cluster(picture);
  });
  on("course", (course) => mine.course?.(course));
  on("refused", ({ error: sentence }) => tellState(sentence, true));
  source.onopen = () => { mine.quotas?.splice(0); };
  source.onerror = () => {
    tellState("The page's server does not answer; trying again.", true);
    if (source.readyState === EventSource.CLOSED && page === mine) setTimeout(() => again(mine), RETRY_MS);
  };
}

// A stream that was refused is not tried again by the browser: say why, and try.
async function again(mine) {
  if (page !== mine) return;
  try {
    await call("runs");
    listen();
  } catch (failure) {
    tellState(failure.message, true);
    setTimeout(() => again(mine), RETRY_MS);
  }
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  open();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
open();
