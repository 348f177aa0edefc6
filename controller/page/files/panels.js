// The header and the panels of the state.

import { bytes, clock, count, duration, empty, make, replace, some, table } from "./text.js";

const levels = ["Starting", "Listed", "Current", "OwnWritesVisible", "Settled", "Converged"];
const levelNames = { OwnWritesVisible: "Own writes visible" };
const nameOf = (level) => levelNames[level] ?? level;
const id = (name) => document.getElementById(name);
const number = (text) => ({ text, number: true });

export function renderHeader(state, rates) {
  if (!state) return;
  const at = levels.indexOf(state.level);
  replace(id("levels"), ...levels.map((level, i) => make("li", { class: i < at ? "done" : i === at ? "now" : "later", "aria-current": i === at ? "step" : null }, nameOf(level))));
  replace(id("next"), state.next ? make("span", {}, "Next, ", make("strong", {}, nameOf(state.next.level)), ": ", waits(state.next.missing)) : "The highest level: nothing is missing.",
    ...(state.notes ?? []).map((note) => make("span", { class: "warn" }, note)));
  const per = (value) => (rates ? (value < 10 ? value.toFixed(1) : count(value)) : "–");
  const figures = [
    ["Events", per(rates?.events), "a second"],
    ["Attempts", per(rates?.attempts), "a second"],
    ["Errors", per(rates?.errors), "a second", rates?.errors > 0],
    ["Control loop", state.loopSeconds ? duration(state.loopSeconds * 1000) : "–", state.loopSeconds ? "from an event to its echo" : "not measured yet"],
    ["Calm after", state.quietSeconds ? duration(state.quietSeconds * 1000) : "–", "without a change"],
  ];
  if (state.leader) figures.push(["Leader", state.leader.leads ? "this replica" : state.leader.holder || "none", state.leader.leads ? state.leader.identity : "this one is " + state.leader.identity]);
  replace(id("figures"), ...figures.map(figure));
}

// renderPast shows what a recording has of a time, and says what it lacks.
export function renderPast(state, rates, { isCut, problem }) {
  const cut = isCut ? make("span", { class: "warn" }, "The window has more than 20,000 items, and its end is left out. Choose a shorter window.") : "";
  const patterns = () => renderPatterns(state.controllers.flatMap((of) => of.patterns.map((one) => ({ ...one, controller: of.name }))), state.leftOut ? " among the objects that were looked at" : "");
  if (state?.manager) {
    renderHeader(state.manager, rates);
    id("next").append(cut);
    renderState(state.manager, true);
    patterns(); // The recording knows more managers than the cache did.
    id("state-time").textContent = `As recorded at ${clock(Date.parse(state.manager.time))}.` + (state.leftOut ? ` ${some(state.leftOut, "object is", "objects are")} too many to look at.` : "");
    return;
  }
  replace(id("levels"), ...levels.map((level) => make("li", { class: "later" }, nameOf(level))));
  replace(id("next"), state ? "This recording is of an earlier version, and has no levels of sync." : "", cut);
  const figures = [["Events", "events"], ["Attempts", "attempts"], ["Errors", "errors"]].map(([name, of]) => [name, rates[of] < 10 ? rates[of].toFixed(1) : count(rates[of]), "a second", of === "errors" && rates[of] > 0]);
  for (const name of ["Control loop", "Calm after"]) figures.push([name, "–", "not recorded"]);
  replace(id("figures"), ...figures.map(figure));
  if (!state) {
    id("state-time").textContent = problem || "Reading the recording.";
    for (const name of ["controllers", "flight", "failing", "patterns", "kinds", "stages"]) replace(id(name), empty("–"));
    return;
  }
  const at = Date.parse(state.time), each = (name) => state.controllers.flatMap((of) => of[name].map((one) => ({ ...one, controller: of.name })));
  id("state-time").textContent = `As recorded at ${clock(at)}. Numbers count from the beginning of the recording.` + (state.leftOut ? ` ${some(state.leftOut, "object is", "objects are")} too many to look at.` : "");
  replace(id("controllers"), table(["Controller", "Reconciles", number("In flight"), number("Attempts"), number("Errors")],
    state.controllers.map((of) => [of.name, of.kind || "–", count(of.running), count(of.attempts), count(of.errors)]), "There is no controller."));
  replace(id("flight"), table(["Key", "Controller", number("Runs for")], each("inFlight").map((of) => [of.key, of.controller, duration(at - Date.parse(of.since))]), "No attempt runs."));
  replace(id("failing"), table(["Key", "Controller", number("Failures"), "Reason", "Next attempt"],
    each("backoffs").map((of) => [of.key, of.controller, count(of.failures), of.reason, of.terminal ? "none: failed for good" : "not recorded"]), "No key fails."));
  patterns();
  replace(id("kinds"), table(["Kind", number("Objects"), number("Last event")], state.kinds.map((of) => [of.kind, count(of.objects), `${duration(at - Date.parse(of.lastEvent))} ago`]), "No kind is watched."));
  replace(id("stages"), empty("This recording is of an earlier version, and has no numbers of stages, queues and workers."));
}

const figure = ([name, value, unit, bad]) => make("div", { class: bad ? "bad" : null }, make("dt", {}, name), make("dd", {}, make("b", {}, value), " ", make("small", {}, unit)));

function waits(missing) {
  const list = missing ?? [];
  const more = list.length > 6 ? `, and ${count(list.length - 6)} more` : "";
  return list.length ? `waits for ${list.slice(0, 6).join(", ")}${more}` : "nothing is pending";
}

export function renderState(state, isPast) {
  if (!state) {
    id("state-time").textContent = "No state of that time has been received.";
    for (const name of ["controllers", "flight", "failing", "patterns", "kinds", "stages"]) replace(id(name), empty("–"));
    return;
  }
  const at = Date.parse(state.time);
  id("state-time").textContent = isPast ? `As it was at ${clock(at)}.` : "Now.";
  const controllers = state.controllers ?? [];
  const sum = (name) => controllers.reduce((all, of) => all + (of[name] || 0), 0);
  const running = controllers.flatMap((of) => (of.inFlight ?? []).map((attempt) => ({ ...attempt, controller: of.name })));
  const queue = make("p", { class: "lead" },
    make("b", {}, count(sum("queued") - sum("held"))), " waiting for a worker, ",
    make("b", {}, count(sum("held"))), " held until their kinds are current, ",
    make("b", {}, `${count(running.length)} of ${count(state.workers)}`), " workers busy.");
  replace(id("controllers"), queue, table(
    ["Controller", "State", "Level", number("Waiting"), number("Held"), number("In flight"), number("Attempts"), number("Errors"), "Slowest key"],
    controllers.map((of) => {
      const slow = of.slowest?.[0];
      return [of.name, of.waitsFor?.length ? `${of.state}: ${of.waitsFor.join(", ")}` : of.state, nameOf(of.level), count(of.queued - of.held), count(of.held), count(of.inFlight?.length), count(of.attempts), count(of.errors),
        slow ? `${slow.key}, ${duration(slow.seconds * 1000)}` : "–"];
    }), "There is no controller."));
  running.sort((a, b) => Date.parse(a.since) - Date.parse(b.since));
  replace(id("flight"), table(["Key", "Controller", number("Runs for")], running.slice(0, 50).map((of) => [of.key, of.controller, duration(at - Date.parse(of.since))]), "No attempt runs."),
    running.length > 50 ? make("p", { class: "note" }, `and ${count(running.length - 50)} more`) : "");
  const failing = controllers.flatMap((of) => (of.backoffs ?? []).map((failure) => ({ ...failure, controller: of.name })));
  const unfinished = sum("unfinished"), terminal = sum("terminal");
  replace(id("failing"), table(["Key", "Controller", number("Failures"), "Reason", "Next attempt"],
    failing.slice(0, 50).map((of) => [of.key, of.controller, count(of.failures), of.reason, of.terminal ? "none: failed for good" : of.due ? `in ${duration(Date.parse(of.due) - at)}` : "–"]),
    "No key fails."),
    unfinished ? make("p", { class: "note" }, `${some(unfinished, "key is", "keys are")} unfinished: due again, or failed for good (${count(terminal)}).`) : "");
  renderPatterns(controllers.flatMap((of) => (of.patterns ?? []).map((pattern) => ({ ...pattern, controller: of.name }))), "");
  replace(id("kinds"), table(["Kind", "Use", "Watch", "Level", number("Objects"), number("Size"), number("Last event"), "Controllers"],
    (state.kinds ?? []).map((of) => [of.kind, of.use, (of.watch ?? "none").replace("_", " ") + (of.counts || !of.watch ? "" : ", does not count"), of.watch ? nameOf(of.level) : "–", of.watch ? count(of.objects) : "–", of.watch ? bytes(of.bytes) : "–",
      of.lastEvent ? `${duration(at - Date.parse(of.lastEvent))} ago` : "–", (of.controllers ?? []).join(", ")]), "No kind is watched."));
  replace(id("stages"), table(["Stage", number("In"), number("Out"), number("Waiting")],
    (state.stages ?? []).map((of) => [of.name, count(of.in), count(of.out), count(of.waiting)]), "There are no stages."));
}

const renderPatterns = (patterns, where) => replace(id("patterns"), ...(patterns.length ? patterns.slice(0, 50).map(pattern) : [empty(`No fight and no hot loop${where}.`)]));

function pattern(of) {
  const rate = of.roundsPerSecond ? `, ${of.roundsPerSecond < 10 ? of.roundsPerSecond.toFixed(1) : count(of.roundsPerSecond)} a second` : "";
  return make("p", { class: "warn" }, make("strong", {}, of.pattern === "fight" ? "Fight" : "Hot loop"), ` over ${of.written}, for ${of.key} of ${of.controller}: ${some(of.rounds, "round")}${rate}`,
    of.fields?.length ? `; fields ${of.fields.join(", ")}` : "", of.managers?.length ? `; managers ${of.managers.join(" and ")}` : "", ".");
}
