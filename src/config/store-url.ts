import * as z from "zod";
import { oneHostUrls } from "../core/network-address.ts";
import { shownUrl, withoutCredentials, withPath } from "./web-types.ts";
import { kind } from "./wrong-value.ts";

/** Expected `store.url` in a build without parts. */
export const SQLITE_URL = "a store.url of sqlite:PATH";

export const storeUrl = () =>
  kind(
    z.string().refine((value) => isSqlite(value) || (isPostgres(value) && faultOfHosts(value) === undefined)),
    '"sqlite:PATH", or "postgres://…" with one or more hosts',
    {
      view: (url) => (isSqlite(url) ? url : joinHosts(oneHostUrls(url).map(withPath))),
      shown: shownUrl,
      fault: (value) => (isPostgres(value) ? faultOfHosts(value) : undefined),
      near: (value) => [value.includes(":") ? undefined : `sqlite:${value}`],
      mayChange: (used, next) => isSamePlace(String(used), String(next)),
    },
  );

/** Returns the ability to open the store of a URL; undefined if the core opens it. */
export function storeAbility(url: string): string | undefined {
  const scheme = url.slice(0, url.indexOf(":"));
  return scheme === "sqlite" ? undefined : `store for ${scheme}: URLs`;
}

function joinHosts(urls: readonly string[]): string {
  const parsed = urls.map((url) => new URL(url));
  const { protocol, pathname } = parsed[0] as URL;
  return `${protocol}//${parsed.map(({ host }) => host).join()}${pathname === "/" ? "" : pathname}`;
}

function isPostgres(url: string): boolean {
  return /^postgres(ql)?:\/\/./.test(url);
}

function isSqlite(url: string): boolean {
  return /^sqlite:(?!:|[a-z]+:\/\/)./.test(url);
}

/** Returns the reason why a text is not the URL of one or several servers; undefined if it is. */
function faultOfHosts(url: string): string | undefined {
  const urls = oneHostUrls(url);
  if (!urls.every((each) => URL.canParse(each))) return "has a host or port that cannot exist";
  const hasEmptyHost = urls.length > 1 && urls.some((each) => new URL(each).host === "");
  return hasEmptyHost ? "has an empty host in its list" : undefined;
}

/** Checks whether two URLs of a Postgres store differ only in user and password. */
function isSamePlace(used: string, next: string): boolean {
  const arePostgres = [used, next].every(isPostgres);
  const placeOf = (url: string) => oneHostUrls(url).map(withoutCredentials).join();
  return arePostgres && placeOf(used) === placeOf(next);
}
