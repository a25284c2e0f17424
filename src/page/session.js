import { byId } from "./dom.js";

const KEY = "jobgate.token";

/** The operator's token: for this tab only, and gone with it. */
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
 * Asks for the token.
 * @param {string} problem Why the last one was no good; empty when there was none.
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
      // What no header can carry is no token either.
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
