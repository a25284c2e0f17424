/**
 * Splits `https://user:password@host` into a URL without credentials and the header that carries the credentials. fetch
 * refuses a URL with credentials.
 */
export function splitCredentials(urlWithCredentials: string): {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
} {
  const url = new URL(urlWithCredentials);
  if (url.username === "" && url.password === "") return { url: urlWithCredentials, headers: {} };
  const credentials = `${decode(url.username)}:${decode(url.password)}`;
  url.username = "";
  url.password = "";
  const authorization = `Basic ${Buffer.from(credentials, "utf8").toString("base64")}`;
  // Callers append paths to some of these URLs, and the parser has added a slash to a bare host.
  return { url: url.href === `${url.origin}/` ? url.origin : url.href, headers: { authorization } };
}

/** Decodes percent-encoding. Keeps a `%` that encodes nothing. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
