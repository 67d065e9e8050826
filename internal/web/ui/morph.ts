// morph makes an element like another one, in place: what is the same stays,
// with its focus, its scroll and its state. Children that have a data-key, an id
// or a data-part are found again by it.

const keyOf = (n: Node): string =>
  n instanceof Element ? n.getAttribute("data-key") || n.id || n.getAttribute("data-part") || "" : "";

function attributes(to: Element, from: Element): void {
  for (const a of Array.from(from.attributes)) {
    if (to.getAttribute(a.name) !== a.value) to.setAttribute(a.name, a.value);
  }
  for (const a of Array.from(to.attributes)) {
    // What a person has opened stays open.
    if (!from.hasAttribute(a.name) && !(a.name === "open" && to instanceof HTMLDetailsElement)) to.removeAttribute(a.name);
  }
}

export function morph(to: Element, from: Element): void {
  if (to.isEqualNode(from) || to.hasAttribute("data-keep")) return;
  if (from.classList.contains("later")) return; // it is loaded since, or has a height, see chart.ts
  attributes(to, from);
  const old = new Map<string, Element>();
  for (const c of Array.from(to.children)) {
    const k = keyOf(c);
    if (k) old.set(k, c);
  }
  let at: ChildNode | null = to.firstChild;
  for (const wanted of Array.from(from.childNodes)) {
    const k = keyOf(wanted);
    let have: ChildNode | null = at;
    if (k && old.has(k)) {
      have = old.get(k)!;
      if (have !== at) to.insertBefore(have, at);
      else at = at!.nextSibling;
      old.delete(k);
      morph(have as Element, wanted as Element);
      continue;
    }
    if (have && !keyOf(have) && have.nodeType === wanted.nodeType && have.nodeName === wanted.nodeName && !k) {
      at = have.nextSibling;
      if (have instanceof Element) morph(have, wanted as Element);
      else if (have.nodeValue !== wanted.nodeValue) have.nodeValue = wanted.nodeValue;
      continue;
    }
    to.insertBefore(document.importNode(wanted, true), at);
  }
  while (at) {
    const next: ChildNode | null = at.nextSibling;
    at.remove();
    at = next;
  }
  for (const c of old.values()) if (c.parentNode === to) c.remove();
}

// fetchPage gives a page of ours as a document. It is parsed by the browser as
// what it is; no text becomes HTML here, and no script of it runs.
export function fetchPage(address: string): Promise<Document> {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    x.open("GET", address);
    x.responseType = "document";
    x.timeout = 30000;
    x.onload = () => (x.status === 200 && x.responseXML ? resolve(x.responseXML) : reject(new Error("status " + x.status)));
    x.onerror = x.ontimeout = () => reject(new Error("no answer"));
    x.send();
  });
}
