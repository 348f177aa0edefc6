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

// written formats a value with three digits and a unit.
function written(value, unit) {
  if (value === null || value === undefined) return "–";
  const scales = {
    "s": [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
    "bytes": [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  }[unit];
  const digits = (x) => String(Number(x.toPrecision(3)));
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

// fromZero returns the range of a scale that includes 0, so that the length of a bar is its value.
const fromZero = (_, low, high) => [Math.min(0, low || 0), high > 0 ? high * 1.08 : 1];

// medians draws one measure: a bar for the median of each contender, and a dot for each round.
function medians(parent, block) {
  const chart = element(parent, "div", undefined, "chart");
  element(chart, "h4", block.title);
  const rows = block.rows;
  const places = [], values = [];
  rows.forEach((row, i) => {
    const rounds = row.measured.rounds;
    const points = rounds.map((value, k) => [i + (k - (rounds.length - 1) / 2) * 0.5 / rounds.length, value, false]);
    for (const [x, y, isBar] of [...points, [i, row.measured.median, true]].sort((a, b) => a[0] - b[0])) {
      places.push(x);
      values.push({ row: i, y, isBar });
    }
  });
  const only = (keep) => values.map((value) => keep(value) ? value.y : undefined);
  const data = [places], series = [{}];
  const bars = uPlot.paths.bars({ size: [0.7, 18] });
  rows.forEach((row, i) => {
    const { colour } = look(row.contender);
    data.push(only((value) => value.row === i && value.isBar), only((value) => value.row === i && !value.isBar));
    series.push(
      { label: row.label, paths: bars, fill: colour + "77", stroke: colour, width: 1, points: { show: false } },
      { label: row.label, paths: () => null, stroke: style("--text"), points: { show: true, size: 5, width: 1, stroke: style("--text"), fill: style("--raised") } },
    );
  });
  const names = rows.map((row) => row.label);
  const tip = element(chart, "div", undefined, "tip");
  tip.hidden = true;
  const plot = new uPlot({
    width: chart.clientWidth - 18, height: 46 + 26 * rows.length, padding: [4, 24, 0, 0],
    // The contenders are on the y axis, because their names do not fit under an x axis.
    scales: { x: { ori: 1, dir: -1, time: false, range: [-0.6, rows.length - 0.4] }, y: { ori: 0, dir: 1, range: fromZero } },
    axes: [
      axis("", Math.min(190, 16 + 7 * Math.max(...names.map((name) => name.length))), {
        side: 3, grid: { show: false }, ticks: { show: false }, splits: () => rows.map((_, i) => i), values: (_, splits) => splits.map((i) => names[i]),
      }),
      axis(block.unit, 32, { side: 2, space: 55 }),
    ],
    legend: { show: false }, cursor: { x: false, y: false, drag: { x: false, y: false }, points: { show: false } },
    series,
    hooks: {
      setCursor: [(u) => {
        const at = u.cursor.idx === null || u.cursor.idx === undefined ? undefined : values[u.cursor.idx];
        tip.hidden = at === undefined || u.cursor.left < 0;
        if (tip.hidden) return;
        const { label, verdict, measured } = rows[at.row];
        tip.textContent = `${label}: median ${written(measured.median, block.unit)}, ` +
          `${written(measured.min, block.unit)} to ${written(measured.max, block.unit)}, ${measured.n} rounds` +
          (verdict === "ours" ? "" : `; Bellerophon is ${verdict}`);
        tip.style.top = `${u.cursor.top + 40}px`;
        tip.style.left = "8px";
      }],
    },
  }, data, chart);
  return plot;
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
    axes: [axis("s", 44, { label: "since the start of the round", labelSize: 20, values: (_, splits) => splits.map((value) => `${value} s`) }), axis(panel.unit, 74)],
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
    const found = await Promise.all(shown.map((panel) => load(group, panel.record)));
    if (mine !== wanted) return;
    charts.forEach((chart) => chart.destroy());
    parent.replaceChildren();
    // Creating objects may take minutes before the contender starts, and has no points.
    const begins = found.flat().filter((line) => line.points.length > 0).map((line) => line.points[0][0]);
    charts = shown.map((panel, i) => lines(parent, panel, found[i], [Math.min(...begins, group.seconds), group.seconds])).filter(Boolean);
    const without = shown.filter((_, i) => found[i].every((line) => line.points.length === 0)).map((panel) => panel.title);
    if (without.length > 0) element(parent, "p", "No contender serves in this turn: " + without.join("; ") + ".", "empty");
    state.textContent = "";
    parent.dataset.shown = group.key + "|" + series.value;
  } catch (error) {
    if (mine === wanted) state.textContent = "Reading the series failed: " + error.message;
  }
}

let tables = [];

function showTables() {
  tables.forEach((chart) => chart.destroy());
  tables = [];
  for (const figure of document.querySelectorAll(".figure")) {
    const parent = figure.querySelector(".blocks");
    parent.replaceChildren();
    tables.push(...page.tables[figure.dataset.table].measures.filter((block) => !block.isFact).map((block) => medians(parent, block)));
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
