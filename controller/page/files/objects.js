// Objects: a search, the tree of what they own, and why they were reconciled.

import { ask, kindOf } from "./past.js";
import { onItems } from "./store.js";
import { clock, count, duration, empty, key, make, outcome, some } from "./text.js";

const limit = 100;
const id = (name) => document.getElementById(name);
const idOf = (node) => `${node.kind}|${node.namespace ?? ""}|${node.name}`;
const queryOf = (node) => new URLSearchParams({ object: `${node.kind.toLowerCase()}/${node.name}`, namespace: node.namespace ?? "" });
const nameOf = (node) => (node.namespace ? `${node.namespace}/${node.name}` : node.name);

// objects shows the objects of the present, or of the time that at returns.
export function objects(at) {
  const query = (what, parameters, signal) => {
    const t = at();
    return ask(t === undefined ? `../debug/${what}?${parameters}` : `../debug/past/${what}?${parameters}&at=${Math.floor(t)}`, signal);
  };
  const tree = id("tree"), found = id("found"), text = id("text");
  let roots = [], total = 0, opened = new Set(), loaded = new Map(), focused = null, selected = null;
  let asking = null, explaining = null, refreshing = 0, typed = 0;

  async function search(keep) {
    asking?.abort();
    asking = new AbortController();
    try {
      const answer = await query("tree", new URLSearchParams({ search: text.value.trim(), limit }), asking.signal);
      [roots, total] = [answer.objects, answer.total];
      const said = total > roots.length ? `${count(roots.length)} of ${some(total, "object")} shown; search for a part of a name` : `${some(total, "object")} found`;
      if (found.textContent !== said + ".") found.textContent = said + ".";
      if (!keep) focused = null;
      render();
    } catch (problem) {
      if (problem.name !== "AbortError" && !keep) found.textContent = `The search failed: ${problem.message}`;
    }
  }

  async function load(node) {
    try {
      const answer = await query("tree", queryOf(node));
      loaded.set(idOf(node), answer);
    } catch (problem) {
      loaded.set(idOf(node), { ...node, children: [], problem: problem.message });
    }
    render();
  }

  // render draws the tree anew, and gives the focus back.
  function render() {
    const had = tree.contains(document.activeElement);
    const list = roots.map((root, i) => item({ ...root, children: undefined, ...loaded.get(idOf(root)) }, root, 1, i + 1, roots.length));
    tree.replaceChildren(...(list.length ? list : [make("li", { role: "none", class: "empty" }, text.value.trim() ? "No object of a controller's kind has this text in its name." : "The controllers' kinds have no objects.")]));
    const items = visible(), at = items.find((of) => of.dataset.id === focused) ?? items[0];
    if (at) {
      at.tabIndex = 0;
      focused = at.dataset.id;
      if (had) at.focus({ preventScroll: true });
    }
  }

  const nodes = new WeakMap(); // element → {node, root}

  function item(node, root, level, place, of) {
    const name = idOf(node), isRoot = level === 1, children = node.children ?? [];
    const canOpen = isRoot ? !loaded.has(name) || children.length > 0 || node.leftOut : children.length > 0;
    const isOpen = opened.has(name);
    const state = { True: "ready", False: "not ready", Unknown: "unknown" }[node.ready] ?? "unknown";
    const made = make("li", { role: "treeitem", tabindex: -1, "aria-level": level, "aria-posinset": place, "aria-setsize": of, "aria-expanded": canOpen ? String(isOpen) : null, "aria-selected": String(selected === name) },
      make("div", { class: "row" },
        make("span", { class: "twist", "aria-hidden": "true" }, canOpen ? (isOpen ? "▾" : "▸") : ""),
        make("span", { class: `ready ${state.replace(" ", "-")}` }, state),
        make("span", { class: "kind" }, node.kind), " ",
        make("span", { class: "name" }, isRoot || node.namespace !== root.namespace ? nameOf(node) : node.name),
        node.deleting ? make("span", { class: "kind" }, " being deleted") : "",
        node.ready !== "True" && (node.reason || node.message) ? make("span", { class: "message" }, [node.reason, node.message].filter(Boolean).join(": ")) : "",
        node.problem ? make("span", { class: "message" }, node.problem) : ""));
    made.dataset.id = name;
    nodes.set(made, { node, root });
    if (isOpen && canOpen) {
      const group = children.map((child, i) => item(child, root, level + 1, i + 1, children.length));
      if (!loaded.has(name) && isRoot) group.push(make("li", { role: "none", class: "empty" }, "loading"));
      if (node.leftOut) group.push(make("li", { role: "none", class: "empty" }, "more children are left out"));
      made.append(make("ul", { role: "group" }, ...group));
    }
    return made;
  }

  const visible = () => [...tree.querySelectorAll("[role=treeitem]")];

  function focus(element) {
    if (!element) return;
    for (const other of visible()) other.tabIndex = -1;
    element.tabIndex = 0;
    focused = element.dataset.id;
    element.focus();
  }

  function open(element, wanted) {
    const { node } = nodes.get(element), name = idOf(node);
    if (element.getAttribute("aria-expanded") === null) return;
    if (wanted) opened.add(name);
    else opened.delete(name);
    if (wanted && element.getAttribute("aria-level") === "1") load(node);
    render();
  }

  function choose(element) {
    const { node, root } = nodes.get(element);
    selected = idOf(node);
    render();
    explain(node, root);
  }

  tree.addEventListener("click", (event) => {
    const element = event.target.closest("[role=treeitem]");
    if (!element) return;
    focus(element);
    if (event.target.closest(".twist")) open(element, element.getAttribute("aria-expanded") !== "true");
    else choose(element);
  });
  tree.addEventListener("keydown", (event) => {
    const element = event.target.closest("[role=treeitem]");
    if (!element || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = visible(), at = items.indexOf(element), state = element.getAttribute("aria-expanded");
    const keys = {
      ArrowDown: () => focus(items[at + 1]),
      ArrowUp: () => focus(items[at - 1]),
      Home: () => focus(items[0]),
      End: () => focus(items[items.length - 1]),
      ArrowRight: () => (state === "false" ? open(element, true) : focus(element.querySelector("[role=treeitem]"))),
      ArrowLeft: () => (state === "true" ? open(element, false) : focus(element.parentElement.closest("[role=treeitem]"))),
      Enter: () => choose(element),
      " ": () => choose(element),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  id("search").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  text.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(search, 200);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    focus(visible()[0]);
  });

  // explain shows why an object was reconciled, or its owner, if no controller reconciles its kind.
  async function explain(node, root, again) {
    explaining?.abort.abort();
    const mine = (explaining = { node, root, abort: new AbortController() });
    const signal = mine.abort.signal, reasons = id("reasons");
    id("why-title").textContent = `Why: ${node.kind} ${nameOf(node)}`;
    if (!again) reasons.replaceChildren(empty("loading"));
    let answer, about = node;
    try {
      try {
        answer = await query("why", queryOf(node), signal);
      } catch (problem) {
        if (problem.code !== 404 || !root || idOf(root) === idOf(node)) throw problem;
        answer = await query("why", queryOf(root), signal);
        about = root;
      }
    } catch (problem) {
      if (problem.name !== "AbortError") reasons.replaceChildren(empty(problem.code === 404 && !/no controller|object is/.test(problem.message) ? "This operator keeps no history, so it cannot say why." : `There is no answer: ${problem.message}`));
      return;
    }
    if (explaining !== mine) return;
    mine.about = about;
    const top = id("why").scrollTop;
    reasons.replaceChildren(...condition(node),
      about === node ? "" : make("p", { class: "note" }, `No controller reconciles ${node.kind}. Its owner ${about.kind} ${nameOf(about)} explains it:`),
      ...answer.controllers.flatMap((of) => controller(of, at() !== undefined)));
    id("why").scrollTop = top;
  }

  const refresh = () => explaining && explain(explaining.node, explaining.root, true);

  onItems((came) => {
    const about = explaining?.about;
    const concerns = (of) => about && of.name === about.name && (of.ns ?? "") === (about.namespace ?? "");
    if (refreshing || !came.attempts.some(concerns)) return;
    refreshing = setTimeout(() => {
      refreshing = 0;
      refresh();
      for (const root of roots) if (opened.has(idOf(root)) && concerns(root)) load(root);
    }, 1000);
  });

  return {
    search,
    // move shows the objects of the time that at returns now.
    move() {
      loaded.clear();
      search(true).then(() => roots.filter((root) => opened.has(idOf(root))).forEach(load));
      refresh();
    },
    // open shows an object of the diagram.
    async open(item) {
      let kind = item.kind;
      if (item.what === "attempt" && at() !== undefined) kind = kindOf(item.controller);
      else if (item.what === "attempt") { // It does not name the kind of its controller.
        kind = await ask(`../debug/why?${new URLSearchParams({ attempt: item.id })}`).then((answer) => answer.controllers[0]?.kind, () => "");
      }
      text.value = key(item);
      await search();
      const items = visible();
      const at = items.find((of) => of.dataset.id === `${kind}|${item.ns ?? ""}|${item.name}`) ?? (kind ? null : items.find((of) => of.dataset.id.endsWith(`|${item.ns ?? ""}|${item.name}`)));
      if (at) {
        focus(at);
        choose(at);
      } else {
        explain({ kind: kind || "object", namespace: item.ns, name: item.name });
        id("why").focus();
      }
      id("objects").scrollIntoView({ block: "start" });
    },
  };
}

function condition(node) {
  if (!node.ready) return [];
  const words = { True: "It is ready", False: "It is not ready", Unknown: "Its readiness is unknown" }[node.ready] ?? "";
  const why = [node.reason, node.message].filter(Boolean).join(": ");
  return [make("p", { class: "condition" }, words + (why ? `: ${why}` : "") + (node.since ? `, since ${clock(Date.parse(node.since))}` : "") + ".")];
}

const waitedFor = { debounce: "in the debounce", running: "for the attempt before it", backoff: "for the backoff", gate: "for the controller's kinds", queue: "for a worker", start: "to begin" };
const version = (of) => `${of.kind} ${of.name}${of.resourceVersion ? "@" + of.resourceVersion : ""}`;
const seconds = (of) => duration(of * 1000);

function controller(of, isPast) {
  const heading = make("p", { class: "note" }, isPast ? `Controller ${of.name}, as recorded.` : `Controller ${of.name}, level ${of.level}${of.missing?.length ? `; the next level waits for ${of.missing.join(", ")}` : ""}.`);
  const attempts = [...(of.attempts ?? [])].reverse();
  if (of.runningSince) attempts.unshift(null);
  if (!attempts.length) {
    return [heading, empty(isPast ? "The recording has no attempt before this time." : of.cached ? "No attempt is remembered: older than the history, or another replica leads." : "No attempt is remembered, and the cache does not have the object.")];
  }
  return [heading, ...repeats(of), make("ol", { class: "attempts", reversed: true }, ...attempts.map((one) => (one ? attempt(one) : make("li", { class: "running" }, `An attempt runs since ${clock(Date.parse(of.runningSince))}.`))))];
}

// repeats says what several of the attempts have in common, if that explains why there are so many.
function repeats(of) {
  const found = new Map(), all = of.attempts.length;
  const same = (one, other) => one.kind === other.kind && one.namespace === other.namespace && one.name === other.name;
  for (const attempt of of.attempts) {
    const said = new Set();
    for (const call of attempt.calls ?? []) if (!call.code) said.add(`had no answer to ${call.method} ${call.path}.`);
    for (const cause of attempt.causes ?? []) {
      const write = (attempt.writes ?? []).find((one) => same(one, cause));
      if (!write) continue;
      const both = (cause.fields ?? []).filter((path) => path !== "metadata.generation" && write.fields?.includes(path));
      if (cause.writtenBy?.startsWith(`${of.name} `)) said.add(`came from an own write of ${cause.kind} ${cause.name}, and wrote it again. Each write differs from the one before, or something changes what is written: a webhook or a default.`);
      else if (!cause.writtenBy && both.length) said.add(`changed ${both.join(", ")} of ${cause.kind} ${cause.name} back after another client had changed it.`);
    }
    for (const words of said) found.set(words, (found.get(words) ?? 0) + 1);
  }
  return [...found].filter(([words, n]) => n >= (words.startsWith("came from") ? 3 : 1)).map(([words, n]) => make("p", { class: "warn" }, make("strong", {}, `${n} of the last ${some(all, "attempt")}`), ` ${words}`));
}

function attempt(of) {
  const started = Date.parse(of.started), lines = [];
  const say = (what, words) => lines.push(make("dt", {}, what), make("dd", {}, words));
  if (!of.causes?.length) say("because", "a retry, a timer or a stream asked for it");
  if (of.olderCausesLeftOut) say("because", "of more events, which are left out");
  for (const cause of of.causes ?? []) say("because", because(cause, started));
  if (of.waits?.length) say("waited", of.waits.map((wait) => `${seconds(wait.seconds)} ${waitedFor[wait.for] ?? wait.for}`).join(", "));
  for (const write of of.writes ?? []) say("wrote", wrote(write));
  for (const call of of.calls ?? []) {
    if (call.method === "GET" || !(call.code >= 200 && call.code <= 299)) say("asked", `${call.method} ${call.path}: ${call.code || "no answer"} after ${seconds(call.seconds)}`);
  }
  if (of.error) say("error", of.error);
  if (of.againAfterSeconds) say("next", `after ${seconds(of.againAfterSeconds)}, or with an event`);
  return make("li", { class: of.outcome }, make("p", {}, make("time", { datetime: of.started }, clock(started, true)), " ", make("strong", {}, outcome(of.outcome)), ` after ${seconds(of.seconds)}`, of.attempt > 1 ? `, number ${of.attempt} in a row` : "", " ", make("code", {}, of.id)), make("dl", {}, ...lines));
}

function because(of, started) {
  let text = version(of) + (of.change ? ` was ${of.change}` : of.event === "Listed" ? " was in a list" : ` had the event ${of.event}`);
  if (of.fields?.length) text += ": " + of.fields.join(", ");
  if (of.partial) text += " (of what the cache keeps)";
  for (const manager of of.managers ?? []) text += `, by the field manager ${manager.name}`;
  if (of.writtenBy) text += `, written by ${of.writtenBy}`;
  return `${text}, ${duration(started - Date.parse(of.received))} before`;
}

function wrote(of) {
  let text = `${of.verb} ${version(of)}`;
  if (of.fields?.length) text += ": " + of.fields.join(", ");
  if (of.seconds) text += `, answered after ${seconds(of.seconds)}`;
  return text + (of.seen ? `, its echo came ${duration(Math.max(0, Date.parse(of.seen) - Date.parse(of.answered)))} later` : ", its echo has not come");
}
