import { diagram } from "./marbles.js";
import { objects } from "./objects.js";
import { earliest, isCut, isPast, isStill, load, look, newest, recorded, stateOf, trouble } from "./past.js";
import { renderHeader, renderPast, renderState } from "./panels.js";
import { isEmpty, leftOut, now, onItems, pastRates, ratesAt, showPast, size, stateAt, writeOf } from "./store.js";
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

const tree = objects(() => (isPast(at) ? at : undefined));
const marbles = diagram(id("marbles"), {
  onSelect: showItem,
  onOpen: (item) => tree.open(item),
  onToggle: toggle,
  onLeave: (t) => show(t),
  onZoom(by) {
    span.selectedIndex = Math.min(span.options.length - 1, Math.max(0, span.selectedIndex + by));
    zoom();
  },
});
if (innerWidth < 560) span.value = "5000";
marbles.window(Number(span.value));
setTheme(remember("bellerophon-theme"));
theme.addEventListener("change", () => setTheme(remember("bellerophon-theme", theme.value) ?? theme.value));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(theme.value));

// The time that the page shows.
function show(t) {
  const before = at;
  at = t === undefined && !isStill() ? undefined : Math.min(Math.max(t ?? newest(), earliest()), newest());
  if (isPast(at)) settle();
  else if (isPast(before)) arrive();
  marbles.show(at);
  live.textContent = at === undefined ? "Pause" : "Live";
  live.setAttribute("aria-pressed", String(at === undefined));
  document.body.classList.toggle("past", at !== undefined);
  tick();
  renderAll();
}
function toggle() {
  if (!isStill()) show(at === undefined ? now() : undefined);
}
function zoom() {
  marbles.window(Number(span.value));
  if (isPast(at)) settle();
}
live.addEventListener("click", toggle);
slider.addEventListener("input", () => show(Number(slider.value) >= Number(slider.max) ? undefined : earliest() + Number(slider.value)));
span.addEventListener("change", zoom);

// settle reads the recording when the slider rests, and arrive shows what it has, or the memory of the page again.
let inPast = false, settling = 0, stateThen = null, problem = "", reading = null;
function settle() {
  inPast = true;
  clearTimeout(settling);
  reading?.abort();
  if (stateThen && Math.abs(Date.parse(stateThen.time) - at) >= 1) stateThen = null;
  problem = "";
  settling = setTimeout(async () => {
    const t = at, mine = (reading = new AbortController());
    try {
      if (!(await load(t, Number(span.value))) || t !== at) return;
      arrive();
      stateThen = await stateOf(t, mine.signal);
    } catch (failed) {
      if (failed.name === "AbortError") return;
      problem = `The recording cannot be read: ${failed.message}`;
    }
    if (t === at) renderAll();
  }, 200);
}
function arrive() {
  inPast = isPast(at);
  showPast(inPast);
  marbles.reload();
  tree.move();
  tick();
  renderAll();
}

function renderAll() {
  if (isPast(at)) {
    renderPast(stateThen, pastRates(at), { isCut: isCut(), problem });
    return;
  }
  const state = stateAt(at);
  renderHeader(state, ratesAt(at));
  renderState(state, at !== undefined);
}

function tick() {
  if (at !== undefined && at < earliest()) at = earliest();
  if (isPast(at) && !inPast) settle(); // The memory of the page has lost it.
  const length = Math.max(0, newest() - earliest());
  slider.max = Math.ceil(length / 500) * 500;
  slider.value = at === undefined ? slider.max : at - earliest();
  const words = at === undefined ? "live" : `${clock(at)}, ${isPast(at) ? "recorded " : ""}${duration(now() - at)} ago`;
  id("clock").textContent = words;
  slider.setAttribute("aria-valuetext", words);
  const { event, change, attempt } = marbles.counts();
  id("count").textContent = isEmpty() ? "No items." : `In view: ${some(event, "event")}, ${some(change, "change")}, ${some(attempt, "attempt")}.`;
  id("quiet").hidden = !isEmpty();
  id("quiet").textContent = inPast ? "The recording has nothing here." : "Nothing has moved since the page was opened. Marks appear when an object changes.";
  const missing = leftOut.events + leftOut.changes + leftOut.attempts;
  id("recorded").textContent = recorded ? `The slider reaches back to ${clock(recorded.from)}, the beginning of the recording${recorded.cut ? ", whose older part is gone" : ""}.` : trouble ? `The recording cannot be shown: ${trouble}.` : "Without a recording, earlier times are not known.";
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
    say("Queued", item.queued === null ? "not recorded" : duration(item.queued));
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
function follow() {
  return connect(() => {
    marbles.know(stateAt());
    if (at !== undefined || due) return;
    due = true;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    setTimeout(() => {
      due = false;
      if (at === undefined) renderAll();
    }, calm ? 1000 : 250);
  }, onConnection);
}
onItems(() => {
  if (!id("quiet").hidden) tick();
});
tick();

// A long recording takes its time. The present does not wait for it.
let unfollow = null;
const looked = look().then(() => {
  if (!isStill()) return;
  unfollow?.();
  live.disabled = true;
  show(recorded.to);
  onConnection("connected");
  pill.textContent = `recording of ${recorded.version || "an operator"}`;
});
await Promise.race([looked, new Promise((done) => setTimeout(done, 2000))]);
if (!isStill()) {
  unfollow = follow();
  setInterval(look, 30_000); // The ring of the recording forgets its beginning.
}
