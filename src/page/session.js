import { byId } from "./dom.js";

const KEY = "jobgate.token";

/** Operator token, kept for this tab only. */
export const session = {
  /** @returns {string | undefined} */
  get token() {
    return sessionStorage.getItem(KEY) ?? undefined;
  },
  /** @param {string} token */
  logIn(token) {
    sessionStorage.setItem(KEY, token);
  },
  logOut() {
    sessionStorage.removeItem(KEY);
  },
};

/**
 * Shows the login form and returns the token.
 * @param {string} problem Reason why the last token was refused, or empty.
 * @returns {Promise<string>}
 */
export function askForToken(problem) {
  const form = byId("login", HTMLFormElement);
  const input = byId("token", HTMLInputElement);
  const message = byId("login-problem", HTMLElement);
  form.hidden = false;
  input.value = "";
  input.setAttribute("aria-invalid", String(problem !== ""));
  message.textContent = problem;
  input.focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      const token = input.value.trim();
      // A header cannot carry anything else.
      if (!/^[\x21-\x7e]+$/.test(token)) {
        message.textContent = "A token is made of visible ASCII characters, without blanks.";
        input.focus();
        return;
      }
      input.value = "";
      form.hidden = true;
      form.onsubmit = null;
      resolve(token);
    };
  });
}
