// Light or dark: as the system, unless somebody has chosen.

const KEY = "penstock-colours";
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const SAID = { auto: "as the system", light: "light", dark: "dark" };
const SIGN = { auto: "◐", light: "○", dark: "●" };

export function beginTheme(button, changed) {
  const show = (chosen) => {
    if (chosen === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    button.textContent = SIGN[chosen];
    button.setAttribute("aria-label", `Colours: ${SAID[chosen]}`);
    button.title = `Colours: ${SAID[chosen]}`;
  };
  let chosen = localStorage.getItem(KEY) ?? "auto";
  if (!(chosen in NEXT)) chosen = "auto";
  show(chosen);
  button.addEventListener("click", () => {
    chosen = NEXT[chosen];
    localStorage.setItem(KEY, chosen);
    show(chosen);
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
