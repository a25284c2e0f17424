import { isLoopbackHost } from "../../core/network-address.ts";
import type { KeyPath } from "../mistake.ts";
import type { MistakeList } from "../mistake-list.ts";

/** That credentials in a URL do not travel in the clear. */
export function checkCredentials(path: KeyPath, value: string | undefined, mistakes: MistakeList): void {
  if (value === undefined) return;
  const url = new URL(value);
  if (url.protocol === "https:" || isLoopbackHost(url.hostname)) return;
  const hasCredentials =
    url.username !== "" ||
    url.password !== "" ||
    [...url.searchParams.keys()].some((name) => /key|token|secret|auth|password/i.test(name));
  if (hasCredentials) {
    mistakes.report(path, "sends credentials in the clear; expected https://, or a URL without credentials");
  }
}

/** That what is said to a URL can neither be read nor changed on the way. */
export function checkHttps(path: KeyPath, value: string | undefined, mistakes: MistakeList): void {
  if (value === undefined) return;
  const url = new URL(value);
  if (url.protocol !== "https:" && !isLoopbackHost(url.hostname)) {
    const credentials = url.username === "" && url.password === "" ? "" : ", with credentials in the clear";
    mistakes.report(path, `uses http${credentials}; expected https://, unless the host is loopback`);
  }
}
