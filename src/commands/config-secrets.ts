/** Names of values that are secrets: `token`, `secret`, `apiKey`… */
const SECRET_NAME = /(secrets?|token|password|key)$/i;
/** Names of URLs, which may hold credentials, or a provider's key in their path or query. */
const URL_NAME = /url$/i;
/** Shorter parts of a path are words, not keys. */
const MIN_PATH_KEY_LENGTH = 16;

/**
 * Every secret in a configuration, wherever it is: found by the names of its values, so that one that is added is found
 * too. Values under `tls` are paths of files.
 */
export function secretsOf(config: unknown, name = ""): string[] {
  if (typeof config === "string") {
    if (URL_NAME.test(name)) return secretsOfUrl(config);
    return SECRET_NAME.test(name) ? [config] : [];
  }
  if (typeof config !== "object" || config === null || name === "tls") return [];
  if (Array.isArray(config)) return config.flatMap((entry) => secretsOf(entry, name));
  return Object.entries(config).flatMap(([key, value]) => secretsOf(value, key));
}

function secretsOfUrl(text: string): string[] {
  if (!URL.canParse(text)) return [];
  const { username, password, pathname, search, searchParams } = new URL(text);
  const keys = pathname.split("/").filter((part) => part.length >= MIN_PATH_KEY_LENGTH);
  const found = [username, password, search, ...searchParams.values(), ...keys];
  return found.flatMap((part) => [part, decoded(part)]).filter((part) => part !== "");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
