import { createHash } from "node:crypto";
import type { OutgoingHttpHeaders } from "node:http";
import { setImmediate } from "node:timers/promises";
import { stringify } from "lossless-json";
import { type HttpRequest, prefersHtml } from "../../http/request.ts";
import type { HttpResponse } from "../../http/response.ts";
import { jobEntry } from "../../x402/jobs/job-entry.ts";
import type { ListedJob, Listing } from "../../x402/jobs/listing.ts";
import type { Seller } from "../../x402/jobs/seller.ts";
import type { Shop } from "../../x402/shop.ts";
import { llmsText } from "./llms-text.ts";
import { openApi } from "./openapi.ts";

/** A document about the jobs for sale, in pieces of about one job each. */
type Render = (jobs: readonly ListedJob[]) => Iterable<string>;

type DocumentHandlers = Readonly<Record<"GET" | "HEAD", (request: HttpRequest) => Promise<HttpResponse>>>;

/** Pieces that are rendered without a pause: a few milliseconds. */
const PIECES_AT_ONCE = 50;

/** Documents that tell people, crawlers and agents which jobs are for sale. */
export class CatalogueRoutes {
  readonly #listing: Pick<Listing, "jobs">;
  /** Handlers by path. */
  readonly all: readonly (readonly [path: string, handlers: DocumentHandlers])[];

  constructor({
    listing,
    seller,
    pages,
  }: Pick<Shop, "seller" | "pages"> & { readonly listing: Pick<Listing, "jobs"> }) {
    this.#listing = listing;
    // Every job with all that is known about it.
    const jobs = this.#document((listed) => jobList(listed, seller), cached("application/json", 60));
    const page = pages && this.#document((listed) => pages.list(jobList(listed, seller)), pages.listHeaders);
    const markdown = cached("text/markdown; charset=utf-8", 300);
    this.all = [
      // The jobs as a page for people, and as `/x402/jobs` for programs.
      ["/", page ? byAccept(page, jobs) : jobs],
      ["/x402/jobs", jobs],
      ["/openapi.json", this.#document((listed) => openApi(listed, seller), cached("application/json", 300))],
      // The URL of every job.
      ["/.well-known/x402", this.#document(wellKnown, cached("application/json", 300))],
      ["/llms.txt", this.#document((listed) => llmsText(listed, seller), markdown)],
    ];
  }

  /** Returns the handlers of a document, which is rendered once for each listing. */
  #document(render: Render, headers: OutgoingHttpHeaders): DocumentHandlers {
    let rendered:
      | { readonly jobs: readonly ListedJob[]; readonly body: Promise<RenderedDocument> }
      | undefined;
    const answer = async (request: HttpRequest): Promise<HttpResponse> => {
      const jobs = await this.#listing.jobs();
      if (rendered?.jobs !== jobs) rendered = { jobs, body: renderInSteps(render(jobs)) };
      const { body, etag } = await rendered.body;
      return request.headers["if-none-match"] === etag
        ? { status: 304, headers: { "cache-control": headers["cache-control"], etag }, body: "" }
        : { status: 200, headers: { ...headers, etag }, body };
    };
    return { GET: answer, HEAD: answer };
  }
}

function cached(contentType: string, maxAgeSecs: number): OutgoingHttpHeaders {
  return { "content-type": contentType, "cache-control": `public, max-age=${maxAgeSecs}` };
}

interface RenderedDocument {
  readonly body: Uint8Array;
  readonly etag: string;
}

/** Renders a document of any length without holding up other requests. */
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

/** Returns handlers that show a page to people, and another document to programs. */
function byAccept(page: DocumentHandlers, other: DocumentHandlers): DocumentHandlers {
  const answer = async (request: HttpRequest): Promise<HttpResponse> => {
    const { headers, ...rest } = await (prefersHtml(request) ? page : other).GET(request);
    return { ...rest, headers: { ...headers, vary: "Accept" } };
  };
  return { GET: answer, HEAD: answer };
}

function* jobList(jobs: readonly ListedJob[], seller: Seller): Iterable<string> {
  yield '{"jobs":[';
  for (const [i, job] of jobs.entries()) {
    yield `${i === 0 ? "" : ","}${stringify(jobEntry(job, seller))}`;
  }
  yield "]}";
}

function* wellKnown(jobs: readonly ListedJob[]): Iterable<string> {
  yield '{"version":1,"resources":[';
  for (const [i, { url }] of jobs.entries()) yield `${i === 0 ? "" : ","}${JSON.stringify(url)}`;
  yield "]}";
}
