// The grid of a map: one cell an item, drawn on a canvas out of one byte each,
// and changed by what the stream says.
import { Told } from "./stream";

const frame = 250; // ms between two drawings of what the stream says
const names = ["pending", "waiting", "running", "failed, its handler is due", "succeeded", "failed", "skipped", "dead lettered", "unchanged since an earlier run"];
const colours = ["--idle", "--c-wait", "--runbar", "--c-pause", "--goodbar", "--badbar", "--c-skip", "--c-letter", "--good-same"];
const same = 0xf4; // the cell of an unchanged item
const status = (c: number): number => (c === same ? 8 : c & 7);

export class Grid {
  private cells = new Uint8Array(0);
  private canvas: HTMLCanvasElement;
  private ctx: CanvasRenderingContext2D;
  private tip: HTMLOutputElement;
  private cols = 1;
  private size = 4; // of a cell, in pixels of the screen
  private gap = 0;
  private palette = new Uint32Array(17);
  private dim = new Uint32Array(17);
  private ground = 0;
  private cursor = 0;
  private only: number;
  private mark = document.createElement("i"); // around the cell of the cursor
  private image: ImageData | null = null;
  private changed: number[] = []; // cells that the image does not have yet
  private counts: number[] = [];
  private timer = 0;
  private asked = 0;
  private coloured = false;

  constructor(private box: HTMLElement, private run: string) {
    this.canvas = box.querySelector("canvas")!;
    this.ctx = this.canvas.getContext("2d", { alpha: false })!;
    this.tip = box.querySelector("output")!;
    const state = document.querySelector<HTMLElement>('[data-state][aria-current="true"]');
    this.only = state ? Number(state.dataset.state) : -1;
    this.canvas.addEventListener("pointermove", (e) => this.point(this.find(e)));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("click", (e) => this.open(this.find(e)));
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("focus", () => this.go(this.cursor));
    this.canvas.addEventListener("blur", () => (this.tip.hidden = this.mark.hidden = true));
    this.mark.className = "cursor";
    this.mark.hidden = true;
    box.append(this.mark);
    new ResizeObserver(() => this.paint()).observe(box);
  }

  async load(): Promise<void> {
    const r = await fetch(this.run + "/cells");
    if (!r.ok) throw new Error("status " + r.status);
    this.cells = new Uint8Array(await r.arrayBuffer());
    this.box.hidden = this.cells.length === 0;
    this.paint();
    performance.mark("grid");
  }

  // take takes changes: for each the distance from the one before as a varint,
  // and the cell.
  take(m: Told): void {
    if ((m.total || 0) > this.cells.length) {
      const grown = new Uint8Array(m.total!);
      grown.set(this.cells);
      this.cells = grown;
      this.image = null;
      this.box.hidden = false;
    }
    const b = atob(m.cells || "");
    let at = -1;
    for (let i = 0; i < b.length; ) {
      let step = 0;
      let shift = 1;
      let c: number;
      do {
        c = b.charCodeAt(i++);
        step += (c & 127) * shift;
        shift *= 128;
      } while (c & 128);
      at += step;
      this.cells[at] = b.charCodeAt(i++);
      if (this.image) this.changed.push(at);
    }
    if (this.changed.length > this.cells.length) {
      this.image = null; // nobody looks, and nothing is drawn
      this.changed = [];
    }
    this.counts = m.counts || [];
    // A page that is watched takes little from the machine that does the work.
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.counts.forEach((n, s) => {
        const el = document.querySelector(`[data-count="${s}"]`);
        const text = n.toLocaleString("fr").replace(/\s/g, "\u202f");
        if (el && el.textContent !== text) el.textContent = text;
      });
      this.soon();
    }, frame) as unknown as number;
  }

  // paint draws all of it at the next frame, and soon what has changed.
  paint(): void {
    this.image = null;
    this.soon();
  }

  private soon(): void {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.draw();
    });
  }

  private layout(): void {
    const n = this.cells.length;
    const scale = devicePixelRatio || 1;
    const width = Math.max(50, Math.floor(this.box.clientWidth * scale));
    const wanted = n <= 600 ? 16 : n <= 3000 ? 11 : n <= 20000 ? 7 : n <= 60000 ? 5 : n <= 250000 ? 4 : 2;
    this.size = Math.max(1, Math.round(wanted * scale));
    this.gap = this.size >= 10 ? 2 : this.size >= 6 ? 1 : 0;
    this.cols = Math.max(1, Math.floor(width / this.size));
    const height = Math.ceil(n / this.cols) * this.size;
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.image = null;
      this.canvas.width = width;
      this.canvas.height = height;
      this.canvas.style.width = width / scale + "px";
      this.canvas.style.height = height / scale + "px";
    }
  }

  // recolour is paint after the theme has changed.
  recolour(): void {
    this.coloured = false;
    this.paint();
  }

  private colour(): void {
    if (this.coloured) return;
    this.coloured = true;
    const style = getComputedStyle(document.documentElement);
    const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true })!;
    const read = (name: string, alpha: number): number => {
      // A colour of the style may be a pair: the page resolves it.
      this.tip.style.color = `var(${name})`;
      probe.globalAlpha = 1;
      probe.fillStyle = style.getPropertyValue("--card") ? getComputedStyle(this.box).backgroundColor : "#fff";
      probe.fillRect(0, 0, 1, 1);
      probe.globalAlpha = alpha;
      probe.fillStyle = getComputedStyle(this.tip).color;
      probe.fillRect(0, 0, 1, 1);
      const d = probe.getImageData(0, 0, 1, 1).data;
      return (255 << 24) | (d[2] << 16) | (d[1] << 8) | d[0];
    };
    this.ground = read("--card", 1);
    for (let s = 0; s < 8; s++) {
      const name = colours[s] || "--idle";
      // The eye is to meet what failed first: what ended well is pale, less so
      // after a retry.
      for (const retried of [0, 8]) {
        this.palette[s | retried] = read(s === 4 ? (retried ? "--good-again" : "--good-first") : name, 1) >>> 0;
        this.dim[s | retried] = read(name, 0.16) >>> 0;
      }
    }
    this.palette[16] = read(colours[8], 1) >>> 0;
    this.dim[16] = read(colours[8], 0.16) >>> 0;
    this.tip.style.color = "";
  }

  private draw(): void {
    if (!this.cells.length) return;
    this.layout();
    this.colour();
    if (this.image) this.drawChanged(this.image);
    else this.ctx.putImageData((this.image = this.drawAll()), 0, 0);
    this.changed = [];
  }

  private colourOf(cell: number): number {
    const colour = cell === same ? 16 : cell & 15;
    return this.only < 0 || status(cell) === this.only ? this.palette[colour] : this.dim[colour];
  }

  private drawAll(): ImageData {
    const w = this.canvas.width;
    const image = this.ctx.createImageData(w, this.canvas.height);
    const px = new Uint32Array(image.data.buffer);
    px.fill(this.ground);
    // The first line of each row of cells is drawn, the others are copies of it.
    const { size, cols, cells } = this;
    const fill = size - this.gap;
    for (let i = 0, line = 0; i < cells.length; line += size * w) {
      const end = Math.min(i + cols, cells.length);
      for (let at = line; i < end; i++, at += size) px.fill(this.colourOf(cells[i]), at, at + fill);
      for (let dy = 1; dy < fill; dy++) px.copyWithin(line + dy * w, line, line + w);
    }
    return image;
  }

  private drawChanged(image: ImageData): void {
    const px = new Uint32Array(image.data.buffer);
    const { size, cols, cells } = this;
    const w = image.width;
    const fill = size - this.gap;
    let [first, last] = [Infinity, -1]; // rows of cells
    for (const i of this.changed) {
      const row = Math.floor(i / cols);
      const colour = this.colourOf(cells[i]);
      for (let dy = 0, at = row * size * w + (i % cols) * size; dy < fill; dy++, at += w) px.fill(colour, at, at + fill);
      first = Math.min(first, row);
      last = Math.max(last, row);
    }
    if (last >= 0) this.ctx.putImageData(image, 0, 0, 0, first * size, w, (last - first + 1) * size);
  }

  // go puts the cursor on a cell.
  private go(i: number): void {
    this.cursor = i;
    const scale = this.canvas.width / this.canvas.getBoundingClientRect().width;
    const style = this.mark.style;
    style.left = ((i % this.cols) * this.size) / scale + "px";
    style.top = (Math.floor(i / this.cols) * this.size) / scale + "px";
    style.width = style.height = (this.size - this.gap) / scale + "px";
    this.mark.hidden = false;
    this.mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.point(i);
  }

  private find(e: MouseEvent): number {
    const r = this.canvas.getBoundingClientRect();
    const scale = this.canvas.width / r.width;
    const x = Math.floor(((e.clientX - r.left) * scale) / this.size);
    const y = Math.floor(((e.clientY - r.top) * scale) / this.size);
    const i = y * this.cols + x;
    return x < this.cols && i < this.cells.length ? i : -1;
  }

  private point(i: number): void {
    this.tip.hidden = i < 0;
    if (i < 0) return;
    const c = this.cells[i];
    this.tip.textContent = "item " + i + ": " + names[status(c)] + (c & 8 && c !== same ? ", retried" : "");
    const scale = this.canvas.width / this.canvas.getBoundingClientRect().width;
    const x = ((i % this.cols) * this.size) / scale;
    const y = (Math.floor(i / this.cols) * this.size) / scale;
    this.tip.style.left = Math.min(x, this.box.clientWidth - 190) + "px";
    this.tip.style.top = y + this.size / scale + 6 + "px";
  }

  private open(i: number): void {
    if (i >= 0) location.href = this.run + "/items/" + i;
  }

  private key(e: KeyboardEvent): void {
    const by: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.cols, ArrowDown: this.cols };
    if (e.key in by) {
      e.preventDefault();
      const next = this.cursor + by[e.key];
      if (next >= 0 && next < this.cells.length) this.go(next);
    } else if (e.key === "Enter") {
      e.preventDefault();
      e.stopPropagation();
      this.open(this.cursor);
    }
  }
}
