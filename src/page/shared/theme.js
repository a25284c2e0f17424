import { byId } from "./dom.js";

const KEY = "jobgate.theme";
const THEMES = /** @type {const} */ (["system", "light", "dark"]);
const LABELS = { system: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

/** Starts the button that cycles through the themes; the browser remembers the choice. */
export function startTheme() {
  const button = byId("theme", HTMLButtonElement);
  let theme = THEMES.find((known) => known === localStorage.getItem(KEY)) ?? "system";
  const show = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = { system: "◐", light: "☀", dark: "☾" }[theme];
    button.setAttribute("aria-label", LABELS[theme]);
    button.title = LABELS[theme];
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
    localStorage.setItem(KEY, theme);
    show();
  });
  show();
}
