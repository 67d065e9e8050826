// The plots: what a map did over time, and the delays of retries. Each has an
// equal table on its page.
import uPlot from "./vendor/uplot/uPlot.esm.js";
import "./vendor/uplot/uPlot.min.css";

type Drawn = { destroy(): void; setSize(s: { width: number; height: number }): void };
interface Series {
  step: number;
  time: number[];
  good: number[];
  failed: number[];
  retried: number[];
  bands: { from: number; to: number; kind: string; text: string }[] | null;
}
interface Dots {
  attempt: number[];
  delay: number[];
  source: number[];
  names: string[];
  band: [number, number, number][];
}

// colour is a colour of the style as it is now.
function colour(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const c = getComputedStyle(probe).color;
  probe.remove();
  return c;
}

// clock is a time of the day, as the rest of the page writes it.
const clock = (second: number): string => {
  const t = new Date(second * 1000);
  return [t.getHours(), t.getMinutes(), t.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
};

const axis = (extra: object = {}): object => ({
  stroke: colour("--soft"),
  grid: { stroke: colour("--line"), width: 1 },
  ticks: { stroke: colour("--line"), width: 1 },
  font: "11px system-ui, sans-serif",
  ...extra,
});

// Plot is one plot: it draws itself anew when the theme or the width changes.
abstract class Plot<D> {
  private drawn: Drawn | null = null;
  protected data: D | null = null;
  constructor(protected el: HTMLElement, private box: HTMLElement) {
    new ResizeObserver(() => this.drawn?.setSize({ width: this.box.clientWidth, height: this.height })).observe(box);
  }
  protected readonly height: number = 220;
  abstract address(): string;
  abstract empty(d: D): boolean;
  abstract make(d: D, width: number): [object, unknown];
  table(_: D): void {}

  async load(): Promise<void> {
    const r = await fetch(this.address());
    if (!r.ok) return;
    this.data = (await r.json()) as D;
    this.draw();
  }

  draw(): void {
    if (!this.data) return;
    this.el.hidden = this.empty(this.data);
    if (this.el.hidden) return;
    this.drawn?.destroy();
    const [options, data] = this.make(this.data, this.box.clientWidth || 600);
    this.drawn = new (uPlot as unknown as new (o: object, d: unknown, el: HTMLElement) => Drawn)(options, data, this.box);
    this.table(this.data);
  }
}

class Throughput extends Plot<Series> {
  address(): string {
    return location.pathname.replace(/\/map$/, "/series");
  }
  empty(d: Series): boolean {
    return !d.time || d.time.length < 2;
  }
  make(d: Series, width: number): [object, unknown] {
    const bands = d.bands || [];
    const shade = (u: { ctx: CanvasRenderingContext2D; bbox: { left: number; top: number; width: number; height: number }; valToPos(v: number, s: string, c: boolean): number }): void => {
      for (const b of bands) {
        const x = Math.max(u.bbox.left, u.valToPos(b.from, "x", true));
        const end = Math.min(u.bbox.left + u.bbox.width, Math.max(x + 2, u.valToPos(b.to, "x", true)));
        u.ctx.save();
        u.ctx.globalAlpha = 0.18;
        u.ctx.fillStyle = colour(b.kind === "breaker" ? "--bad" : "--warn");
        u.ctx.fillRect(x, u.bbox.top, end - x, u.bbox.height);
        u.ctx.restore();
      }
    };
    const line = (label: string, name: string, dash?: number[]): object => ({ label, stroke: colour(name), width: 2, dash, points: { show: false }, value: (_: unknown, v: number) => (v == null ? "" : v.toFixed(1) + "/s") });
    return [
      {
        width,
        height: this.height,
        cursor: { drag: { x: true, y: false } },
        hooks: { drawClear: [shade] },
        series: [{ label: "at", value: (_: unknown, v: number) => (v == null ? "" : clock(v)) }, line("ended well", "--goodbar"), line("failed", "--badbar", [6, 3]), line("retried", "--c-wait", [2, 3])],
        axes: [
          // Whole seconds, as a clock of 24 hours shows them: there is one point a second.
          axis({ space: 80, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400], values: (_: unknown, v: number[]) => v.map(clock) }),
          axis({ size: 46, values: (_: unknown, v: number[]) => v.map((x) => x + "/s") }),
        ],
        scales: { y: { range: (_: unknown, __: number, max: number) => [0, Math.max(1, max * 1.08)] } },
      },
      [d.time, d.good, d.failed, d.retried],
    ];
  }
  table(d: Series): void {
    const box = this.el.querySelector(".plottable");
    if (!box) return;
    const t = document.createElement("table");
    t.className = "list small";
    const row = (cells: string[], head: boolean): void => {
      const tr = (head ? t.createTHead() : t.tBodies[0] || t.createTBody()).insertRow();
      for (const c of cells) {
        const cell = document.createElement(head ? "th" : "td");
        cell.textContent = c;
        cell.className = "r";
        tr.append(cell);
      }
    };
    row(["time", "ended well/s", "failed/s", "retried/s"], true);
    const every = Math.ceil(d.time.length / 200);
    for (let i = 0; i < d.time.length; i += every)
      row([clock(d.time[i]), d.good[i].toFixed(1), d.failed[i].toFixed(1), d.retried[i].toFixed(1)], false);
    box.replaceChildren(t);
  }
}

class Delays extends Plot<Dots> {
  address(): string {
    const q = new URLSearchParams(location.search);
    q.set("data", "1");
    const of = document.querySelector<HTMLSelectElement>("#of");
    if (of) q.set("of", of.value);
    return location.pathname + "?" + q;
  }
  empty(d: Dots): boolean {
    return d.attempt.length === 0;
  }
  make(d: Dots, width: number): [object, unknown] {
    const attempts = Math.max(...d.attempt, 1);
    const most = Math.max(...d.delay, ...d.band.map((b) => b[2]), 0.001);
    const tones = ["--c-wait", "--runbar", "--c-pause", "--soft", "--c-budget"].map(colour);
    const shapes = ["o", "x", "+", "s", "d"];
    const draw = (u: { ctx: CanvasRenderingContext2D; valToPos(v: number, s: string, c: boolean): number }): void => {
      const c = u.ctx;
      c.save();
      c.globalAlpha = 0.28;
      c.fillStyle = tones[0];
      for (const [n, least, greatest] of d.band) {
        const x = u.valToPos(n - 0.38, "x", true);
        const top = u.valToPos(greatest, "y", true);
        c.fillRect(x, top - 1, u.valToPos(n + 0.38, "x", true) - x, Math.max(2, u.valToPos(least, "y", true) - top + 2));
      }
      c.globalAlpha = d.attempt.length > 2000 ? 0.35 : 0.85;
      const r = 2.6 * (devicePixelRatio || 1);
      for (let i = 0; i < d.attempt.length; i++) {
        // Spread over the width of the band, always the same way.
        const spread = (((i * 2654435761) >>> 0) / 4294967296 - 0.5) * Math.min(0.6, 0.05 * Math.sqrt(d.attempt.length));
        const x = u.valToPos(d.attempt[i] + spread, "x", true);
        const y = u.valToPos(d.delay[i], "y", true);
        c.strokeStyle = c.fillStyle = tones[d.source[i]];
        c.beginPath();
        switch (shapes[d.source[i]]) {
          case "o":
            c.arc(x, y, r, 0, 7);
            c.fill();
            break;
          case "s":
            c.fillRect(x - r, y - r, 2 * r, 2 * r);
            break;
          default:
            c.moveTo(x - r, y - r);
            c.lineTo(x + r, y + r);
            c.moveTo(x + r, y - r);
            c.lineTo(x - r, y + r);
            c.stroke();
        }
      }
      c.restore();
    };
    const unit = (v: number): string => (v >= 3600 ? +(v / 3600).toFixed(1) + "h" : v >= 60 ? +(v / 60).toFixed(1) + "m" : v >= 1 || v === 0 ? +v.toFixed(1) + "s" : Math.round(v * 1000) + "ms");
    return [
      {
        width,
        height: this.height,
        legend: { show: false },
        cursor: { show: false },
        hooks: { draw: [draw] },
        series: [{}, { paths: () => null, points: { show: false } }],
        axes: [
          axis({ values: (_: unknown, v: number[]) => v.map((x) => (Number.isInteger(x) && x >= 1 && x <= attempts ? "after " + x : "")), incrs: [1, 2, 5, 10, 50, 100, 1000], space: 56 }),
          axis({ size: 56, values: (_: unknown, v: number[]) => v.map(unit) }),
        ],
        scales: { x: { time: false, range: [0.4, attempts + 0.6] }, y: { range: [0, most * 1.08] } },
      },
      [[1, attempts], [0, most]],
    ];
  }
}

export function plots(): { draw(): void; load(): Promise<void> }[] {
  const out: { draw(): void; load(): Promise<void> }[] = [];
  const series = document.querySelector<HTMLElement>('[data-plot="series"]');
  if (series) out.push(new Throughput(series, series.querySelector<HTMLElement>(".plot")!));
  const delays = document.querySelector<HTMLElement>('[data-plot="delays"]');
  if (delays) out.push(new Delays(delays, delays));
  for (const p of out) void p.load();
  document.querySelectorAll<HTMLSelectElement>("[data-submit]").forEach((s) => {
    s.addEventListener("change", () => s.form!.requestSubmit());
    s.form!.querySelector("button")!.hidden = true;
  });
  return out;
}
