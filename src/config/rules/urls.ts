import { isLoopbackHost } from "../../core/network-address.ts";
import type { Place } from "../mistakes.ts";
import { shownUrl } from "../web-types.ts";

/** Checks that a URL does not cause credentials to be sent unencrypted. */
export function checkCredentials(place: Place, value: string | undefined): void {
  if (value === undefined) return;
  const url = new URL(value);
  if (url.protocol === "https:" || isLoopbackHost(url.hostname)) return;
  const hasCredentials =
    url.username !== "" ||
    url.password !== "" ||
    [...url.searchParams.keys()].some((name) => /key|token|secret|auth|password/i.test(name));
  if (hasCredentials) {
    place.report(
      `is "${shownUrl(value)}", which sends credentials in the clear; expected https://, or a URL without credentials`,
    );
  }
}

/** Checks that traffic to a URL is encrypted and authenticated. */
export function checkHttps(place: Place, value: string | undefined): void {
  if (value === undefined) return;
  const url = new URL(value);
  if (url.protocol === "https:" || isLoopbackHost(url.hostname)) return;
  const credentials = url.username === "" && url.password === "" ? "" : ", with credentials in the clear";
  place.report(
    `is "${shownUrl(value)}", which uses http${credentials}; expected https://, unless the host is loopback`,
  );
}
