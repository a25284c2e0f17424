const MAX_CAUSES = 5;

/**
 * Says which server did not answer and why, for operators: `rpc.example.com: ENOTFOUND`. The text contains only the URL's
 * host, because user, path and query may hold keys.
 */
export function unreachableText(url: string, error: unknown): string {
  const { host } = new URL(url);
  const reason = networkErrorOf(error);
  return reason === undefined ? host : `${host}: ${reason}`;
}

/**
 * Returns the code of the network error in an error or its causes. It never returns a library's message, which may quote the
 * URL.
 */
function networkErrorOf(error: unknown): string | undefined {
  let cause = error;
  for (let depth = 0; depth < MAX_CAUSES && cause instanceof Error; depth++) {
    const { code, status } = cause as { readonly code?: unknown; readonly status?: unknown };
    if (typeof code === "string" && /^[A-Z][A-Z0-9_]*$/.test(code)) return code;
    if (typeof status === "number") return `status ${status}`;
    if (cause.name === "TimeoutError") return "no whole answer in time";
    if (cause instanceof SyntaxError) return "the answer is not JSON";
    cause = cause.cause ?? (cause instanceof AggregateError ? cause.errors[0] : undefined);
  }
  return undefined;
}
