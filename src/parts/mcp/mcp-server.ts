import { refusalOf } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import { version } from "../../node/version.ts";
import {
  paramsAs,
  RPC,
  RpcError,
  type RpcMessage,
  refusalError,
  rpcError,
  rpcResult,
} from "../../x402/protocols/json-rpc.ts";
import type { Services } from "../../x402/services.ts";
import type { Shop } from "../../x402/shop.ts";
import { CallTasks } from "./call-tasks.ts";
import { type Context, logUnexpected } from "./context.ts";
import { Outcomes } from "./outcomes.ts";
import { PARAMS } from "./params.ts";
import {
  CACHING,
  EXTENSIONS,
  PROTOCOL_VERSIONS,
  SESSION_VERSIONS,
  type StatelessClient,
  statelessClient,
  statelessResult,
} from "./stateless.ts";
import { ToolCalls } from "./tool-calls.ts";
import type { ToolSales } from "./tool-sales.ts";
import { toTool } from "./tools.ts";

const TOOLS_PER_PAGE = 100;

/** Longest waits for the outcome of a call, in milliseconds. */
export const WAITS = {
  /** Wait of a tool call: clients give up after a minute. */
  toolMs: 50_000,
  /** Wait for the result of a task, and wait of a tool call that shows its progress. */
  longToolMs: 600_000,
};

type Methods = Readonly<Record<string, (context: Context) => object | Promise<object>>>;

/** The jobs for sale as tools of the Model Context Protocol. */
export class McpServer {
  readonly #services: Services;
  readonly #shop: Shop;
  readonly #methods: { readonly session: Methods; readonly stateless: Methods };

  constructor(parts: {
    readonly services: Services;
    readonly shop: Shop;
    readonly sales: ToolSales;
    readonly waits: Readonly<typeof WAITS>;
  }) {
    const { services, shop, sales, waits } = parts;
    this.#services = services;
    this.#shop = shop;
    const outcomes = new Outcomes(services, shop, waits.longToolMs);
    const calls = new ToolCalls({ services, shop, sales, outcomes, maxMs: waits.toolMs });
    const tasks = new CallTasks(services, outcomes, waits.longToolMs);
    const methods: Methods = {
      "tools/list": (context) => this.#listTools(context),
      "tools/call": (context) => calls.call(context),
      "tasks/get": (context) => tasks.get(context),
    };
    this.#methods = {
      session: {
        ...methods,
        initialize: ({ message }) => this.#initialize(message),
        ping: () => ({}),
        "tasks/result": (context) => tasks.result(context),
      },
      stateless: {
        ...methods,
        "server/discover": () => this.#discover(),
        // A paid job needs no input from its buyer, and cannot be cancelled.
        "tasks/update": () => ({}),
        "tasks/cancel": () => ({}),
      },
    };
  }

  /**
   * Reads which abilities of its client a message names; undefined in versions with sessions.
   * @throws RpcError before anything is done, also for a method that the version without sessions lacks
   */
  clientOf(message: RpcMessage, request: HttpRequest): StatelessClient | undefined {
    const client = statelessClient(message, request);
    if (client !== undefined && !Object.hasOwn(this.#methods.stateless, message.method))
      throw unknownMethod(message);
    return client;
  }

  /** Returns the response to a request. Never rejects, because the HTTP answer may already have begun. */
  async answer(context: Context): Promise<object> {
    const { id } = context.message;
    try {
      const result = await this.#resultOf(context);
      return rpcResult(id, context.client ? statelessResult(result, this.#serverInfo()) : result);
    } catch (error) {
      if (error instanceof RpcError) return rpcError(id, error);
      const refusal = logUnexpected(refusalOf(error), error, context, this.#services);
      return rpcError(id, refusalError(refusal));
    }
  }

  /** @throws RpcError */
  #resultOf(context: Context): object | Promise<object> {
    const { message, client } = context;
    const methods = client ? this.#methods.stateless : this.#methods.session;
    if (!Object.hasOwn(methods, message.method)) throw unknownMethod(message);
    return (methods[message.method] as Methods[string])(context);
  }

  #initialize({ params }: RpcMessage): object {
    const { protocolVersion } = paramsAs(PARAMS.initialize, params);
    const wanted = SESSION_VERSIONS.find((known) => known === protocolVersion);
    const { instructions, capabilities } = this.#description();
    return {
      protocolVersion: wanted ?? SESSION_VERSIONS[0],
      serverInfo: this.#serverInfo(),
      capabilities: { ...capabilities, tasks: { requests: { tools: { call: {} } } } },
      instructions,
    };
  }

  #discover(): object {
    const { instructions, capabilities } = this.#description();
    return {
      supportedVersions: PROTOCOL_VERSIONS,
      capabilities: { ...capabilities, extensions: EXTENSIONS },
      instructions,
      ...CACHING,
    };
  }

  #description() {
    const { messageProtocol } = this.#shop;
    return {
      capabilities: {
        tools: {},
        ...(messageProtocol && { experimental: { payment: { methods: messageProtocol.methods } } }),
      },
      instructions: `Each tool is a job that costs money. A call without a payment returns its offers; pay one in _meta.`,
    };
  }

  #serverInfo(): object {
    const { serviceName, title } = this.#shop.seller;
    return { name: serviceName, title, version };
  }

  async #listTools({ message, client }: Context): Promise<object> {
    const start = Number(paramsAs(PARAMS.listTools, message.params).cursor ?? 0);
    const jobs = await this.#shop.listing.jobs();
    const end = start + TOOLS_PER_PAGE;
    return {
      tools: jobs.slice(start, end).map((job) => toTool(job, this.#shop.seller)),
      ...(end < jobs.length && { nextCursor: String(end) }),
      ...(client && CACHING),
    };
  }
}

function unknownMethod({ method }: RpcMessage): RpcError {
  return new RpcError(RPC.methodNotFound, `There is no method ${method}.`);
}
