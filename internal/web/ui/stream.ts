// The stream of what changes. A browser has one for all of its tabs: a shared
// worker holds it (worker.ts); where there are none, each tab has its own.

export interface Told {
  topic: string;
  at: number;
  status?: string;
  counts?: number[];
  total?: number;
  cells?: string;
}
export type Listener = (m: Told) => void;

// Stream keeps one EventSource for all topics that are wanted.
export class Stream {
  private source: EventSource | null = null;
  private wanted = new Map<string, number>(); // topics, and how often
  private at = new Map<string, number>();
  private timer = 0;

  constructor(private told: Listener, private state: (up: boolean) => void) {}

  want(topic: string, at: number): void {
    const n = this.wanted.get(topic) || 0;
    this.wanted.set(topic, n + 1);
    // Who comes later gets what it missed: the earliest place counts.
    if (n === 0 || at < (this.at.get(topic) || 0)) this.at.set(topic, at);
    this.reopen();
  }

  drop(topic: string): void {
    const n = (this.wanted.get(topic) || 0) - 1;
    if (n > 0) this.wanted.set(topic, n);
    else {
      this.wanted.delete(topic);
      this.at.delete(topic);
    }
    this.reopen();
  }

  private reopen(): void {
    clearTimeout(this.timer);
    // What the old one still has to say would be taken for what all have heard.
    this.source?.close();
    this.source = null;
    this.timer = setTimeout(() => this.open(), 20) as unknown as number;
  }

  private open(): void {
    if (this.wanted.size === 0) return;
    const topics = Array.from(this.wanted.keys());
    const at = topics.map((t) => t + "=" + (this.at.get(t) || 0));
    const s = new EventSource("/stream?" + new URLSearchParams({ topics: topics.join(" "), at: at.join(" ") }));
    s.onopen = () => this.state(true);
    s.onerror = () => {
      this.state(false);
      // A browser tries again by itself, unless the server refused it.
      if (s.readyState === EventSource.CLOSED && this.source === s) this.timer = setTimeout(() => this.open(), 3000) as unknown as number;
    };
    s.onmessage = (e) => {
      const m = JSON.parse(e.data) as Told;
      this.at.set(m.topic, m.at);
      this.told(m);
    };
    this.source = s;
  }
}

// listen asks for topics and gives a function that says where a topic stands.
export function listen(topics: [string, number][], told: Listener, state: (up: boolean) => void, worker: string): void {
  if (typeof SharedWorker === "undefined") {
    const s = new Stream(told, state);
    for (const [t, at] of topics) s.want(t, at);
    return;
  }
  const w = new SharedWorker(trusted(worker), { name: "bide" });
  w.port.onmessage = (e: MessageEvent) => ("up" in e.data ? state(e.data.up) : told(e.data));
  w.port.postMessage({ want: topics });
  addEventListener("pagehide", () => w.port.postMessage({ bye: true }));
  addEventListener("pageshow", (e) => {
    if (e.persisted) w.port.postMessage({ want: topics });
  });
}

interface Policies {
  createPolicy(name: string, rules: { createScriptURL(s: string): string }): { createScriptURL(s: string): URL };
}

// trusted lets the address of our worker through, and no other.
function trusted(address: string): string | URL {
  const types = (globalThis as unknown as { trustedTypes?: Policies }).trustedTypes;
  if (!types) return address;
  const policy = types.createPolicy("bide", {
    createScriptURL(s: string): string {
      if (!/^\/assets\/[0-9a-f]{12}\/worker\.js$/.test(s)) throw new TypeError("not our worker");
      return s;
    },
  });
  return policy.createScriptURL(address);
}
