import { GatewayError } from "../../core/errors.ts";
import type { MethodHandlers } from "../../http/routes.ts";
import { version } from "../../node/version.ts";
import { cached, jobDocument } from "../../x402/jobs/job-document.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import { asSentence, callName, jobTitle, type Seller, saleText } from "../../x402/jobs/seller.ts";
import type { Shop } from "../../x402/shop.ts";
import { EXTENSIONS } from "./payments.ts";

const ANY_TYPE = "application/octet-stream";
const PAYMENTS = "Payments over x402, in the metadata of messages.";
const USE =
  "A message names its job by `metadata.skillId`, unless one job alone is for sale; its parts are the job's input. The answer is a task with offers: pay one with its taskId.";

/** Returns the handlers of `GET /.well-known/agent-card.json`, for clients of A2A 0.3 and 1.0. */
export function agentCard({ listing, seller }: Pick<Shop, "listing" | "seller">): MethodHandlers {
  const document = jobDocument(listing, (jobs) => cardOf(jobs, seller), cached("application/json", 300));
  const answer: (typeof document)["GET"] = async (request) => {
    const jobs = await listing.jobs();
    if (jobs.length === 0)
      throw new GatewayError("not_found", "No job is for sale, so there is no agent card.");
    return document.GET(request);
  };
  return { GET: answer, HEAD: answer };
}

/** Renders the card, one skill at a time. */
function* cardOf(jobs: readonly ListedJob[], seller: Seller): Iterable<string> {
  const { publicUrl, title, contact, logo, guidance } = seller;
  const url = `${publicUrl}/a2a`;
  const versions = ["1.0", "0.3"];
  const types = (name: "input" | "output") => [
    ...new Set(jobs.map((job) => job[name]?.contentType ?? ANY_TYPE)),
  ];
  const card = {
    name: title,
    description: [guidance && asSentence(guidance.trim()), "Sells runs of jobs for payments over x402.", USE]
      .filter(Boolean)
      .join(" "),
    version,
    // Clients of A2A 1.0 read `supportedInterfaces`. Clients of A2A 0.3 read the three fields after it.
    supportedInterfaces: versions.map((protocolVersion) => ({
      url,
      protocolBinding: "JSONRPC",
      protocolVersion,
    })),
    url,
    preferredTransport: "JSONRPC",
    protocolVersion: "0.3.0",
    provider: { organization: title, url: contact?.startsWith("http") ? contact : `${publicUrl}/` },
    documentationUrl: `${publicUrl}/llms.txt`,
    iconUrl: logo,
    capabilities: {
      streaming: true,
      pushNotifications: false,
      extensions: [
        { uri: EXTENSIONS.v02, description: PAYMENTS, required: true },
        { uri: EXTENSIONS.v01, description: PAYMENTS, required: false },
      ],
    },
    defaultInputModes: types("input"),
    defaultOutputModes: types("output"),
  };
  yield `${JSON.stringify(card).slice(0, -1)},"skills":[`;
  for (const [i, job] of jobs.entries()) yield `${i === 0 ? "" : ","}${JSON.stringify(skillOf(job, seller))}`;
  yield "]}";
}

function skillOf(job: ListedJob, seller: Seller): object {
  const { input, output, tags = [], route } = job;
  const facts = [
    saleText(job, seller, "run"),
    route && "Send one data part with the request: `path`, `query` and `body`.",
    input?.schema !== undefined && `${seller.publicUrl}/openapi.json has the schema of its input.`,
  ];
  return {
    id: callName(job),
    name: jobTitle(job),
    description: facts.filter(Boolean).join(" "),
    // Clients of 0.3 expect a tag.
    tags: tags.length > 0 ? tags : ["x402"],
    // A job at a route takes an object that contains the body, so an example of the body alone is left out.
    ...(input?.example !== undefined && route === undefined && { examples: [input.example] }),
    ...((route ?? input) && { inputModes: [route === undefined ? input?.contentType : "application/json"] }),
    ...(output && { outputModes: [output.contentType] }),
  };
}
