// The items that the page shows: what it has received since it was opened, or a part of a recording. Both are bounded.

export const longest = 10 * 60 * 1000; // milliseconds
export const most = 50_000; // items
const stateEvery = 1000; // milliseconds between two kept states
const stateBytes = 24_000_000; // of kept states

export const leftOut = { events: 0, changes: 0, attempts: 0 };
export const totals = { events: 0, changes: 0, attempts: 0, echoes: 0 };

const none = () => ({
  lanes: new Map(), // name → {name, type, label, items sorted by t}
  gaps: [], // {from, to}: without a connection
  versions: new Map(), // kind|name|rv → {event, change, causes: [attempt], write: {attempt, write}}
  first: 0,
  last: 0,
  number: 0,
});
export const live = none(); // what was received
export let past = none(); // what was read of a recording
export let shown = live; // one of the two

let states = []; // {t, text}
let rates = []; // {t, events, attempts, errors}
let latest = null;
let listeners = [];
let skew = 0; // the server's clock minus this one

export const onItems = (listener) => listeners.push(listener);
export const now = () => Date.now() + skew;
export const oldest = () => live.first || now();
export const size = () => live.number;
export const isEmpty = () => shown.number === 0;

export function lane(type, name, of = live) {
  const id = `${type} ${name}`;
  if (!of.lanes.has(id)) of.lanes.set(id, { id, type, name, items: [], depth: 1, ends: [] });
  return of.lanes.get(id);
}

// replacePast takes pages of a recording in the place of the last ones. It makes lines for controllers without attempts.
export function replacePast(pages, controllers) {
  const wasShown = shown !== live;
  past = none();
  lane("cache", "cache", past);
  for (const of of controllers) lane("controller", of.name, past);
  for (const page of pages) add(page, past);
  if (wasShown) shown = past;
}

export function showPast(wanted) {
  shown = wanted ? past : live;
}

const versionOf = (of) => `${of.kind}|${of.name}|${of.rv}`;

function known(of, all) {
  const id = versionOf(of);
  let found = all.versions.get(id);
  if (!found) all.versions.set(id, (found = { causes: [] }));
  return found;
}

// insert keeps the items of a lane sorted; nearly all arrive in order.
function insert(to, item) {
  const items = to.items;
  let at = items.length;
  while (at > 0 && items[at - 1].t > item.t) at--;
  if (at === items.length) items.push(item);
  else items.splice(at, 0, item);
  item.lane = to;
}

// row finds a row of a controller's lane that is free, so that attempts at the same time are one below the other.
function row(to, started, ended) {
  for (let i = 0; i < 5; i++) {
    if ((to.ends[i] ?? 0) <= started) {
      to.ends[i] = ended;
      to.depth = Math.max(to.depth, i + 1);
      return i;
    }
  }
  return Math.floor(started) % 5;
}

// adjust follows the server's clock. A late message may not set it back at once.
function adjust(t) {
  if (!Number.isFinite(t)) return;
  const found = t - Date.now();
  skew = Math.abs(found - skew) > 2000 ? found : Math.max(found, skew - 20);
}

// ingest adds the data of one event "items".
export function ingest(data) {
  adjust(data.t);
  const came = add(data, live);
  for (const name of ["events", "changes", "attempts"]) {
    leftOut[name] += data.leftOut?.[name] || 0;
    totals[name] += came[name].length;
  }
  totals.echoes += came.echoes.length;
  prune();
  if (shown !== live) return;
  for (const listener of listeners) listener(came);
}

// add adds items to one of the two, and returns them.
function add(data, all) {
  const came = { events: [], changes: [], attempts: [], echoes: [] };
  for (const event of data.events ?? []) {
    event.what = "event";
    insert(lane("source", event.kind, all), event);
    const version = known(event, all);
    version.event = event;
    if (version.write) came.echoes.push(event);
    came.events.push(event);
  }
  for (const change of data.changes ?? []) {
    change.what = "change";
    insert(lane("cache", "cache", all), change);
    known(change, all).change = change;
    came.changes.push(change);
  }
  for (const attempt of (data.attempts ?? []).sort((a, b) => a.started - b.started)) {
    attempt.what = "attempt";
    attempt.t = attempt.started + (attempt.took || 0);
    const to = lane("controller", attempt.controller, all);
    attempt.row = row(to, attempt.started, attempt.t);
    insert(to, attempt);
    for (const cause of attempt.causes ?? []) known(cause, all).causes.push(attempt);
    for (const write of attempt.writes ?? []) {
      const version = known(write, all);
      version.write = { attempt, write };
      if (version.event) came.echoes.push(version.event);
    }
    came.attempts.push(attempt);
  }
  for (const list of [came.events, came.changes, came.attempts]) {
    for (const item of list) {
      if (!all.first || item.t < all.first) all.first = item.t;
      if (item.t > all.last) all.last = item.t;
    }
    all.number += list.length;
  }
  return came;
}

function prune() {
  const { lanes, gaps } = live, until = Math.max(live.last, now()) - longest;
  if (live.number <= most * 1.05 && (live.first === 0 || live.first > until - 5000)) return;
  let from = until;
  if (live.number > most) { // Some older ones go beyond the bound, so that this is rare.
    const times = [];
    for (const of of lanes.values()) for (const item of of.items) times.push(item.t);
    times.sort((a, b) => a - b);
    from = Math.max(from, times[times.length - most]);
  }
  live.number = 0;
  live.first = 0;
  for (const of of lanes.values()) {
    of.items.splice(0, lowest(of.items, from));
    live.number += of.items.length;
    if (of.items.length && (!live.first || of.items[0].t < live.first)) live.first = of.items[0].t;
  }
  live.versions = new Map();
  for (const of of lanes.values()) {
    for (const item of of.items) {
      if (item.what === "event") known(item, live).event = item;
      else if (item.what === "change") known(item, live).change = item;
      else {
        for (const cause of item.causes ?? []) known(cause, live).causes.push(item);
        for (const write of item.writes ?? []) known(write, live).write = { attempt: item, write };
      }
    }
  }
  while (states.length && states[0].t < from) states.shift();
  while (rates.length && rates[0].t < from) rates.shift();
  while (gaps.length && gaps[0].to && gaps[0].to < from) gaps.shift();
}

// lowest returns the index of the first item at a time or later.
export function lowest(items, t) {
  let from = 0, to = items.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (items[middle].t < t) from = middle + 1;
    else to = middle;
  }
  return from;
}

export const writeOf = (event) => shown.versions.get(versionOf(event))?.write;
export const echoOf = (write) => shown.versions.get(versionOf(write))?.event;

// way returns the items that an item belongs to, from the watch to the echo.
export function way(item) {
  const found = new Set([item]);
  const add = (of) => of && found.add(of);
  const forward = (attempt) => {
    add(attempt);
    for (const write of attempt.writes ?? []) add(echoOf(write));
  };
  const through = (version) => {
    add(version?.event);
    add(version?.change);
    for (const attempt of version?.causes ?? []) forward(attempt);
  };
  if (item.what === "attempt") {
    for (const cause of item.causes ?? []) {
      const version = shown.versions.get(versionOf(cause));
      add(version?.event);
      add(version?.change);
    }
    forward(item);
  } else {
    through(shown.versions.get(versionOf(item)));
    const wrote = writeOf(item);
    if (wrote) add(wrote.attempt);
  }
  return [...found].sort((a, b) => (a.started ?? a.received ?? a.t) - (b.started ?? b.received ?? b.t));
}

// receive keeps a state. It is parsed again when the slider asks for it: text needs less memory than objects.
export function receive(text) {
  latest = JSON.parse(text);
  adjust(Date.parse(latest.time));
  const t = Date.parse(latest.time) || now();
  const sum = (name) => (latest.controllers ?? []).reduce((all, of) => all + (of[name] || 0), 0);
  rates.push({ t, events: latest.stages?.[0]?.in ?? 0, attempts: sum("attempts"), errors: sum("errors") });
  if (!live.first) live.first = t;
  live.last = Math.max(live.last, t);
  if (!states.length || t - states[states.length - 1].t >= stateEvery) states.push({ t, text });
  let held = states.reduce((all, of) => all + of.text.length, 0);
  while (held > stateBytes) held -= states.shift().text.length;
  prune();
}

const before = (list, t) => {
  const at = lowest(list, t + 1);
  return at > 0 ? list[at - 1] : undefined;
};

// stateAt returns the state of a time, or the latest one without a time.
export function stateAt(t) {
  if (t === undefined) return latest;
  const found = before(states, t);
  return found ? JSON.parse(found.text) : null;
}

// pastRates returns the same as ratesAt for a time of a recording.
export function pastRates(t) {
  const seconds = 5, made = { events: 0, attempts: 0, errors: 0 };
  for (const of of past.lanes.values()) {
    const items = of.items.slice(lowest(of.items, t - seconds * 1000), lowest(of.items, t + 1));
    if (of.type === "source") made.events += items.length / seconds;
    if (of.type === "controller") {
      made.attempts += items.length / seconds;
      made.errors += items.filter((item) => item.error).length / seconds;
    }
  }
  return made;
}

// ratesAt returns what happened a second, in the seconds before a time.
export function ratesAt(t = now()) {
  const to = before(rates, t), from = to && (before(rates, to.t - 4000) ?? rates[0]);
  const seconds = to ? (to.t - from.t) / 1000 : 0;
  if (seconds < 0.2 || t - to.t > 8000) return null;
  const per = (name) => Math.max(0, (to[name] - from[name]) / seconds); // A restart begins at 0.
  return { events: per("events"), attempts: per("attempts"), errors: per("errors") };
}
