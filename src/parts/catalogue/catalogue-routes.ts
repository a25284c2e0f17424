import type { OutgoingHttpHeaders } from "node:http";
import { stringify } from "lossless-json";
import type { X402Config } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { fileHandler, readPage } from "../../http/page-files.ts";
import { type HttpRequest, prefersHtml } from "../../http/request.ts";
import type { HttpResponse } from "../../http/response.ts";
import type { MethodHandlers } from "../../http/routes.ts";
import type { JobDescriptions } from "../../x402/jobs/job-descriptions.ts";
import { cached, type DocumentHandlers, jobDocument } from "../../x402/jobs/job-document.ts";
import { jobEntry } from "../../x402/jobs/job-entry.ts";
import type { ListedJob, Listing } from "../../x402/jobs/listing.ts";
import type { Seller } from "../../x402/jobs/seller.ts";
import type { Shop } from "../../x402/shop.ts";
import { llmsText } from "./llms-text.ts";
import { openApi } from "./openapi.ts";
import { agentRegistration, resourceItems, resourceList } from "./well-known.ts";

/** Documents that tell people, crawlers and agents which jobs are for sale. */
export class CatalogueRoutes {
  readonly #listing: Pick<Listing, "jobs">;
  /** Handlers by path. */
  readonly all: readonly (readonly [path: string, handlers: MethodHandlers])[];

  constructor({
    config,
    listing,
    seller,
    pages,
    descriptions,
  }: Pick<Shop, "seller" | "pages"> & {
    readonly descriptions: Pick<JobDescriptions, "withOffers">;
    readonly config: Pick<X402Config, "jobs">;
    readonly listing: Pick<Listing, "jobs">;
  }) {
    this.#listing = listing;
    // All jobs with all their facts.
    const jobs = this.#document((listed) => jobList(listed, seller), cached("application/json", 60));
    const page = pages && this.#document((listed) => pages.list(jobList(listed, seller)), pages.listHeaders);
    const markdown = cached("text/markdown; charset=utf-8", 300);
    this.all = [
      // The jobs as a page for people, and as `/x402/jobs` for programs.
      ["/", page ? byAccept(page, jobs) : jobs],
      ["/x402/jobs", jobs],
      ["/openapi.json", this.#document((listed) => openApi(listed, seller), cached("application/json", 300))],
      // The URL of every job.
      ["/.well-known/x402", this.#document(resourceList, cached("application/json", 300))],
      [
        "/.well-known/x402.json",
        this.#document(
          (listed) => resourceItems(listed, (job) => descriptions.withOffers(job, job.offers), seller),
          cached("application/json", 60),
        ),
      ],
      [
        "/.well-known/agent-registration.json",
        this.#document((listed) => agentRegistration(listed, seller), cached("application/json", 300)),
      ],
      ["/llms.txt", this.#document((listed) => llmsText(listed, seller), markdown)],
      ["/favicon.svg", faviconHandlers(seller)],
      ...(config.jobs ?? []).flatMap(({ name }) =>
        name === undefined ? [] : [[`/x402/jobs/${name}`, this.#named(name, seller)] as const],
      ),
    ];
  }

  /** Returns the handler that finds a job by its name. */
  #named(name: string, seller: Seller): MethodHandlers {
    const headers = cached("application/json", 60);
    return {
      route: "/x402/jobs/{name}",
      GET: async () => {
        const job = (await this.#listing.jobs()).find((listed) => listed.name === name);
        if (job === undefined) throw new GatewayError("job_not_found", "The job is not for sale.");
        return { status: 200, headers, body: stringify(jobEntry(job, seller)) ?? "" };
      },
    };
  }

  #document(render: Parameters<typeof jobDocument>[1], headers: OutgoingHttpHeaders): DocumentHandlers {
    return jobDocument(this.#listing, render, headers);
  }
}

/** Crawlers request a picture here before they read a page. */
function faviconHandlers({ logo }: Seller): MethodHandlers {
  const answer =
    logo === undefined
      ? fileHandler(readPage("shared/icon.svg"), "image/svg+xml", { "cache-control": "public, max-age=300" })
      : (): HttpResponse => ({ status: 302, headers: { location: logo }, body: "" });
  return { GET: answer, HEAD: answer };
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
  const { title, contact, logo, termsOfService: terms_of_service, guidance } = seller;
  const about = { seller: { title, contact, logo, terms_of_service, guidance }, links: linksOf(seller) };
  yield `${JSON.stringify(about).slice(0, -1)},"jobs":[`;
  for (const [i, job] of jobs.entries()) {
    yield `${i === 0 ? "" : ","}${stringify(jobEntry(job, seller))}`;
  }
  yield "]}";
}

/** Returns the URLs of all documents, so that a client that knows the origin finds them. */
function linksOf({ publicUrl, features }: Seller): Readonly<Record<string, string>> {
  return {
    jobs: `${publicUrl}/x402/jobs`,
    openapi: `${publicUrl}/openapi.json`,
    llms: `${publicUrl}/llms.txt`,
    resources: `${publicUrl}/.well-known/x402`,
    x402: `${publicUrl}/.well-known/x402.json`,
    agent: `${publicUrl}/.well-known/agent-registration.json`,
    ...Object.assign({}, ...features.map(({ links }) => links)),
  };
}
