import { stringify } from "lossless-json";
import type { JobKey } from "../../core/job-call.ts";
import { fileHandler, pageFiles, pageHeaders, readPage } from "../../http/page-files.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { MethodHandlers } from "../../http/routes.ts";
import { jobEntry } from "../../x402/jobs/job-entry.ts";
import type { ListedJob, Listing } from "../../x402/jobs/listing.ts";
import { jobTitle, type Seller } from "../../x402/jobs/seller.ts";
import { settlementOption } from "../../x402/prices/price-route.ts";
import type { Pages } from "../../x402/protocols/protocol.ts";
import type { Offer } from "../../x402/wire/offer.ts";
import { themeStyle } from "./theme.ts";

/**
 * Returns the headers of the pages. Results and the icons of wallets are pictures that the page already has; only the seller's
 * logo is loaded. A wallet may open a window. Trusted types are not required, because wallets run their own scripts in the
 * page.
 */
function headersOf({ logo }: Seller) {
  const pictures = ["'self' blob: data:", ...(logo === undefined ? [] : [new URL(logo).origin])];
  return {
    ...pageHeaders([`img-src ${pictures.join(" ")}`]),
    "cross-origin-opener-policy": "same-origin-allow-popups",
    "content-type": "text/html; charset=utf-8",
  };
}

const LIST = readPage("shop/jobs.html");
const PAYMENT = readPage("shop/pay.html");

/** Style with the seller's colour, beside the styles of the pages. */
const THEME = "theme.css";
const FILE_HEADERS = pageHeaders([]);
const FILES = pageFiles("shop", "/x402/page", FILE_HEADERS);

/** Returns the files of the pages, by path. */
export function shopFiles({ themeColor }: Pick<Seller, "themeColor">): ReadonlyMap<string, MethodHandlers> {
  if (themeColor === undefined) return FILES;
  const GET = fileHandler(themeStyle(themeColor), "text/css; charset=utf-8", FILE_HEADERS);
  return new Map([...FILES, [`/x402/page/shop/${THEME}`, { GET }]]);
}

/** List of the jobs, and the pages on which a person pays for a job. */
export class ShopPages implements Pages {
  readonly listHeaders;
  readonly #headers;
  readonly #listing: Pick<Listing, "jobs">;
  readonly #seller: Seller;
  readonly #listPage: string;
  readonly #payment: string;
  /** Payment page of a job at a route. Its links are absolute paths, because the route can have any depth. */
  readonly #paymentAtRoute: string;

  constructor(parts: { readonly listing: Pick<Listing, "jobs">; readonly seller: Seller }) {
    this.#listing = parts.listing;
    this.#seller = parts.seller;
    this.#headers = headersOf(parts.seller);
    this.listHeaders = { ...this.#headers, "cache-control": "public, max-age=60" };
    this.#listPage = branded(LIST, parts.seller);
    this.#payment = branded(PAYMENT, parts.seller);
    const root = new URL(`${parts.seller.publicUrl}/`).pathname;
    this.#paymentAtRoute = this.#payment
      .replaceAll('"../../page/', `"${root}x402/page/`)
      .replaceAll('"../../../"', `"${root}"`);
  }

  *list(json: Iterable<string>): Iterable<string> {
    const [head, tail] = fill(this.#listPage, this.#seller.title);
    yield head;
    for (const piece of json) yield inert(piece);
    yield tail;
  }

  async payment(
    answer: HttpResponse,
    { job, offers, method }: Parameters<Pages["payment"]>[1],
  ): Promise<HttpResponse> {
    const jobs = await this.#listing.jobs();
    const listed = jobs.find(
      ({ serviceId, jobIndex }) => serviceId === job.serviceId && jobIndex === job.jobIndex,
    );
    const isAtRoute = listed?.route !== undefined;
    // At a route, the page buys the request that opened the page, and such a request has no body.
    if (isAtRoute && method !== "GET") return answer;
    // A job that an embedder's own price source sells is not listed.
    const entry = listed
      ? { ...jobEntry(listed, this.#seller), not_by_page: notByPage(listed) }
      : this.#entryOf(job, offers);
    const [head, tail] = fill(isAtRoute ? this.#paymentAtRoute : this.#payment, jobTitle(listed ?? job));
    const headers = { ...answer.headers, ...this.#headers, "cache-control": "no-store", vary: "Accept" };
    return { ...answer, headers, body: head + inert(stringify(entry) ?? "") + tail };
  }

  #entryOf({ serviceId, jobIndex }: JobKey, offers: readonly Offer[]) {
    const { urls } = this.#seller;
    return {
      service_id: serviceId,
      job_index: jobIndex,
      settlement_options: offers.map((offer) => settlementOption(offer, urls)),
      x402_endpoint: urls.of({ serviceId, jobIndex }),
    };
  }
}

/** Returns the reason why the page cannot buy a job. */
function notByPage({ access, price }: ListedJob): string | undefined {
  if (access?.notByPage !== undefined || !price?.range?.needsHeaders) return access?.notByPage;
  const names = price.range.headers.join(" and ");
  return `The price of this job depends on the header ${names}, which this page cannot send. Buy it from a program.`;
}

/** Returns a page with the seller's title, logo, colour and terms in place of jobgate's own. */
function branded(page: string, { title, logo, themeColor, termsOfService: terms }: Seller): string {
  const link = terms && `<a href="${escapeHtml(terms)}" rel="noopener">Terms of ${escapeHtml(title)}</a>`;
  const named = page.replaceAll("{{seller}}", () => escapeHtml(title)).replace("{{terms}}", () => link ?? "");
  const colored =
    themeColor === undefined
      ? named
      : named.replace(
          /^.*"([^"]*)shop\.css".*$/m,
          (line, folder) => line + line.replace(`${folder}shop.css`, `${folder}${THEME}`),
        );
  if (logo === undefined) return colored;
  return colored.replace(/(<p class="brand">.*?<img src=")[^"]*/, (_, before) => before + escapeHtml(logo));
}

/** Fills a name into a page. @returns the parts of the page before and after its data */
function fill(page: string, name: string): [head: string, tail: string] {
  const [head = "", tail = ""] = page.replaceAll("{{name}}", () => escapeHtml(name)).split('"{{data}}"');
  return [head, tail];
}

function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
  };
  return text.replace(/[&<>"]/g, (character) => entities[character] ?? "");
}

/** Returns JSON that cannot end a script element. `<` occurs only within strings, where it can be escaped. */
function inert(json: string): string {
  return json.replaceAll("<", "\\u003c");
}
