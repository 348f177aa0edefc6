// The connection to the operator: server-sent events that come back after a restart.

import { ingest, live, now, receive } from "./store.js";

const silence = 15_000; // the server sends a state every 5 s
const pauses = [500, 1000, 2000, 4000]; // between attempts to connect, in milliseconds

// connect keeps the stream open, and returns what ends it. onState is called for each state, and onConnection with the connection's state and since when.
export function connect(onState, onConnection) {
  let source, watchdog, retry, failures = 0, gap = null;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(lost, silence);
    if (gap) gap.to = now();
    gap = null;
    failures = 0;
    onConnection("connected");
  };
  const lost = () => {
    clearTimeout(watchdog);
    clearTimeout(retry);
    source?.close();
    if (!gap) live.gaps.push((gap = { from: now(), to: 0 }));
    const pause = pauses[Math.min(failures++, pauses.length - 1)];
    onConnection(navigator.onLine === false ? "disconnected" : "reconnecting", gap.from);
    retry = setTimeout(open, pause);
  };
  const on = (name, use) => source.addEventListener(name, (message) => {
    alive();
    try {
      use(message.data);
    } catch (problem) {
      console.error(`read ${name}: ${problem}`);
    }
  });
  const open = () => {
    source = new EventSource("events");
    source.onerror = lost;
    source.onopen = alive;
    on("state", (text) => {
      receive(text);
      onState();
    });
    on("items", (text) => ingest(JSON.parse(text)));
  };
  open();
  return () => {
    clearTimeout(watchdog);
    clearTimeout(retry);
    source.close();
  };
}
