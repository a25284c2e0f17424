import { createHash } from "node:crypto";
import type { OutgoingHttpHeaders } from "node:http";
import { setImmediate } from "node:timers/promises";
import type { HttpRequest } from "../../http/request.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { ListedJob, Listing } from "./listing.ts";

/** A document about the jobs for sale, in pieces of about one job each. */
type Render = (jobs: readonly ListedJob[]) => Iterable<string>;

export type DocumentHandlers = Readonly<
  Record<"GET" | "HEAD", (request: HttpRequest) => Promise<HttpResponse>>
>;

/** Number of pieces that are rendered without a pause, which takes a few milliseconds. */
const PIECES_AT_ONCE = 50;

/**
 * Returns the handlers of a document, which is rendered once for each listing. @throws the errors of `render` when the
 * document is read
 */
export function jobDocument(
  listing: Pick<Listing, "jobs">,
  render: Render,
  headers: OutgoingHttpHeaders,
): DocumentHandlers {
  let rendered: { readonly jobs: readonly ListedJob[]; readonly body: Promise<RenderedDocument> } | undefined;
  const answer = async (request: HttpRequest): Promise<HttpResponse> => {
    const jobs = await listing.jobs();
    if (rendered?.jobs !== jobs) rendered = { jobs, body: renderInSteps(render(jobs)) };
    const { body, etag } = await rendered.body;
    return request.headers["if-none-match"] === etag
      ? { status: 304, headers: { "cache-control": headers["cache-control"], etag }, body: "" }
      : { status: 200, headers: { ...headers, etag }, body };
  };
  return { GET: answer, HEAD: answer };
}

/** Returns the headers of a document that any cache may keep for a time. */
export function cached(contentType: string, maxAgeSecs: number): OutgoingHttpHeaders {
  return { "content-type": contentType, "cache-control": `public, max-age=${maxAgeSecs}` };
}

interface RenderedDocument {
  readonly body: Uint8Array;
  readonly etag: string;
}

/** Renders a document of any length without delaying other requests. */
async function renderInSteps(pieces: Iterable<string>): Promise<RenderedDocument> {
  const hash = createHash("sha256");
  const chunks: Buffer[] = [];
  for (const piece of pieces) {
    const chunk = Buffer.from(piece);
    hash.update(chunk);
    chunks.push(chunk);
    if (chunks.length % PIECES_AT_ONCE === 0) await setImmediate();
  }
  return { body: Buffer.concat(chunks), etag: `"${hash.digest("base64url")}"` };
}
