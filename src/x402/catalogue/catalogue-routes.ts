import { createHash } from "node:crypto";
import type { OutgoingHttpHeaders } from "node:http";
import { setImmediate } from "node:timers/promises";
import { type HttpRequest, prefersHtml } from "../../http/request.ts";
import type { HttpResponse } from "../../http/response.ts";
import { LIST_HEADERS, listPage } from "../pages/shop-pages.ts";
import { jobList } from "./job-list.ts";
import type { ListedJob, Listing } from "./listing.ts";
import { llmsText } from "./llms-text.ts";
import { openApi } from "./openapi.ts";
import type { Seller } from "./seller.ts";

/** A document about the jobs for sale, in pieces of about one job each. */
type Render = (jobs: readonly ListedJob[]) => Iterable<string>;

type DocumentHandlers = Readonly<Record<"GET" | "HEAD", (request: HttpRequest) => Promise<HttpResponse>>>;

/** Pieces that are rendered without a pause: a few milliseconds. */
const PIECES_AT_ONCE = 50;

/** Routes that tell people, crawlers and agents which jobs are for sale. */
export class CatalogueRoutes {
  readonly #listing: Listing;
  /** `/`: the jobs as a page for people, and as `/x402/jobs` for programs. */
  readonly home: DocumentHandlers;
  /** `/x402/jobs`: every job with all that is known about it. */
  readonly jobs: DocumentHandlers;
  /** `/openapi.json` */
  readonly openApi: DocumentHandlers;
  /** `/.well-known/x402`: the URL of every job. */
  readonly wellKnown: DocumentHandlers;
  /** `/llms.txt` */
  readonly llmsText: DocumentHandlers;

  constructor(parts: { readonly listing: Listing; readonly seller: Seller }) {
    const { listing, seller } = parts;
    this.#listing = listing;
    this.jobs = this.#document((jobs) => jobList(jobs, seller), cached("application/json", 60));
    const page = this.#document((jobs) => listPage(jobList(jobs, seller), seller), LIST_HEADERS);
    this.home = byAccept(page, this.jobs);
    this.openApi = this.#document((jobs) => openApi(jobs, seller), cached("application/json", 300));
    this.wellKnown = this.#document(wellKnown, cached("application/json", 300));
    const markdown = cached("text/markdown; charset=utf-8", 300);
    this.llmsText = this.#document((jobs) => llmsText(jobs, seller), markdown);
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

function* wellKnown(jobs: readonly ListedJob[]): Iterable<string> {
  yield '{"version":1,"resources":[';
  for (const [i, { url }] of jobs.entries()) yield `${i === 0 ? "" : ","}${JSON.stringify(url)}`;
  yield "]}";
}
