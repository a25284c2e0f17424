import * as z from "zod";
import {
  addressText,
  ipRangeText,
  parseBindAddress,
  parseIpRange,
  type TcpAddress,
} from "../core/network-address.ts";
import { parseRoute, ROUTE_FORM } from "../core/route.ts";
import { matching, parsedText } from "./value-types.ts";
import { kind, SHOWN } from "./wrong-value.ts";

/* Kinds of value for listeners, URLs, headers and paths. */

/** Suggests complete addresses for a port without a host, and for the path of a socket. */
const nearAddress = (value: string) => {
  const port = /^:?([0-9]+)$/.exec(value)?.[1];
  return [port && `127.0.0.1:${port}`, value.startsWith("/") ? `unix:${value}` : undefined];
};

function addressFault(value: string): string | undefined {
  const port = /:([0-9]+)$/.exec(value)?.[1];
  return port !== undefined && Number(port) > 65_535 ? "has a port above 65535" : undefined;
}

const ADDRESS = { ...SHOWN, view: addressText, fault: addressFault, near: nearAddress };

export const bindAddress = () =>
  parsedText('"host:port", "[ipv6]:port" or "unix:PATH"', parseBindAddress, ADDRESS);

export const tcpAddress = () =>
  parsedText(
    '"host:port" or "[ipv6]:port"',
    (value): TcpAddress | undefined => {
      const parsed = parseBindAddress(value);
      return parsed?.kind === "tcp" ? parsed : undefined;
    },
    ADDRESS,
  );

/**
 * Matches a host without a scheme. A word that has neither a dot nor a port is not matched, because it may be a key.
 */
const isHost = (text: string) =>
  /^(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(:[0-9]+)?\/?$/i.test(text);

/** Suggests a scheme for a URL that lacks one, unless a path follows, which may be secret. */
const nearUrl = (value: string) => {
  return isHost(value) ? [/^(localhost|127\.)/i.test(value) ? `http://${value}` : `https://${value}`] : [];
};

/**
 * URL that paths are appended to. Yields it without a trailing slash.
 * @param view returns the text that operators see; default: scheme, host and port
 */
export const baseUrl = (view: (url: string) => string = shownUrl) =>
  parsedText(
    "an absolute http:// or https:// URL without query and fragment",
    (value) => {
      const url = parseHttpUrl(value);
      return url === undefined || /[?#]/.test(value) ? undefined : url.href.replace(/\/+$/, "");
    },
    {
      view,
      shown: shownHttpUrl,
      fault: (value) => urlFault(value) ?? (/[?#]/.test(value) ? "has a query or fragment" : undefined),
      near: nearUrl,
    },
  );

/** URL that clients see, whose path is public. */
export const publicUrl = () => baseUrl(withPath);

/** URL that is requested as it is, for example of a JSON-RPC server. Its query may hold an API key. */
export const httpUrl = () =>
  parsedText("an absolute http:// or https:// URL", (value) => parseHttpUrl(value)?.href, {
    view: shownUrl,
    shown: shownHttpUrl,
    fault: urlFault,
    near: nearUrl,
  });

/** URL that is requested as it is, or path of a Unix socket. */
export const httpUrlOrSocket = () =>
  parsedText(
    "an absolute http:// or https:// URL, or unix:PATH",
    (value) => (isSocket(value) ? value : parseHttpUrl(value)?.href),
    { view: shownUrl, shown: shownHttpUrl, fault: urlFault, near: nearUrl },
  );

/** URL that paths are appended to, or path of a Unix socket. */
export const baseUrlOrSocket = () =>
  parsedText(
    "an absolute http:// or https:// URL without query and fragment, or unix:PATH",
    (value) => {
      if (isSocket(value)) return value;
      const url = parseHttpUrl(value);
      return url === undefined || /[?#]/.test(value) ? undefined : url.href.replace(/\/+$/, "");
    },
    { view: shownUrl, shown: shownUrl },
  );

function isSocket(value: string): boolean {
  return value.startsWith("unix:") && parseBindAddress(value)?.kind === "unix";
}

/** Origin of web pages as browsers send it, or `*` for every origin. */
export const webOrigin = () =>
  parsedText(
    'an origin, such as "https://shop.example", or "*"',
    (value) => {
      if (value === "*") return value;
      // Browser extensions have their own schemes.
      if (!/^[a-z][a-z0-9+.-]*:\/\/[^/\\\s?#@]+$/i.test(value) || !URL.canParse(value)) return undefined;
      const { protocol, host } = new URL(value);
      return `${protocol}//${host}`;
    },
    {
      view: SHOWN.view,
      shown: shownUrl,
      near: (value) => [value.replace(/\/+$/, ""), `https://${value}`],
    },
  );

function parseHttpUrl(value: string): URL | undefined {
  // new URL() silently corrects spaces, backslashes and missing slashes.
  if (!/^https?:\/\/[^/\\\s][^\\\s]*$/.test(value) || !URL.canParse(value)) return undefined;
  return new URL(value);
}

/** Returns the part of a URL, or of a mistyped URL, that is not secret: without credentials, path and query. */
export function shownUrl(value: string): string {
  const [, scheme = "", rest = ""] = /^([a-z][a-z0-9+.-]*:\/*)?(.*)$/is.exec(value) ?? [];
  const at = rest.lastIndexOf("@");
  const host = /^[^/?#\\\s]*/.exec(rest.slice(at + 1))?.[0] ?? "";
  const hasMore = !/^\/?$/.test(rest.slice(at + 1 + host.length));
  return `${scheme}${at < 0 ? "" : "…@"}${host}${hasMore ? "/…" : ""}`;
}

/** Returns the result of {@link shownUrl}, but hides a single word, which may be a key. */
function shownHttpUrl(value: string): string {
  return /^[^/:@.\s]+$/.test(value) && !isHost(value) ? "…" : shownUrl(value);
}

/** Returns a URL without credentials, query and fragment. */
export function withPath(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname === "/" ? "" : pathname}`;
}

function urlFault(value: string): string | undefined {
  if (/\s/.test(value)) return "has a space or a line break";
  if (value.includes("\\")) return "has a backslash";
  if (!/^https?:\/\//.test(value)) return "does not begin with http:// or https://";
  return parseHttpUrl(value) === undefined ? "has no host, or one that cannot exist" : undefined;
}

export function withoutCredentials(text: string): string {
  const url = new URL(text);
  url.username = "";
  url.password = "";
  return url.href;
}

/** Header name in the letter case of the file. */
export const writtenHeaderName = () =>
  matching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "the name of an HTTP header", SHOWN);

/** Header name. Yields it in lower case. */
export const headerName = () => writtenHeaderName().toLowerCase();

/** Headers of a request that its runner gets, in lower case. */
export const headerNames = () => z.array(headerName()).describe("an array of header names");

export const ipRange = () =>
  parsedText('an IPv4 or IPv6 address or range, such as "203.0.113.0/24"', parseIpRange, {
    ...SHOWN,
    view: ipRangeText,
  });

/** Name of a query parameter, in decoded form. */
export const queryParameter = () => matching(/^[\x21-\x7e]{1,128}$/, "the name of a query parameter", SHOWN);

/** Path of a webhook. It must be in canonical form, because it is compared with request paths byte for byte. */
export const webhookPath = () =>
  kind(
    z.string().refine((value) => {
      const segments = value.split("/").slice(1);
      const isClean = value.startsWith("/") && /^[\x21-\x7e]+$/.test(value) && !/[?#%\\]/.test(value);
      return isClean && segments.every((segment) => !["", ".", ".."].includes(segment));
    }),
    "a path that starts with / and has no query, fragment, percent-encoding, backslash, empty segment, . or .. segment, and only visible ASCII characters",
    { ...SHOWN, near: (value) => [`/${value}`, value.replace(/\/+$/, "")] },
  );

/** Methods and path at which a job is sold. */
export const route = () =>
  kind(
    z.string().refine((value) => parseRoute(value) !== undefined),
    `a route: ${ROUTE_FORM}`,
    { ...SHOWN, near: (value) => [`GET ${value}`, value.replace(/\/+$/, "/")] },
  );

/** E-mail address, or the URL of a page. */
export const contact = () =>
  matching(
    /^(?:[^\s@:/]+@[^\s@:/]+\.[^\s@:/]+|https?:\/\/[^\s@?#\\]+)$/,
    "an e-mail address, or an absolute http:// or https:// URL without query",
    SHOWN,
  );

/** Colour in CSS. */
export const themeColor = () => matching(/^#[0-9a-fA-F]{6}$/, "a colour: # and 6 hex digits", SHOWN);

/** Name that x402 clients and catalogues accept. */
export const serviceName = () =>
  matching(/^[\x21-\x7e](?:[\x20-\x7e]{0,30}[\x21-\x7e])?$/, "1 to 32 ASCII characters", SHOWN);
