/** A URL as `fetch` takes it, and the headers that say what its credentials said. */
export interface RequestTarget {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Turns `https://user:password@host` into a URL without credentials and the header for them: fetch refuses such URLs. */
export function splitCredentials(urlWithCredentials: string): RequestTarget {
  const url = new URL(urlWithCredentials);
  if (url.username === "" && url.password === "") return { url: urlWithCredentials, headers: {} };
  const credentials = `${decode(url.username)}:${decode(url.password)}`;
  url.username = "";
  url.password = "";
  const authorization = `Basic ${Buffer.from(credentials, "utf8").toString("base64")}`;
  // Paths are appended to some of these URLs, and to a bare host the parser has added a slash.
  return { url: url.href === `${url.origin}/` ? url.origin : url.href, headers: { authorization } };
}

/** A URL may hold a `%` that encodes nothing; it stands for itself then. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
