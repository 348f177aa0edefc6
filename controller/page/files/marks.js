// The marks of the diagram: each meaning has a shape beside its colour.

const probe = document.createElement("span");
probe.hidden = true;

// palette reads the colours of the current theme.
export function palette() {
  document.body.append(probe);
  const made = {};
  for (const name of ["ground", "raised", "line", "text", "muted", "event", "echo", "change", "good", "again", "bad", "final", "select"]) {
    probe.style.color = `var(--${name})`;
    made[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return made;
}

const shapes = {
  circle(ctx, x, y, r) {
    ctx.arc(x, y, r, 0, 7);
  },
  triangle(ctx, x, y, r) {
    ctx.moveTo(x, y - r * 1.2);
    ctx.lineTo(x + r * 1.15, y + r * 0.8);
    ctx.lineTo(x - r * 1.15, y + r * 0.8);
    ctx.closePath();
  },
  cross(ctx, x, y, r) {
    ctx.moveTo(x - r, y - r);
    ctx.lineTo(x + r, y + r);
    ctx.moveTo(x + r, y - r);
    ctx.lineTo(x - r, y + r);
  },
  diamond(ctx, x, y, r) {
    ctx.moveTo(x, y - r * 1.2);
    ctx.lineTo(x + r * 1.2, y);
    ctx.lineTo(x, y + r * 1.2);
    ctx.lineTo(x - r * 1.2, y);
    ctx.closePath();
  },
};

function mark(ctx, shape, x, y, r, colour, hollow) {
  ctx.beginPath();
  shapes[shape](ctx, x, y, r);
  if (hollow || shape === "cross") {
    ctx.strokeStyle = colour;
    ctx.lineWidth = 2;
    ctx.stroke();
  } else {
    ctx.fillStyle = colour;
    ctx.fill();
  }
}

function line(ctx, x, y, toX, toY, colour, width) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(toX, toY);
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.stroke();
}

export const styleOf = (item, isEcho) => {
  if (item.what === "attempt") return item.outcome;
  if (item.what === "change") return item.change;
  if (item.coalesced > 0) return "folded";
  return item.type === "Deleted" ? "deleted" : isEcho ? "echo" : "event";
};

export function drawEvent(ctx, colours, item, x, from, y, isEcho) {
  if (x - from > 3) line(ctx, from, y, x, y, colours.muted, 1.5);
  if (item.coalesced > 0) {
    const text = item.coalesced > 99 ? "99+" : String(item.coalesced), r = 7 + text.length;
    mark(ctx, "circle", x, y, r, isEcho ? colours.echo : colours.event);
    ctx.fillStyle = colours.ground;
    ctx.font = "600 10px system-ui, sans-serif";
    ctx.textAlign = "center";
    ctx.fillText(text, x, y + 3.5);
    ctx.textAlign = "left";
    return;
  }
  const shape = item.type === "Deleted" ? "cross" : isEcho ? "diamond" : "circle";
  mark(ctx, shape, x, y, 4, isEcho ? colours.echo : colours.event, isEcho);
}

export function drawChange(ctx, colours, item, x, y) {
  const shape = { added: "triangle", removed: "cross" }[item.change] || "circle";
  mark(ctx, shape, x, y, item.change === "unchanged" ? 3 : 4, colours.change, item.change === "unchanged");
}

export const bar = 8; // the height of an attempt

export function drawAttempt(ctx, colours, item, x, from, y, writes) {
  const width = Math.max(5, x - from);
  const colour = { success: colours.good, requeue_after: colours.again, error: colours.bad, terminal: colours.final }[item.outcome] || colours.muted;
  ctx.fillStyle = colour;
  ctx.fillRect(from, y, width, bar);
  if (item.outcome === "requeue_after" && width >= 5) {
    ctx.fillStyle = colours.ground;
    ctx.fillRect(from + 1.5, y + 1.5, width - 3, bar - 3);
  }
  if (item.outcome === "error" || item.outcome === "terminal") {
    if (item.outcome === "terminal") mark(ctx, "diamond", from + width, y + bar / 2, 5, colour);
    else mark(ctx, "cross", from + width + 1, y + bar / 2, 4.5, colour);
  }
  for (const at of writes) {
    ctx.fillStyle = colours.echo;
    ctx.fillRect(Math.min(Math.max(at, from), from + width) - 1, y - 4, 2, bar + 4);
  }
}

export const drawLink = (ctx, colours, x, y, toX, toY) => line(ctx, x, y, toX, toY, colours.echo, 0.75);

// legend lists what the marks mean, each with a drawing.
export function legend(colours) {
  const of = { event: { what: "event" }, folded: { what: "event", coalesced: 12 }, deleted: { what: "event", type: "Deleted" } };
  const ratio = Math.min(2, devicePixelRatio || 1);
  return [
    ["event", (c) => drawEvent(c, colours, of.event, 22, 6, 9)],
    ["several events, folded into one", (c) => drawEvent(c, colours, of.folded, 14, 14, 9)],
    ["deletion", (c) => drawEvent(c, colours, of.deleted, 14, 14, 9)],
    ["echo of an own write", (c) => drawEvent(c, colours, of.event, 14, 14, 9, true)],
    ["added to the cache", (c) => drawChange(c, colours, { change: "added" }, 14, 10)],
    ["updated", (c) => drawChange(c, colours, { change: "updated" }, 14, 9)],
    ["unchanged", (c) => drawChange(c, colours, { change: "unchanged" }, 14, 9)],
    ["removed", (c) => drawChange(c, colours, { change: "removed" }, 14, 9)],
    ["attempt with a write", (c) => drawAttempt(c, colours, { outcome: "success" }, 24, 4, 7, [16])],
    ["attempt, due again", (c) => drawAttempt(c, colours, { outcome: "requeue_after" }, 24, 4, 7, [])],
    ["failed attempt", (c) => drawAttempt(c, colours, { outcome: "error" }, 20, 4, 7, [])],
    ["failed for good", (c) => drawAttempt(c, colours, { outcome: "terminal" }, 20, 4, 7, [])],
  ].map(([text, draw]) => {
    const canvas = document.createElement("canvas"), item = document.createElement("li");
    canvas.width = 28 * ratio;
    canvas.height = 18 * ratio;
    canvas.className = "sample";
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    draw(ctx);
    item.append(canvas, text);
    return item;
  });
}
