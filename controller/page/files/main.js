import { diagram } from "./marbles.js";
import { objects } from "./objects.js";
import { renderHeader, renderState } from "./panels.js";
import { isEmpty, leftOut, now, oldest, onItems, ratesAt, size, stateAt, writeOf } from "./store.js";
import { connect } from "./stream.js";
import { clock, duration, empty, key, make, outcome, some } from "./text.js";

const id = (name) => document.getElementById(name);
const slider = id("slider"), span = id("span"), live = id("live");
let at; // the time that the page shows, or undefined while it is live

id("where").textContent = location.host;

// The theme.
const theme = id("theme");
const remember = (name, value) => {
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return value ?? null; // Storage can be forbidden.
  }
};
function setTheme(name) {
  if (name === "light" || name === "dark") document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  theme.value = ["light", "dark"].includes(name) ? name : "system";
  id("legend").replaceChildren(...marbles.restyle());
}

const tree = objects();
const marbles = diagram(id("marbles"), {
  onSelect: showItem,
  onOpen: (item) => tree.open(item),
  onToggle: () => show(at === undefined ? now() : undefined),
  onLeave: (t) => show(t),
  onZoom(by) {
    span.selectedIndex = Math.min(span.options.length - 1, Math.max(0, span.selectedIndex + by));
    marbles.window(Number(span.value));
  },
});
if (innerWidth < 560) span.value = "5000";
marbles.window(Number(span.value));
setTheme(remember("bellerophon-theme"));
theme.addEventListener("change", () => setTheme(remember("bellerophon-theme", theme.value) ?? theme.value));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(theme.value));

// The time that the page shows.
function show(t) {
  at = t === undefined ? undefined : Math.min(Math.max(t, oldest()), now());
  marbles.show(at);
  live.textContent = at === undefined ? "Pause" : "Live";
  live.setAttribute("aria-pressed", String(at === undefined));
  document.body.classList.toggle("past", at !== undefined);
  tick();
  renderAll();
}
live.addEventListener("click", () => show(at === undefined ? now() : undefined));
slider.addEventListener("input", () => show(Number(slider.value) >= Number(slider.max) ? undefined : oldest() + Number(slider.value)));
span.addEventListener("change", () => marbles.window(Number(span.value)));

function renderAll() {
  const state = stateAt(at);
  renderHeader(state, ratesAt(at));
  renderState(state, at !== undefined);
}

function tick() {
  if (at !== undefined && at < oldest()) at = oldest();
  const length = Math.max(0, now() - oldest());
  slider.max = Math.ceil(length / 500) * 500;
  slider.value = at === undefined ? slider.max : at - oldest();
  const words = at === undefined ? "live" : `${clock(at)}, ${duration(now() - at)} ago`;
  id("clock").textContent = words;
  slider.setAttribute("aria-valuetext", words);
  const { event, change, attempt } = marbles.counts();
  id("count").textContent = isEmpty() ? "No items yet." : `In view: ${some(event, "event")}, ${some(change, "change")}, ${some(attempt, "attempt")}.`;
  id("quiet").hidden = !isEmpty();
  const missing = leftOut.events + leftOut.changes + leftOut.attempts;
  id("left-out").textContent = `It holds ${some(size(), "item")}.` + (missing ? ` ${some(missing, "item was", "items were")} left out by the server since then; the numbers of the state count all.` : "");
}
setInterval(tick, 1000);

// The selected mark, in words.
function showItem(item, marked, how) {
  const detail = id("detail");
  detail.setAttribute("aria-live", how === "hover" ? "off" : "polite");
  if (!item) {
    detail.replaceChildren(empty("Select a mark to see its key, versions and causes, and the way of its object from the watch to the echo."));
    return;
  }
  const facts = [];
  const say = (name, value) => value && facts.push(make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  const title = { event: "Event", change: "Change of the cache", attempt: "Attempt" }[item.what];
  if (item.what === "attempt") {
    say("Controller", item.controller);
    say("Outcome", outcome(item.outcome));
    say("Took", duration(item.took));
    say("Queued", duration(item.queued));
    say("Due again", item.again ? `after ${duration(item.again)}` : "");
    say("Causes", item.causes?.length ? item.causes.map((of) => `${of.kind} ${of.name}@${of.rv}`).join(", ") : "a retry, a timer or a stream");
    say("Writes", (item.writes ?? []).map((of) => `${of.verb} ${of.kind} ${of.name}@${of.rv}`).join(", ") || "none");
    say("Error", item.error);
    say("Attempt", item.id && make("code", {}, item.id));
  } else {
    say("Version", item.rv && make("code", {}, item.rv));
    if (item.what === "event") {
      say("Type", item.type);
      say("Entered the cache", item.received && item.t > item.received ? `${duration(item.t - item.received)} after it was received` : "at once");
      say("Folded", item.coalesced ? some(item.coalesced, "earlier event") : "");
      const wrote = writeOf(item);
      say("Echo of", wrote ? `the ${wrote.write.verb} of ${wrote.attempt.controller}, ${duration(item.t - wrote.write.t)} before` : "");
    } else say("Change", item.change);
  }
  const opener = make("button", { type: "button" }, "Show its tree and why");
  opener.addEventListener("click", () => tree.open(item));
  detail.replaceChildren(make("p", { class: "lead" }, make("strong", {}, `${title}: ${item.kind ? item.kind + " " : ""}${key(item)}`), ` at ${clock(item.started ?? item.t, true)} `), make("dl", { class: "facts" }, ...facts),
    marked.length > 1 ? make("p", { class: "way" }, "Way: ", marked.map(step).join(" → ")) : "", opener);
}

function step(item, i, all) {
  const from = all[0].started ?? all[0].received ?? all[0].t, then = item.started ?? item.t;
  const words = item.what === "attempt" ? `attempt of ${item.controller} ${outcome(item.outcome)}` : item.what === "change" ? `${item.kind} ${item.change} in the cache` : `${writeOf(item) ? "echo" : "event"} of ${item.kind} ${item.name}`;
  return `${words} +${duration(then - from)}`;
}

// The connection.
const pill = id("connection");
let since = null, connection = "";
function onConnection(state, from) {
  const words = state === "connected" ? "connected" : state === "reconnecting" ? `reconnecting since ${clock(from)}` : `disconnected since ${clock(from)}`;
  if (words === pill.textContent) return;
  if (state === "connected" && connection !== "connected") tree.search(since !== null);
  since = from ?? since;
  connection = state;
  pill.dataset.state = state;
  pill.textContent = words;
}

let due = false;
connect(() => {
  marbles.know(stateAt());
  if (at !== undefined || due) return;
  due = true;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  setTimeout(() => {
    due = false;
    if (at === undefined) renderAll();
  }, calm ? 1000 : 250);
}, onConnection);
onItems(() => {
  if (!id("quiet").hidden) tick();
});
tick();
