import { stringify } from "lossless-json";
import type { JobKey } from "../../core/job-call.ts";
import { pageFiles, pageHeaders, readPage } from "../../http/page-files.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { MethodHandlers } from "../../http/routes.ts";
import type { Pages } from "../../x402/doors/door.ts";
import { jobEntry } from "../../x402/jobs/job-entry.ts";
import type { Listing } from "../../x402/jobs/listing.ts";
import { jobTitle, type Seller } from "../../x402/jobs/seller.ts";
import { settlementOption } from "../../x402/prices/price-route.ts";
import type { Offer } from "../../x402/wire/offer.ts";

/**
 * Results and wallets' icons are pictures that the page has already. A wallet may open a window of its own. Trusted
 * types are not required, because wallets run their own scripts in the page.
 */
const HEADERS = {
  ...pageHeaders(["img-src 'self' blob: data:"]),
  "cross-origin-opener-policy": "same-origin-allow-popups",
  "content-type": "text/html; charset=utf-8",
};

const LIST = readPage("shop/jobs.html");
const PAYMENT = readPage("shop/pay.html");

/** Files of the pages, by path. */
export const SHOP_FILES: ReadonlyMap<string, MethodHandlers> = pageFiles(
  "shop",
  "/x402/page",
  pageHeaders([]),
);

/** The list of jobs, and the pages where a person pays for one. */
export class ShopPages implements Pages {
  readonly listHeaders = { ...HEADERS, "cache-control": "public, max-age=60" };
  readonly #listing: Pick<Listing, "jobs">;
  readonly #seller: Seller;
  /** Payment page of a job at a route. Its links are absolute paths, because the route can have any depth. */
  readonly #paymentAtRoute: string;

  constructor(parts: { readonly listing: Pick<Listing, "jobs">; readonly seller: Seller }) {
    this.#listing = parts.listing;
    this.#seller = parts.seller;
    const root = new URL(`${parts.seller.publicUrl}/`).pathname;
    this.#paymentAtRoute = PAYMENT.replaceAll('"../../page/', `"${root}x402/page/`).replaceAll(
      '"../../../"',
      `"${root}"`,
    );
  }

  *list(json: Iterable<string>): Iterable<string> {
    const [head, tail] = fill(LIST, this.#seller.serviceName);
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
    // At a route, the page buys the request that opened it, which has no body.
    if (isAtRoute && method !== "GET") return answer;
    // A job that an embedder's own price source sells is not listed.
    const entry = listed
      ? { ...jobEntry(listed, this.#seller), not_by_page: listed.access?.notByPage }
      : this.#entryOf(job, offers);
    const [head, tail] = fill(isAtRoute ? this.#paymentAtRoute : PAYMENT, jobTitle(listed ?? job));
    const headers = { ...answer.headers, ...HEADERS, "cache-control": "no-store", vary: "Accept" };
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

/** Returns a page with a name in it, in two parts: before and after its data. */
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

/** Returns JSON that ends no script element: `<` is only within strings, where it can be escaped. */
function inert(json: string): string {
  return json.replaceAll("<", "\\u003c");
}
