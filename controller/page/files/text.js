// Words, numbers and elements. Text of objects only ever enters the page as text nodes.

export function make(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== undefined && child !== null && child !== "").map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export const empty = (text) => make("p", { class: "empty" }, text);

const whole = new Intl.NumberFormat("en");
export const count = (n) => whole.format(Math.round(n || 0));
export const some = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

export function bytes(n) {
  if (n < 1000) return `${n} B`;
  if (n < 1e6) return `${(n / 1e3).toPrecision(3)} kB`;
  return n < 1e9 ? `${(n / 1e6).toPrecision(3)} MB` : `${(n / 1e9).toPrecision(3)} GB`;
}

// duration names milliseconds with three digits at most.
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) ms = 0;
  if (ms < 1) return ms === 0 ? "0 ms" : "under 1 ms";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
}

const pad = (n, width = 2) => String(n).padStart(width, "0");

export function clock(ms, withMillis = false) {
  const at = new Date(ms);
  const text = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return withMillis ? `${text}.${pad(at.getMilliseconds(), 3)}` : text;
}

export const key = (of) => (of.ns ? `${of.ns}/${of.name}` : of.name);

export const outcomes = {
  success: "succeeded",
  requeue_after: "succeeded, due again",
  error: "failed, retried",
  terminal: "failed for good",
};

export const outcome = (name) => outcomes[name] || String(name || "ended").replaceAll("_", " ");

// replace puts children in place of the ones of an element, if their content differs: that keeps selections and focus.
export function replace(element, ...children) {
  const made = document.createElement("div");
  made.append(...children);
  if (made.innerHTML !== element.innerHTML) element.replaceChildren(...made.childNodes);
}

export function table(headings, rows, nothing) {
  if (rows.length === 0) return empty(nothing);
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": headings.map((of) => of.text ?? of).join(", ") },
    make("table", {},
      make("thead", {}, make("tr", {}, ...headings.map((of) => make("th", { scope: "col", class: of.number ? "number" : null }, of.text ?? of)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, i) => make(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: headings[i].number ? "number" : null }, cell ?? "–")))))));
}
