// What moves on the pages. Each page is complete without it: what changes is
// taken from the same page, as the server makes it.
import "./app.css";
import "./locale";
import { fetchPage, morph } from "./morph";
import { listen, Told } from "./stream";
import { chart } from "./chart";
import { Grid } from "./grid";
import { keys, theme, confirmations } from "./keys";
import { logs } from "./logs";
import { plots } from "./plots";

// What is the middle of a page on a wide window begins in the middle of a narrow
// one.
for (const [box, what] of [[".tabs", '[aria-current="page"]'], [".graph", ".first"]]) {
  const b = document.querySelector(box);
  const at = b?.querySelector(what)?.getBoundingClientRect();
  if (b && at) b.scrollLeft += at.left + at.width / 2 - b.getBoundingClientRect().left - b.clientWidth / 2;
}

const repaint: (() => void)[] = [];
theme(() => repaint.forEach((f) => f()));
keys();
confirmations();
logs();
const charted = chart();
const drawn = plots();
repaint.push(() => drawn.forEach((p) => p.draw()));

// The page is asked for again when something changed, at most twice a second,
// and never while it is hidden.
let wanted = false;
let busy = false;

async function refresh(): Promise<void> {
  wanted = true;
  if (busy || document.hidden) return;
  busy = true;
  while (wanted && !document.hidden) {
    wanted = false;
    try {
      const d = await fetchPage(location.href);
      for (const part of Array.from(d.querySelectorAll("[data-part]"))) {
        const here = document.querySelector(`[data-part="${part.getAttribute("data-part")}"]`);
        if (here) morph(here, part);
      }
      await Promise.all([charted(), ...drawn.map((p) => p.load())]);
    } catch {
      // The stream says that the server is gone.
    }
    await new Promise((r) => setTimeout(r, pause));
  }
  busy = false;
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && wanted) void refresh();
});

let pause = 500;
const topics = (document.body.dataset.live || "").split(" ").filter(Boolean);
const link = document.querySelector<HTMLElement>("#link")!;

async function start(): Promise<void> {
  const box = document.querySelector<HTMLElement>("[data-grid]");
  let grid: Grid | null = null;
  let at = 0;
  if (box) {
    pause = 1000;
    grid = new Grid(box, location.pathname.replace(/\/map$/, ""));
    repaint.push(() => grid!.recolour());
    await grid.load();
    at = grid.at;
  }
  if (!topics.length) return;
  let first = true;
  listen(
    topics.map((t) => [t, at]),
    (m: Told) => {
      if (grid && m.topic.startsWith("map:")) grid.take(m);
      // The first message says where things stand: where this page stands, too.
      if (!first || m.status === "running") void refresh();
      first = false;
    },
    (up: boolean) => {
      link.textContent = up ? "● live" : "○ not connected";
      link.classList.toggle("off", !up);
    },
    (document.querySelector('script[type="module"]') as HTMLScriptElement).dataset.worker!,
  );
}
void start();
