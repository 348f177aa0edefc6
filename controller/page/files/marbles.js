// The marble diagram. Marks are drawn once, on a strip that is longer than the view; each frame copies a part of it.

import { echoOf, lane, live, lowest, now, onItems, shown as items, way, writeOf } from "./store.js";
import { bar, drawAttempt, drawChange, drawEvent, drawLink, legend, palette, styleOf } from "./marks.js";
import { clock } from "./text.js";

const axis = 22; // pixels of the times on top
const margin = 14; // pixels right of the newest time
const budget = 4; // milliseconds of a frame for marks of the past

export const frames = { script: [], at: [] }; // of the last frames, in milliseconds

export function diagram(canvas, { onSelect, onOpen, onToggle, onZoom, onLeave }) {
  const ctx = canvas.getContext("2d", { alpha: false });
  const strip = document.createElement("canvas"), paint = strip.getContext("2d");
  let colours, width = 0, height = 0, gutter = 0, ratio = 1;
  let order = [], depths = "";
  let span = 15_000, end; // end is undefined while the view is live
  let stripFrom = 0, stripWidth = 0, last = new Map();
  let job = null; // what redraw has not drawn yet
  let stale = true, urgent = true, came = false, shown = NaN, hovered = null, selected = null, marked = [], drawnAt = 0;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  const endNow = () => end ?? now();
  const scale = () => (width - gutter - margin) / span;

  // arrange gives each lane its place.
  function arrange() {
    const rank = { source: 0, cache: 1, controller: 2 };
    order = [...items.lanes.values()].sort((a, b) => rank[a.type] - rank[b.type] || (a.name < b.name ? -1 : 1));
    const narrow = canvas.clientWidth < 560;
    let y = axis;
    for (const of of order) {
      of.top = y;
      of.head = narrow ? 14 : 0;
      of.height = of.head + (of.type === "controller" ? Math.max(32, 14 + of.depth * (bar + 5)) : 30);
      y += of.height;
    }
    depths = order.map((of) => of.id + of.depth).join();
    height = Math.max(y + 4, 90);
    width = canvas.clientWidth;
    gutter = narrow ? 0 : Math.min(190, Math.round(width * 0.18));
    ratio = Math.min(2, devicePixelRatio || 1);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    stripWidth = Math.ceil((width - gutter) * 1.5);
    strip.width = Math.max(1, Math.round(stripWidth * ratio));
    strip.height = canvas.height;
  }

  const middle = (of) => of.top + of.head + (of.height - of.head) / 2;
  const barTop = (item) => item.lane.top + item.lane.head + 8 + item.row * (bar + 5);

  // draw draws an item on a context whose x 0 is a time. Without seen, it draws in any case.
  function draw(to, item, from, seen) {
    const k = scale(), x = (item.t - from) * k;
    const wrote = item.what === "event" && writeOf(item);
    if (seen) {
      const id = item.lane.id + styleOf(item, wrote) + (item.row ?? ""), at = Math.round(x * 2);
      if (seen.get(id) === at) return; // There is such a mark already.
      seen.set(id, at);
    }
    if (item.what === "attempt") {
      const y = barTop(item);
      const writes = item.writes ?? [];
      for (const write of writes) {
        const echo = echoOf(write);
        if (echo) link(to, item, write, echo, from);
      }
      drawAttempt(to, colours, item, x, (item.started - from) * k, y, writes.map((write) => (write.t - from) * k));
    } else if (item.what === "change") {
      drawChange(to, colours, item, x, middle(item.lane));
    } else {
      drawEvent(to, colours, item, x, ((item.received || item.t) - from) * k, middle(item.lane), wrote);
      if (wrote && seen) link(to, wrote.attempt, wrote.write, item, from);
    }
  }

  function link(to, attempt, write, echo, from) {
    const k = scale();
    drawLink(to, colours, (Math.min(write.t, attempt.t) - from) * k, barTop(attempt) - 4, (echo.t - from) * k, middle(echo.lane) + 5);
  }

  // redraw draws the strip anew.
  function redraw() {
    colours ??= palette();
    arrange();
    const k = scale();
    stripFrom = endNow() - span - 20 / k;
    last = new Map();
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, stripWidth, height);
    const to = stripFrom + stripWidth / k;
    const lists = order.map((of) => of.items.slice(lowest(of.items, stripFrom), lowest(of.items, to + 1)));
    job = { lists, seen: new Map() };
    stale = false;
    urgent = true;
  }

  // proceed draws what redraw has found, newest first, for a part of a frame: many marks need several frames.
  function proceed() {
    const until = performance.now() + budget, { lists, seen } = job;
    for (let drawn = 0; lists.length; drawn++) {
      if (drawn % 64 === 63 && performance.now() > until) break;
      let newest = 0;
      for (let i = lists.length - 1; i >= 0; i--) {
        if (!lists[i].length) lists.splice(i, 1);
      }
      for (let i = 1; i < lists.length; i++) if (lists[i].at(-1).t > lists[newest].at(-1).t) newest = i;
      if (lists.length) draw(paint, lists[newest].pop(), stripFrom, seen);
    }
    if (!lists.length) job = null;
    urgent = true;
  }

  // shift moves the strip to the left, when the view reaches its end.
  function shift() {
    const pixels = Math.round((endNow() - span - stripFrom) * scale() * ratio) - 20 * ratio;
    paint.setTransform(1, 0, 0, 1, 0, 0);
    paint.globalCompositeOperation = "copy";
    paint.drawImage(strip, -pixels, 0);
    paint.globalCompositeOperation = "source-over";
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    stripFrom += pixels / ratio / scale();
    last = new Map();
  }

  function frame() {
    requestAnimationFrame(frame);
    const began = performance.now();
    if (calm.matches && !urgent && !stale && began - drawnAt < 1000) return;
    if (width !== canvas.clientWidth) stale = true;
    if (stale) redraw();
    const k = scale(), to = endNow();
    if ((to - stripFrom) * k > stripWidth - 4 || to - span < stripFrom - 50 / k) {
      if (end === undefined && !job && to - span > stripFrom) shift();
      else redraw();
    }
    if (job) proceed();
    const offset = Math.round((to - span - stripFrom) * k * ratio);
    if (offset === shown && !urgent && !came) return;
    shown = offset;
    urgent = came = false;
    drawnAt = began;
    compose(offset, to, k);
    frames.script.push(performance.now() - began);
    frames.at.push(began);
    if (frames.script.length > 1200) {
      frames.script.splice(0, 600);
      frames.at.splice(0, 600);
    }
  }

  function compose(offset, to, k) {
    const from = to - span, right = width - margin;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = colours.ground;
    ctx.fillRect(0, 0, width, height);
    order.forEach((of, i) => {
      if (of.type === "cache") {
        ctx.fillStyle = colours.raised;
        ctx.fillRect(0, of.top, width, of.height);
      }
      ctx.fillStyle = colours.line;
      ctx.fillRect(0, of.top, width, 1);
      if (of.type !== "controller") ctx.fillRect(gutter, middle(of), width - gutter, 1);
    });
    for (const gap of items.gaps) {
      const x = Math.max(gutter, gutter + (gap.from - from) * k), until = Math.min(right, gutter + ((gap.to || to) - from) * k);
      if (until <= x) continue;
      ctx.fillStyle = colours.line;
      ctx.fillRect(x, axis, until - x, height);
      ctx.fillStyle = colours.muted;
      ctx.font = "11px system-ui, sans-serif";
      if (until - x > 80) ctx.fillText("no connection", x + 4, axis + 12);
    }
    ticks(from, to, k);
    const w = Math.round((width - gutter) * ratio), w2 = Math.min(w, strip.width - offset);
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.globalAlpha = marked.length ? 0.25 : 1;
    if (w2 > 0) ctx.drawImage(strip, Math.max(0, offset), 0, w2, strip.height, Math.round(gutter * ratio) + Math.max(0, -offset), 0, w2, strip.height);
    ctx.globalAlpha = 1;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (marked.length) highlight(from, k);
    labels();
    if (end === undefined) {
      ctx.fillStyle = colours.select;
      ctx.fillRect(right, axis, 1.5, height);
    }
  }

  function ticks(from, to, k) {
    const step = [1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000].find((of) => of * k > 90) ?? 300_000;
    ctx.font = "11px system-ui, sans-serif";
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = gutter + (t - from) * k;
      ctx.fillStyle = colours.line;
      ctx.fillRect(x, axis - 4, 1, height);
      if (x < width - 54) {
        ctx.fillStyle = colours.muted;
        ctx.fillText(clock(t), x + 4, 14);
      }
    }
  }

  function highlight(from, k) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(gutter, axis, width - gutter, height);
    ctx.clip();
    ctx.translate(gutter, 0);
    ctx.beginPath();
    const points = [];
    for (const item of marked) {
      if (item.what === "attempt") points.push([(item.started - from) * k, barTop(item) + bar / 2], [(item.t - from) * k, barTop(item) + bar / 2]);
      else points.push([(item.t - from) * k, middle(item.lane)]);
    }
    points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
    ctx.strokeStyle = colours.select;
    ctx.lineWidth = 1.5;
    ctx.stroke();
    for (const item of marked) draw(ctx, item, from, null);
    const focus = hovered ?? selected;
    if (focus) {
      ctx.strokeStyle = colours.select;
      ctx.lineWidth = 2;
      const x = (focus.t - from) * k;
      if (focus.what === "attempt") {
        const left = (focus.started - from) * k;
        ctx.strokeRect(left - 4, barTop(focus) - 7, Math.max(5, x - left) + 8, bar + 11);
      } else {
        ctx.beginPath();
        ctx.arc(x, middle(focus.lane), 11, 0, 7);
        ctx.stroke();
      }
    }
    ctx.restore();
  }

  function labels() {
    if (gutter) {
      ctx.fillStyle = colours.ground;
      ctx.fillRect(0, 0, gutter, height);
    }
    for (const of of order) {
      const text = of.type === "cache" ? "Cache" : of.name, what = { source: "events", cache: "changes", controller: "attempts" }[of.type];
      if (gutter) {
        if (of.type === "cache") {
          ctx.fillStyle = colours.raised;
          ctx.fillRect(0, of.top, gutter, of.height);
        }
        ctx.fillStyle = colours.line;
        ctx.fillRect(0, of.top, gutter, 1);
        ctx.fillStyle = colours.text;
        ctx.font = "600 12px system-ui, sans-serif";
        ctx.fillText(fit(text, gutter - 12), 4, of.top + 14);
        ctx.fillStyle = colours.muted;
        ctx.font = "11px system-ui, sans-serif";
        ctx.fillText(what, 4, of.top + 26);
      } else {
        ctx.fillStyle = colours.text;
        ctx.font = "600 11px system-ui, sans-serif";
        const name = fit(text, width * 0.7);
        ctx.fillText(name, 4, of.top + 12);
        const at = ctx.measureText(name).width + 10;
        ctx.fillStyle = colours.muted;
        ctx.font = "11px system-ui, sans-serif";
        ctx.fillText(what, at, of.top + 12);
      }
    }
  }

  const fitted = new Map();
  function fit(text, room) {
    const id = text + room;
    if (!fitted.has(id)) {
      let cut = text;
      while (cut.length > 4 && ctx.measureText(cut).width > room) cut = cut.slice(0, -2);
      if (fitted.size > 500) fitted.clear();
      fitted.set(id, cut === text ? text : cut + "…");
    }
    return fitted.get(id);
  }

  onItems((arrived) => {
    if (width === 0 || stale) return;
    if (order.length !== items.lanes.size || depths !== order.map((of) => of.id + of.depth).join()) {
      stale = true;
      return;
    }
    const k = scale(), until = stripFrom + stripWidth / k;
    for (const list of [arrived.attempts, arrived.events, arrived.changes, arrived.echoes]) {
      for (const item of list) {
        if (item.t > until) stale ||= end === undefined; // The tab was hidden.
        else if (item.t >= stripFrom) draw(paint, item, stripFrom, list === arrived.echoes ? null : last);
      }
    }
    if (selected && !hovered) marked = way(selected); // Its echo may have come.
    came = true;
  });

  // hit finds the nearest item at a place of the canvas.
  function hit(x, y) {
    const from = endNow() - span, k = scale(), of = order.find((lane) => y >= lane.top && y < lane.top + lane.height);
    if (!of || x < gutter - 4) return null;
    const t = from + (x - gutter) / k, slack = 10 / k;
    let best = null, least = Infinity;
    const reach = of.type === "controller" ? span : slack; // A long attempt begins far before its end.
    for (let i = lowest(of.items, t - slack); i < of.items.length && of.items[i].t <= t + reach; i++) {
      const item = of.items[i];
      let away = Math.abs(item.t - t) * k;
      if (item.what === "attempt") {
        const end = Math.max(item.t, item.started + 5 / k);
        away = (t < item.started ? item.started - t : t > end ? t - end : 0) * k + Math.abs(y - barTop(item) - bar / 2) / 2;
      }
      if (away < least && away < 14) [best, least] = [item, away];
    }
    return best;
  }

  function select(item, how) {
    if (how === "hover") hovered = item;
    else [selected, hovered] = [item, null];
    const focus = hovered ?? selected;
    marked = focus ? way(focus) : [];
    urgent = true;
    onSelect(focus, marked, how);
  }

  canvas.addEventListener("pointermove", (event) => {
    const found = hit(event.offsetX, event.offsetY);
    canvas.classList.toggle("over", !!found);
    if (found !== hovered) select(found, "hover");
  });
  canvas.addEventListener("pointerleave", () => hovered && select(null, "hover"));
  canvas.addEventListener("click", (event) => select(hit(event.offsetX, event.offsetY), "click"));
  canvas.addEventListener("dblclick", () => selected && onOpen(selected));

  // step moves the selection in its line, or to the nearest item of the next line that has one.
  function step(along, across) {
    const from = endNow() - span;
    const newest = (of) => of.items[lowest(of.items, endNow() + 1) - 1];
    const has = (of) => newest(of)?.t >= from;
    if (!selected || !selected.lane.items.includes(selected)) {
      const begin = order.find((of) => has(of)) ?? order.find(newest);
      if (begin) jump(newest(begin));
      return;
    }
    if (along) {
      const items = selected.lane.items, next = items[items.indexOf(selected) + along];
      if (next) jump(next);
      return;
    }
    for (let i = order.indexOf(selected.lane) + across; i >= 0 && i < order.length; i += across) {
      const items = order[i].items;
      if (!items.length) continue;
      const way = marked.find((item) => item.lane === order[i]); // The same object's way comes first.
      const at = lowest(items, selected.t), nearest = [way, items[at], items[at - 1]].filter(Boolean);
      jump(nearest.find(isInView) ?? nearest[0]); // A line with something in view does not move the view, so that the past stays the past.
      return;
    }
  }

  const isInView = (item) => item.t >= endNow() - span + 500 && item.t <= endNow();

  function jump(item) {
    if (!isInView(item)) onLeave(Math.min(now(), item.t + span / 2));
    select(item, "key");
  }

  const keys = {
    ArrowLeft: () => step(-1, 0),
    ArrowRight: () => step(1, 0),
    ArrowUp: () => step(0, -1),
    ArrowDown: () => step(0, 1),
    Escape: () => select(null, "key"),
    Enter: () => selected && onOpen(selected),
    " ": onToggle,
    "+": () => onZoom(-1),
    "=": () => onZoom(-1),
    "-": () => onZoom(1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  new ResizeObserver(() => (stale = true)).observe(canvas.parentElement);
  requestAnimationFrame(frame);

  return {
    select,
    restyle() {
      colours = palette();
      stale = true;
      return legend(colours);
    },
    // show moves the view: to a time, or live without one.
    show(to) {
      end = to;
      stale = true;
    },
    window(milliseconds) {
      span = milliseconds;
      stale = true;
    },
    // reload draws other items, and selects the one that was selected before, if it is among them.
    reload() {
      stale = true;
      if (!selected) return;
      const same = items.lanes.get(selected.lane.id)?.items.find((of) => of.t === selected.t && of.name === selected.name && of.rv === selected.rv && of.id === selected.id);
      select(same ?? null, "reload");
    },
    // know makes lines for what a state names, so that they are there before their first item.
    know(state) {
      const before = live.lanes.size;
      for (const kind of state.kinds ?? []) if (kind.watch) lane("source", kind.kind);
      lane("cache", "cache");
      for (const controller of state.controllers ?? []) lane("controller", controller.name);
      if (live.lanes.size !== before) stale = true;
    },
    // counts says in words what the view has.
    counts() {
      const to = endNow(), made = { event: 0, change: 0, attempt: 0 };
      for (const of of items.lanes.values()) {
        const n = lowest(of.items, to + 1) - lowest(of.items, to - span);
        made[{ source: "event", cache: "change", controller: "attempt" }[of.type]] += n;
      }
      return made;
    },
  };
}
