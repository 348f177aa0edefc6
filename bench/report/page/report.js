// Draws the charts of the report: the medians of each table, and the time series.
"use strict";

const darkness = matchMedia("(prefers-color-scheme: dark)");

// look returns how a contender is drawn. Lines differ in their dashes too.
function look(contender) {
  const known = page.looks[contender];
  return { dash: known.dash || [], width: contender === "bellerophon" ? 2.5 : 1.5, colour: darkness.matches ? known.dark : known.light };
}

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(parent, tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  parent.append(made);
  return made;
}

const digits = (value) => String(Number(value.toPrecision(3)));

// written formats a value with three digits and a unit.
function written(value, unit) {
  if (value === null || value === undefined) return "–";
  const scales = {
    "s": [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
    "bytes": [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  }[unit];
  if (!scales || value === 0) return value >= 1000 ? Math.round(value).toLocaleString("en") : digits(value);
  const [from, suffix] = scales.find(([from]) => Math.abs(value) >= from) || scales[scales.length - 1];
  return `${digits(value / from)} ${suffix}`;
}

// steps returns the distances between an axis' marks that are round numbers in its unit.
function steps(unit) {
  if (unit !== "bytes") return undefined;
  return [...Array(40).keys()].map((power) => 2 ** power);
}

function axis(unit, size, more) {
  return {
    stroke: style("--text"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line"), width: 1 },
    font: "12px system-ui, 'DejaVu Sans', sans-serif", labelFont: "12px system-ui, 'DejaVu Sans', sans-serif",
    size, values: (_, splits) => splits.map((value) => written(value, unit)), incrs: steps(unit), ...more,
  };
}

// fromZero returns the range of a scale that includes 0.
const fromZero = (_, low, high) => [Math.min(0, low || 0), high > 0 ? high * 1.08 : 1];

// shape creates an SVG element.
function shape(parent, tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

// scaleOf returns the marks of an axis for values of at least 0, and a function that places a value between 0
// and 1. The axis is logarithmic if the values span more than a decade. Its first mark is then a power of ten.
function scaleOf(values, unit) {
  const largest = Math.max(...values), smallest = Math.min(...values.filter((value) => value > 0));
  const scale = unit === "bytes" ? 1024 ** Math.floor(Math.log(largest) / Math.log(1024)) : 1; // 10 MiB is a round number.
  if (largest / smallest > 10) {
    const decades = (value) => Math.log10(value / scale);
    const from = Math.floor(decades(smallest) - 0.05), to = decades(largest);
    const marks = [];
    for (let power = from; power <= to; power += Math.ceil((to - from) / 5)) marks.push(10 ** power * scale);
    return { isLog: true, marks, at: (value) => value > 0 ? Math.max(0, (decades(value) - from) / (to - from)) : 0 };
  }
  const rough = largest / scale / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) * scale;
  const marks = [];
  for (let k = 0; k * step <= largest * 1.0001; k++) marks.push(k * step);
  return { isLog: false, marks, at: (value) => value / (largest * 1.02) };
}

const settingsOf = ({ workers, heap, processors, limits }) =>
  workers === "not recorded" ? "settings not recorded" : `${workers}${workers === "no limit" ? " of" : ""} worker${workers === "1" ? "" : "s"}, heap limit ${heap}, GOMAXPROCS ${processors}${limits ? `, hard limits ${limits}` : ""}`;

// medians draws one measure: a bar with its value for each contender, a line from the smallest to the largest
// round, and a dot for each round.
function medians(parent, block) {
  const { rows, unit } = block;
  const chart = element(parent, "div", undefined, "chart");
  chart.dataset.measure = block.name;
  const { isLog, marks, at } = scaleOf(rows.flatMap((row) => [row.measured.max, row.measured.min, row.measured.median]), unit);
  element(chart, "h4", block.title);
  element(chart, "p", "lower is better" + (isLog ? "; logarithmic axis" : ""), "hint");
  const names = 292, values = 120, each = 36, width = chart.clientWidth - 18, room = width - names - values, height = each * rows.length + 22;
  const drawing = shape(chart, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  const x = (value) => names + room * at(value);
  for (const mark of marks) {
    shape(drawing, "line", { x1: x(mark), x2: x(mark), y1: 0, y2: height - 18, class: "grid" });
    shape(drawing, "text", { x: x(mark), y: height - 4, class: "mark" }, written(mark, unit));
  }
  rows.forEach((row, i) => {
    const top = i * each, middle = top + each / 2 - 2, { colour } = look(row.contender), { median, min, max, n, rounds } = row.measured;
    const group = shape(drawing, "g", {});
    shape(group, "title", {}, `${row.label}: ${written(median, unit)}, ${written(min, unit)} to ${written(max, unit)}, ${n} rounds` +
      (row.noisy ? `, ${row.noisy} noisy` : "") + (row.verdict === "ours" ? "" : `; Bellerophon is ${row.verdict}`));
    shape(group, "text", { x: 0, y: middle - 2, class: "name" }, row.label);
    shape(group, "text", { x: 0, y: middle + 11, class: "settings" }, settingsOf(row.settings));
    shape(group, "rect", { x: names, y: middle - 8, width: Math.max(1, x(median) - names), height: 16, fill: colour + "77", stroke: colour });
    shape(group, "line", { x1: x(min), x2: x(max), y1: middle, y2: middle, class: "spread" });
    (rounds || []).forEach((value, k) => shape(group, "circle", { cx: x(value), cy: middle + (k % 3 - 1) * 4, r: 2, class: "round" }));
    const ratio = row.verdict === "ours" || !row.ratioToOurs ? "" : ` (${digits(row.ratioToOurs)}x)`;
    shape(group, "text", { x: Math.max(x(max), x(median)) + 7, y: middle + 4, class: "value" }, written(median, unit) + ratio);
  });
}

// lines draws one time series of all contenders and names the contenders without it. The axis has
// the seconds from first to last, so that all charts of a group have the same axis.
function lines(parent, panel, found, [first, last]) {
  const drawn = found.filter((line) => line.points.length > 0);
  if (drawn.length === 0) return undefined;
  const chart = element(parent, "div", undefined, "chart");
  chart.dataset.record = panel.record;
  element(chart, "h4", panel.title);
  const lacking = found.filter((line) => line.points.length === 0).map((line) => line.label);
  const looked = [undefined, ...drawn.map((line) => look(line.contender))];
  // A point without a value at both ends gives every chart the same axis.
  const data = uPlot.join([[[first, last]]].concat(drawn.map((line) => [line.points.map((point) => point[0]), line.points.map((point) => point[1])])));
  const plot = new uPlot({
    width: chart.clientWidth - 18, height: 240, padding: [8, 24, 0, 0],
    scales: { x: { time: false }, y: { range: fromZero } },
    axes: [axis("s", 44, { label: "since the start of the contender", labelSize: 20, values: (_, splits) => splits.map((value) => `${value} s`) }), axis(panel.unit, 74)],
    cursor: { sync: { key: "series" }, focus: { prox: 24 } }, focus: { alpha: 0.3 },
    legend: { markers: { width: 3, fill: () => "transparent", stroke: (_, i) => looked[i]?.colour, dash: (_, i) => looked[i]?.dash.length ? "dashed" : "solid" } },
    series: [
      { label: "second", value: (_, value) => value === null ? "–" : `${Number(value.toFixed(1))} s` },
      ...drawn.map((line, i) => {
        const { colour, dash, width } = looked[i + 1];
        return { label: line.label, stroke: colour, width, dash, points: { show: false }, value: (_, value) => written(value, panel.unit) };
      }),
    ],
  }, data, chart);
  if (lacking.length > 0) element(chart, "p", "Not served by " + lacking.join(", ") + ".", "empty");
  return plot;
}

// load returns the lines of a record from the page, or from the server that sent the page.
async function load(group, record) {
  const held = page.series && page.series[group.key];
  if (held) return held[record] || [];
  const answer = await fetch("series?" + new URLSearchParams({ group: group.key, record }));
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

// before is how many seconds the charts show before a contender starts: what the servers do then.
const before = 5;

// execs returns when each contender of a group was started, in seconds since the start of its round. Runs of
// before 25 November 2026 did not keep that. There it is the first second with memory of the contender.
async function execs(group) {
  const started = { ...group.execs };
  for (const line of await load(group, "bench:rss_bytes")) {
    if (started[line.label] === undefined && line.points.length > 0) started[line.label] = line.points[0][0];
  }
  return started;
}

// aligned moves a line so that second 0 is the start of the contender. A contender that was never seen keeps
// the start of its round.
function aligned(line, started) {
  const from = started[line.label] || 0;
  return { ...line, points: line.points.map(([second, value]) => [second - from, value]).filter(([second]) => second >= -before) };
}

function fill(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  if (options.some(([value]) => value === before)) select.value = before;
}

let charts = [], wanted = 0;

async function showSeries() {
  const [scenario, turn, series] = ["scenario", "turn", "series"].map((name) => document.getElementById("pick-" + name));
  const groups = page.groups.filter((group) => group.name === scenario.value);
  fill(turn, groups.map((group) => [group.key, String(group.turn)]));
  const group = groups.find((group) => group.key === turn.value);
  const state = document.getElementById("series-state"), parent = document.getElementById("panels");
  const mine = ++wanted; // The answer to an earlier choice is dropped.
  state.textContent = "loading";
  try {
    const shown = page.panels.filter((panel) => !series.value || panel.record === series.value);
    const started = await execs(group);
    const found = (await Promise.all(shown.map((panel) => load(group, panel.record)))).map((lines) => lines.map((line) => aligned(line, started)));
    if (mine !== wanted) return;
    charts.forEach((chart) => chart.destroy());
    parent.replaceChildren();
    const ends = found.flat().filter((line) => line.points.length > 0).map((line) => line.points[line.points.length - 1][0]);
    const isZero = (lines) => lines.every((line) => line.points.every(([, value]) => value === 0));
    charts = shown.map((panel, i) => isZero(found[i]) ? undefined : lines(parent, panel, found[i], [-before, Math.max(...ends, 1)])).filter(Boolean);
    const titles = (keep) => shown.filter((_, i) => keep(found[i])).map((panel) => panel.title).join("; ");
    const without = titles((lines) => lines.every((line) => line.points.length === 0));
    const zero = titles((lines) => isZero(lines) && lines.some((line) => line.points.length > 0));
    if (without) element(parent, "p", "No contender serves in this turn: " + without + ".", "empty");
    if (zero) element(parent, "p", "Always 0 in this turn: " + zero + ".", "empty");
    state.textContent = "";
    parent.dataset.shown = group.key + "|" + series.value;
  } catch (error) {
    if (mine === wanted) state.textContent = "Reading the series failed: " + error.message;
  }
}

function showTables() {
  for (const figure of document.querySelectorAll(".figure")) {
    const parent = figure.querySelector(".blocks"), blocks = page.tables[figure.dataset.table].measures.filter((block) => !block.isFact);
    parent.replaceChildren();
    const isZero = (block) => block.rows.every((row) => row.measured.max === 0);
    for (const block of blocks) if (!isZero(block)) medians(parent, block);
    const zero = blocks.filter(isZero).map((block) => block.title);
    if (zero.length > 0) element(parent, "p", "0 for every contender in every round: " + zero.join("; ") + ".", "empty");
  }
}

function show() {
  showTables();
  if (document.getElementById("panels")) showSeries();
}

if (document.getElementById("panels")) {
  fill(document.getElementById("pick-scenario"), [...new Set(page.groups.map((group) => group.name))].map((name) => [name, name]));
  fill(document.getElementById("pick-series"), [["", "all"], ...page.panels.map((panel) => [panel.record, panel.title])]);
  for (const name of ["scenario", "turn", "series"]) document.getElementById("pick-" + name).addEventListener("change", showSeries);
}
darkness.addEventListener("change", show);
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(show, 150); });
show();
