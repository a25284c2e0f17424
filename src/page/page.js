import { CallError, Client } from "./connect.js";
import { startDashboard } from "./dashboard.js";
import { byId } from "./dom.js";
import { askForToken, session } from "./session.js";
import { startTheme } from "./theme.js";

const RETRY_MS = 3_000;

/**
 * Shows the dashboard until the token is refused.
 * @returns {Promise<string>} the reason to show
 */
async function runOnce() {
  const controller = new AbortController();
  const { signal } = controller;
  const { token } = session;
  const client = new Client({ token, signal });
  await client.call("GetInfo", {});

  const dashboard = byId("dashboard", HTMLElement);
  const logOut = byId("log-out", HTMLButtonElement);
  logOut.hidden = token === undefined;
  byId("starting", HTMLElement).hidden = true;
  dashboard.hidden = false;
  document.body.dataset.state = "in";
  /** @type {Promise<string>} */
  const ended = new Promise((resolve) => {
    logOut.onclick = () => {
      session.logOut();
      // Removes everything that was shown.
      location.reload();
    };
    startDashboard({
      client,
      signal,
      onRefused(error) {
        if (isUnauthenticated(error)) resolve("jobgate does not take this token any more.");
      },
    });
  });
  const reason = await ended;
  controller.abort();
  logOut.hidden = true;
  dashboard.hidden = true;
  document.body.dataset.state = "out";
  return reason;
}

/** @param {unknown} error */
function isUnauthenticated(error) {
  return error instanceof CallError && error.code === "unauthenticated";
}

async function main() {
  startTheme();
  const starting = byId("starting", HTMLElement);
  for (;;) {
    let problem = "";
    try {
      problem = await runOnce();
    } catch (error) {
      if (!isUnauthenticated(error)) {
        starting.hidden = false;
        starting.textContent = `${error instanceof Error ? error.message : error} Trying again …`;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        continue;
      }
      starting.hidden = true;
      problem = session.token === undefined ? "" : "That is not the token. Try again.";
    }
    session.logOut();
    session.logIn(await askForToken(problem));
  }
}

main();
