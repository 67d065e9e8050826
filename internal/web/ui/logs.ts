// The outputs of an attempt: opened at the end, more by scrolling, followed
// while they grow, searched on the server.
import { fetchPage } from "./morph";

const run = (): string => location.pathname.split("/").slice(0, 3).join("/");
const most = 6000; // lines that stay in the page

class Pane {
  private box: HTMLElement;
  private from: number;
  private to: number;
  private size: number;
  private live: boolean;
  private busy = false;
  private search = 0; // how many have begun
  readonly name: string; // of the stream

  constructor(private el: HTMLElement) {
    this.name = new URLSearchParams(el.dataset.log).get("stream")!;
    this.box = el.querySelector<HTMLElement>(".log")!;
    const b = this.box.querySelector<HTMLElement>(".block")!;
    this.from = Number(b.dataset.from);
    this.to = Number(b.dataset.to);
    this.size = Number(b.dataset.size);
    this.live = el.dataset.liveLog === "true";
    if (!location.hash && !new URLSearchParams(location.search).has("at")) this.bottom();
    this.box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    if (this.live) this.follow();
  }

  // follow asks for what is new until the attempt is over and all of it is here;
  // a page that nobody sees does not ask.
  private follow(): void {
    const timer = setInterval(() => {
      if (!this.live && this.to >= this.size) clearInterval(timer);
      else if (!document.hidden && following()) void this.more();
    }, 250);
  }

  private bottom(): void {
    this.box.scrollTop = this.box.scrollHeight;
  }

  private scrolled(): void {
    if (this.box.scrollTop < 200 && this.from > 0) void this.earlier();
    else if (this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 200 && this.to < this.size) void this.more();
  }

  private async get(query: string): Promise<HTMLElement | null> {
    if (this.busy) return null;
    this.busy = true;
    try {
      const d = await fetchPage(run() + "/lines?" + this.el.dataset.log + "&" + query);
      return document.adoptNode(d.querySelector<HTMLElement>(".block")!);
    } catch {
      return null;
    } finally {
      this.busy = false;
    }
  }

  private async earlier(): Promise<void> {
    const b = await this.get("before=" + this.from);
    if (!b || !b.childElementCount) return;
    const height = this.box.scrollHeight;
    this.from = Number(b.dataset.from);
    this.box.prepend(b);
    this.box.scrollTop += this.box.scrollHeight - height;
  }

  private async more(): Promise<void> {
    const end = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 40;
    const b = await this.get("after=" + this.to);
    if (!b) return;
    this.size = Number(b.dataset.size);
    this.live = b.dataset.more === "true";
    this.el.querySelector("[data-size-of]")!.textContent = this.size.toLocaleString() + " B";
    if (!b.childElementCount) return;
    this.to = Number(b.dataset.to);
    this.box.append(b);
    while (this.box.querySelectorAll(".l").length > most && this.box.childElementCount > 1) {
      const first = this.box.firstElementChild as HTMLElement;
      this.from = Number(first.dataset.to);
      first.remove();
    }
    if (end && following()) this.bottom();
  }

  // show goes to a byte.
  async show(at: number): Promise<void> {
    if (!document.getElementById(this.name + "-" + at)) {
      const b = await this.get("after=" + at);
      if (!b) return;
      this.box.replaceChildren(b);
      this.from = Number(b.dataset.from);
      this.to = Number(b.dataset.to);
    }
    const l = document.getElementById(this.name + "-" + at);
    this.el.querySelector(".aim")?.classList.remove("aim");
    l?.classList.add("aim");
    l?.scrollIntoView({ block: "center" });
  }

  // find shows the lines that contain a text, some at first, the others when they are
  // asked for.
  async find(q: string): Promise<void> {
    const results = this.el.querySelector<HTMLElement>(".results")!;
    const mine = ++this.search;
    results.hidden = q === "";
    const list = document.createElement("ol");
    const state = document.createElement("p");
    state.className = "none";
    state.setAttribute("role", "status");
    const more = document.createElement("button");
    more.textContent = "Search on";
    results.replaceChildren(list, state);
    let next = 0;
    const on = async (): Promise<void> => {
      const want = list.childElementCount + 200;
      for (more.remove(); ; ) {
        const d = await fetchPage(run() + "/find?" + this.el.dataset.log + "&" + new URLSearchParams({ q, from: String(next) }));
        if (mine !== this.search) return; // another one has begun
        const found = d.querySelector<HTMLElement>(".found")!;
        list.append(...Array.from(found.children).map((n) => document.adoptNode(n)));
        next = Number(found.dataset.next);
        const n = list.childElementCount;
        const over = found.dataset.more !== "true";
        const share = Math.floor((100 * next) / Math.max(1, Number(found.dataset.size)));
        state.textContent = `${n.toLocaleString()} ${n === 1 ? "line" : "lines"} found` + (over ? "" : ` in the first ${share} %`);
        if (over) return;
        if (n >= want) break;
      }
      state.append(" ", more);
    };
    more.onclick = () => void on().then(() => more.isConnected && more.focus());
    results.onclick = (e) => {
      const a = (e.target as Element).closest<HTMLElement>("[data-at]");
      if (!a) return;
      e.preventDefault();
      history.replaceState(null, "", a.getAttribute("href"));
      void this.show(Number(a.dataset.at));
    };
    if (q !== "") await on();
  }
}

const following = (): boolean => document.querySelector<HTMLInputElement>("#follow")?.checked ?? true;

export function logs(): void {
  const panes = Array.from(document.querySelectorAll<HTMLElement>("[data-log]")).map((el) => new Pane(el));
  if (!panes.length) return;
  const form = document.querySelector<HTMLFormElement>("[data-find]")!;
  form.hidden = false;
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    const q = form.querySelector("input")!.value;
    const u = new URL(location.href);
    if (q) u.searchParams.set("q", q);
    else u.searchParams.delete("q");
    history.replaceState(null, "", u);
    panes.forEach((p) => void p.find(q));
  });
  const follow = document.querySelector<HTMLElement>("[data-follow]")!;
  follow.hidden = !document.querySelector('[data-live-log="true"]');
  follow.querySelector("input")!.checked = true;
  const q = form.querySelector("input")!.value;
  if (q) panes.forEach((p) => void p.find(q));
  const aim = /^#(\w+)-(\d+)$/.exec(location.hash);
  if (aim) panes.filter((p) => p.name === aim[1]).forEach((p) => void p.show(Number(aim[2])));
}
