// The timeline of a run of many steps: rows come by chunks as they come into
// view. When the run has changed, those in view are asked for again, and the
// others leave until they come into view.
import { fetchPage, morph } from "./morph";

// chart gives what is to be called when the page has been refreshed.
export function chart(): () => Promise<void> {
  const gantt = document.querySelector<HTMLElement>(".gantt");
  if (!gantt || !("IntersectionObserver" in window)) return async () => {};
  const seen = new IntersectionObserver(
    (entries) => {
      for (const e of entries) if (e.isIntersecting) void load(e.target as HTMLElement);
    },
    { rootMargin: "600px" },
  );

  let changes = 0; // how often the run has changed since the page came

  async function chunk(from: string): Promise<HTMLElement | null> {
    const q = new URLSearchParams(location.search);
    q.set("from", from);
    const d = await fetchPage(location.pathname + "/rows?" + q);
    return d.querySelector<HTMLElement>(".chunk");
  }

  // watch waits until what is not there comes into view.
  function watch(): void {
    gantt!.querySelectorAll<HTMLElement>(".later").forEach((l) => {
      seen.unobserve(l); // what is in view and could not be had is asked for once more
      seen.observe(l);
    });
  }

  async function load(later: HTMLElement): Promise<void> {
    if (later.dataset.busy) return;
    later.dataset.busy = "1";
    try {
      let c: HTMLElement | null;
      let asked: number;
      do {
        asked = changes; // rows that were asked for before a change tell what was before it
        c = await chunk(later.dataset.later!);
      } while (asked !== changes && later.isConnected);
      if (!c || !later.isConnected) return;
      seen.unobserve(later);
      later.replaceWith(document.adoptNode(c));
    } catch {
      setTimeout(watch, 2000);
    } finally {
      delete later.dataset.busy;
    }
  }

  async function again(): Promise<void> {
    changes++;
    watch();
    const loaded = Array.from(gantt!.querySelectorAll<HTMLElement>(".chunk")).slice(1); // the page has the first
    for (const c of loaded) {
      const b = c.getBoundingClientRect();
      if (b.bottom > -600 && b.top < innerHeight + 600) {
        const fresh = await chunk(c.dataset.from!);
        if (fresh && c.isConnected) morph(c, fresh);
        continue;
      }
      const later = document.createElement("div");
      later.className = "later";
      later.dataset.later = later.dataset.key = c.dataset.from!;
      later.style.height = b.height + "px";
      c.replaceWith(later);
      seen.observe(later);
    }
  }
  watch();
  return again;
}
