// Keys, the theme, and questions before what cannot be taken back.

export function keys(): void {
  const help = document.querySelector<HTMLDialogElement>("#help")!;
  const button = document.querySelector<HTMLButtonElement>("#keys")!;
  button.hidden = false;
  button.onclick = () => help.showModal();
  let go = 0;
  addEventListener("keydown", (e) => {
    const t = e.target as HTMLElement;
    if (e.ctrlKey || e.metaKey || e.altKey || help.open || t.closest("input,textarea,select,[contenteditable]")) return;
    if (go > Date.now()) {
      go = 0;
      const to = e.key === "r" ? document.querySelector<HTMLElement>(".brand") : document.querySelector<HTMLElement>(`[data-go="${CSS.escape(e.key)}"]`);
      if (to) {
        e.preventDefault();
        to.click();
      }
      return;
    }
    switch (e.key) {
      case "g":
        go = Date.now() + 1500;
        return;
      case "?":
        help.showModal();
        break;
      case "/":
        document.querySelector<HTMLElement>('main input[type="search"]')?.focus();
        break;
      case "j":
        move(1);
        break;
      case "k":
        move(-1);
        break;
      case "Enter": {
        const a = document.querySelector<HTMLElement>(".here a");
        if (!a || t.closest("a,button")) return;
        a.click();
        break;
      }
      default:
        return;
    }
    e.preventDefault();
  });
}

function move(by: number): void {
  const rows = Array.from(document.querySelectorAll<HTMLElement>("[data-row]"));
  const at = rows.findIndex((r) => r.classList.contains("here"));
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  if (!next) return;
  rows[at]?.classList.remove("here");
  next.classList.add("here");
  next.querySelector<HTMLElement>("a")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

const themes = ["auto", "light", "dark"];

export function theme(changed: () => void): void {
  const button = document.querySelector<HTMLButtonElement>("#theme")!;
  const apply = (t: string): void => {
    if (t === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = t;
    button.textContent = "Theme: " + t;
    changed();
  };
  let now = localStorage.getItem("theme") || "auto";
  if (!themes.includes(now)) now = "auto";
  apply(now);
  button.hidden = false;
  button.onclick = () => {
    now = themes[(themes.indexOf(now) + 1) % themes.length];
    localStorage.setItem("theme", now);
    apply(now);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

export function confirmations(): void {
  document.addEventListener("submit", (e) => {
    const f = e.target as HTMLFormElement;
    if (f.dataset.confirm && !confirm(f.dataset.confirm)) e.preventDefault();
  });
}
