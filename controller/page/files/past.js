// A recording on disk: what the operator, or the command that shows it, has of earlier times.

import { live, now, replacePast } from "./store.js";

const most = 20_000; // items at once
const behind = 3000; // milliseconds until a record is on disk

export let recorded = null; // {goesOn, version, controllers, from, to, cut}, or null without a recording
export let trouble = ""; // why there is no recording, if that is no normal state
let loaded = { from: 0, to: 0, cut: false };
let asking = null;

export async function ask(path, signal) {
  const answer = await fetch(path, { signal, headers: { Accept: "application/json" } });
  const text = await answer.text();
  if (!answer.ok) throw Object.assign(new Error(text.trim().slice(0, 500) || answer.statusText), { code: answer.status });
  return JSON.parse(text);
}

const about = (what, query, signal) => ask(`../debug/past/${what}?${new URLSearchParams(query)}`, signal);

// look finds out whether there is a recording.
export async function look() {
  try {
    const found = await about("span", {});
    recorded = found.from ? found : null;
    trouble = "";
  } catch (problem) {
    trouble = problem.code === 404 ? "" : problem.message;
    if (problem.code) recorded = null;
  }
}

export const isStill = () => recorded !== null && !recorded.goesOn;
export const newest = () => (isStill() ? recorded.to : now());
export const earliest = () => Math.min(recorded?.from ?? Infinity, isStill() ? Infinity : live.first || now());

// isPast reports whether a time is in the recording alone.
export const isPast = (t) => t !== undefined && recorded !== null && (isStill() || t < live.first);

// load reads the items around a time. It returns false if another load took its place.
export async function load(t, span) {
  asking?.abort();
  if (t - span >= loaded.from && (t <= loaded.to || loaded.to >= recorded.to) && !loaded.cut) return true;
  const mine = (asking = new AbortController());
  const from = Math.max(recorded.from, t - 2 * span), to = Math.max(from + 1, Math.min(t + span, isStill() ? recorded.to + 1 : Math.min(live.first, now() - behind)));
  const pages = [];
  let count = 0, after = "";
  do {
    const page = await about("items", { from: Math.floor(from), to: Math.ceil(to), limit: 5000, ...(after && { after }) }, mine.signal);
    pages.push(page);
    count += page.events.length + page.changes.length + page.attempts.length;
    after = page.next ?? "";
  } while (after && count < most);
  if (asking !== mine) return false;
  replacePast(pages, recorded.controllers);
  loaded = { from, to, cut: after !== "" };
  return true;
}

export const isCut = () => loaded.cut;
export const stateOf = (t, signal) => about("state", { at: Math.floor(t) }, signal);
export const kindOf = (controller) => recorded?.controllers.find((of) => of.name === controller)?.kind ?? "";
