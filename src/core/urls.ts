/** Returns a URL as it is kept and compared; undefined for a text that is no URL. */
export function normalUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  url.hash = "";
  return url.href;
}
