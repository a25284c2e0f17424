// Sends requests with an official client, and prints each answer as a line of JSON.
//
//   KEY=0x… REQUESTS=[…] node buy.mjs fetch|axios|mppx|mcp URL
//
// With SOLANA_RPC_URL, KEY is the seed of an account of Solana, and mppx cannot pay.
import { privateKeyToAccount } from "viem/accounts";

const [client, url] = process.argv.slice(2);
const { KEY, SOLANA_RPC_URL: rpcUrl } = process.env;
const account = rpcUrl === undefined ? privateKeyToAccount(KEY) : undefined;

/** Lets a client of x402 pay with the account. */
async function withAccount(x402) {
  if (rpcUrl === undefined) {
    const { ExactEvmScheme } = await import("@x402/evm/exact/client");
    return x402.register("eip155:*", new ExactEvmScheme(account));
  }
  const { createKeyPairSignerFromPrivateKeyBytes } = await import("@solana/kit");
  const { ExactSvmScheme } = await import("@x402/svm/exact/client");
  const signer = await createKeyPairSignerFromPrivateKeyBytes(Buffer.from(KEY.slice(2), "hex"));
  return x402.register("solana:*", new ExactSvmScheme(signer, { rpcUrl }));
}

function formOf({ name, text, title }) {
  const form = new FormData();
  form.append("file", new Blob([text]), name);
  form.append("title", title);
  return form;
}

function initOf({ method, headers, json, form }) {
  const type = json === undefined ? {} : { "content-type": "application/json" };
  const body = form === undefined ? json && JSON.stringify(json) : formOf(form);
  return { method, headers: { ...type, ...headers }, body, redirect: "manual" };
}

async function answerOf(response) {
  const body = Buffer.from(await response.arrayBuffer());
  return { status: response.status, headers: Object.fromEntries(response.headers), body };
}

/** Makes what sends a request with a client. */
const CLIENTS = {
  async fetch() {
    const { wrapFetchWithPayment, x402Client } = await import("@x402/fetch");
    const pay = wrapFetchWithPayment(fetch, await withAccount(new x402Client()));
    return async (request) => answerOf(await pay(url + request.path, initOf(request)));
  },

  async axios() {
    const { default: axios } = await import("axios");
    const { wrapAxiosWithPayment, x402Client } = await import("@x402/axios");
    const x402 = await withAccount(new x402Client());
    // Its interceptor pays for an answer that is an error; 402 must be one.
    const validateStatus = (status) => status !== 402;
    const http = wrapAxiosWithPayment(axios.create({ validateStatus, maxRedirects: 0 }), x402);
    return async (request) => {
      const { method, headers, body: data } = initOf(request);
      const options = { url: url + request.path, method, headers, data, responseType: "arraybuffer" };
      const { status, headers: told, data: body } = await http.request(options);
      return { status, headers: told, body };
    };
  },

  async mppx() {
    const { Mppx } = await import("mppx/client");
    const { charge } = await import("mppx/evm/client");
    const evm = charge({ account, authorization: { name: "USDC", version: "2" } });
    const { fetch } = Mppx.create({ methods: [evm], polyfill: false });
    return async (request) => {
      const { body, ...init } = initOf(request);
      if (!(body instanceof FormData)) return answerOf(await fetch(url + request.path, { ...init, body }));
      // mppx 0.11 encodes a form for each of its two requests, with another boundary: its bytes are made once, before.
      const encoded = new Response(body);
      const headers = { ...init.headers, "content-type": encoded.headers.get("content-type") };
      const bytes = await encoded.arrayBuffer();
      return answerOf(await fetch(url + request.path, { ...init, headers, body: bytes }));
    };
  },
};

/** Calls the tool of a request's route, and returns what the answer is over HTTP. */
CLIENTS.mcp = async () => {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await import(
    "@modelcontextprotocol/sdk/client/streamableHttp.js"
  );
  const { x402Client } = await import("@x402/core/client");
  const x402 = await withAccount(new x402Client());
  const mcp = new Client({ name: "agent", version: "1" });
  await mcp.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  const { tools } = await mcp.listTools();

  const routes = tools.map(({ name, _meta }) => {
    const { pathname } = new URL(_meta["jobgate/url"]);
    return { name, pattern: new RegExp(`^${decodeURI(pathname).replace(/\{(\w+)\}/g, "(?<$1>[^/]+)")}$`) };
  });

  return async ({ path, json: body, headers = {} }) => {
    const { pathname, searchParams } = new URL(url + path);
    const { name, pattern } = routes.find((route) => route.pattern.test(pathname));
    const parameters = pattern.exec(pathname).groups;
    const args = {
      ...(parameters && { path: { ...parameters } }),
      query: Object.fromEntries(searchParams),
      body,
    };
    const given = { name, arguments: args, _meta: { "jobgate/headers": headers } };
    const asked = await mcp.callTool(given);
    const payment = await x402.createPaymentPayload(asked.structuredContent);
    const { content, _meta } = await mcp.callTool({
      ...given,
      _meta: { ...given._meta, "x402/payment": payment },
    });
    const { status = 200, headers: told = {} } = _meta["jobgate/answer"] ?? {};
    const { call_id, access_token, links } = _meta["jobgate/call"];
    const settled = _meta["x402/payment-response"] ? {} : { "x-charged": "false" };
    const [part] = content;
    const linked = part?.type === "resource_link" && {
      body: await (
        await fetch(url + links.result, { headers: { authorization: `Bearer ${access_token}` } })
      ).arrayBuffer(),
    };
    return {
      status,
      headers: { ...told, ...settled, "x-call-id": call_id },
      body: Buffer.from(part?.text ?? ""),
      ...linked,
    };
  };
};

const send = await CLIENTS[client]();
for (const request of JSON.parse(process.env.REQUESTS)) {
  const { status, headers, body } = await send(request).catch((error) => {
    throw new Error(`${request.method} ${request.path} failed`, { cause: error });
  });
  console.log(JSON.stringify({ status, headers, body: Buffer.from(body).toString("base64") }));
}
