// The shared worker: it holds the one stream of this browser and passes on to
// each tab what it asked for.
import { Stream, Told } from "./stream";

interface Tab {
  port: MessagePort;
  topics: Set<string>;
}
const tabs = new Set<Tab>();
let up = false;
const stream = new Stream(
  (m: Told) => tabs.forEach((t) => t.topics.has(m.topic) && t.port.postMessage(m)),
  (now: boolean) => {
    up = now;
    tabs.forEach((t) => t.port.postMessage({ up }));
  },
);

addEventListener("connect", (e) => {
  const tab: Tab = { port: (e as MessageEvent).ports[0], topics: new Set() };
  tabs.add(tab);
  tab.port.onmessage = (m: MessageEvent) => {
    if (m.data.bye) {
      tab.topics.forEach((t) => stream.drop(t));
      tab.topics.clear();
      tabs.delete(tab);
      return;
    }
    tabs.add(tab);
    for (const [topic, at] of m.data.want as [string, number][]) {
      if (!tab.topics.has(topic)) {
        tab.topics.add(topic);
        stream.want(topic, at);
      }
    }
    tab.port.postMessage({ up });
  };
  tab.port.start();
});
