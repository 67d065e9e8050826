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

// The page is asked for again when something changed, at most twice a second (that
// of a map, whose grid and counts the stream tells, every two seconds),
// and never while it is hidden.
let wanted = false;
let busy = false;

async function refresh(): Promise<void> {
  wanted = true;
  if (busy || document.hidden) return;
  busy = true;
  let wait = pause;
  while (wanted && !document.hidden) {
    wanted = false;
    const began = performance.now();
    asked = began;
    try {
      const d = await fetchPage(location.href);
      for (const part of Array.from(d.querySelectorAll("[data-part]"))) {
        const here = document.querySelector(`[data-part="${part.getAttribute("data-part")}"]`);
        if (here) morph(here, part);
      }
      await Promise.all([charted(), ...drawn.map((p) => p.load())]);
      wait = Math.min(Math.max(pause, share * (performance.now() - began)), 3000);
      if (!topic) connected(true);
    } catch {
      if (!topic) connected(false);
      wanted = true; // what is here is old until there is an answer
      wait = Math.min(2 * wait, 10000);
    }
    await new Promise((r) => setTimeout(r, wait));
  }
  busy = false;
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && wanted) void refresh();
});

// A page that is watched takes little from the machine that does the work: it
// waits so many times as long as it took to bring it up to date, 3 s at most.
const share = 20;
let pause = 500;
// The topic that changes this page, and where it stood when the page was made.
const [, topic, at] = /^(.+)=(\d+)$/.exec(document.body.dataset.live || "") || [];
const link = document.querySelector<HTMLElement>("#link")!;

function connected(up: boolean): void {
  const word = document.createElement("span");
  word.textContent = up ? " live" : " not connected";
  link.replaceChildren(up ? "●" : "○", word);
  link.title = word.textContent.trim(); // a phone has no room for it
  link.classList.toggle("off", !up);
}

// What shows how something outside of the runs stands says after how many seconds it is old:
// no stream tells of that. Nothing is asked for while the page is hidden.
let asked = performance.now();
setInterval(() => {
  const every = Number(document.querySelector<HTMLElement>("[data-every]")?.dataset.every);
  if (every && performance.now() - asked >= 1000 * every) void refresh();
}, 1000);

async function start(): Promise<void> {
  const box = document.querySelector<HTMLElement>("[data-grid]");
  let grid: Grid | null = null;
  let from = Number(at);
  if (box) {
    pause = 2000; // what counts is told by the stream
    grid = new Grid(box, location.pathname.replace(/\/map$/, ""));
    repaint.push(() => grid!.recolour());
    await grid.load().catch(() => (from = 0)); // the stream then tells of all cells
  }
  if (!topic) return;
  listen(
    [[topic, from]],
    (m: Told) => {
      if (m.topic !== topic) return;
      if (m.status === "deleted") return location.reload();
      grid?.take(m);
      void refresh();
    },
    connected,
    (document.querySelector('script[type="module"]') as HTMLScriptElement).dataset.worker!,
  );
}
void start();
