import { isLoopbackHost } from "../../core/network-address.ts";
import type { KeyPath } from "../key-path.ts";
import type { MistakeList } from "../mistakes.ts";

/** Checks that a URL does not send credentials in the clear. */
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

/** Checks that traffic to a URL cannot be read or changed on the way. */
export function checkHttps(path: KeyPath, value: string | undefined, mistakes: MistakeList): void {
  if (value === undefined) return;
  const url = new URL(value);
  if (url.protocol === "https:" || isLoopbackHost(url.hostname)) return;
  const credentials = url.username === "" && url.password === "" ? "" : ", with credentials in the clear";
  mistakes.report(path, `uses http${credentials}; expected https://, unless the host is loopback`);
}
