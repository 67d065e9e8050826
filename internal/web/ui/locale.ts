// A browser can name a language that its own formats refuse, as "en-US@posix"
// where the system's language is C; uPlot asks for a format when it is loaded.
try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
export {};
