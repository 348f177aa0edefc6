"use strict";
// Each lane shows the last 30 s of a contender. The height of a mark is logarithmic, from 1 ms to 10 s.
const span = 30, width = 1000, height = 176, least = 0.001, most = 10;
const lanes = new Map();
const state = document.getElementById("state");

function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function heightOf(seconds) {
  const share = Math.log(Math.min(Math.max(seconds, least), most) / least) / Math.log(most / least);
  return height - 8 - share * (height - 16);
}

function laneOf(side, index) {
  let lane = lanes.get(side.name);
  if (lane) return lane;
  const title = document.createElement("h2");
  title.textContent = side.name;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `how long changes of ${side.name} took` });
  for (const [seconds, label] of [[0.01, "10 ms"], [0.1, "100 ms"], [1, "1 s"]]) {
    const y = heightOf(seconds);
    picture.append(svg("line", { x1: 0, x2: width, y1: y, y2: y }), svg("text", { x: 4, y: y - 3 }, label));
  }
  const marks = svg("g", { class: `side-${index % 2}` });
  picture.append(marks);
  document.getElementById("lanes").append(title, picture);
  lane = { marks, done: [] };
  lanes.set(side.name, lane);
  return lane;
}

function millis(seconds) { return seconds ? `${Math.round(seconds * 1000)} ms` : "-"; }

function show(sides) {
  const now = performance.now() / 1000;
  const rows = [];
  sides.forEach((side, index) => {
    const lane = laneOf(side, index);
    for (const one of side.done || []) {
      const mark = svg("circle", { r: one.created ? 5 : 3, cy: heightOf(one.seconds) });
      mark.append(svg("title", {}, `${one.object}: ${millis(one.seconds)}`));
      lane.marks.append(mark);
      lane.done.push({ at: now, mark });
    }
    while (lane.done.length > 0 && now - lane.done[0].at > span) lane.done.shift().mark.remove();
    const row = document.createElement("tr");
    for (const text of [side.name, side.objects, side.ready, side.changes, millis(side.createToReadySecondsMedian), millis(side.changeToReadySecondsMedian),
      millis(side.slowestSeconds), `${side.cpuSeconds.toFixed(1)} s`, `${Math.round(side.residentMiB)} MiB`]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      row.append(cell);
    }
    rows.push(row);
  });
  document.getElementById("rows").replaceChildren(...rows);
}

function move() {
  const now = performance.now() / 1000;
  for (const lane of lanes.values()) for (const one of lane.done) one.mark.setAttribute("cx", width * (1 - (now - one.at) / span));
  requestAnimationFrame(move);
}

const events = new EventSource("events");
events.onopen = () => { state.textContent = "live"; };
events.onerror = () => { state.textContent = "the command has ended, or does not answer"; };
events.onmessage = (message) => show(JSON.parse(message.data).sides);
requestAnimationFrame(move);
