import { connect, type Socket } from "node:net";

/** A raw answer. */
export interface RawAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const ANSWER_TIMEOUT_MS = 50_000;

/** Address to connect to: an `http://host:port` URL, or `unix:path`. */
export function openSocket(target: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = target.startsWith("unix:")
      ? connect(target.slice("unix:".length))
      : connect(Number(new URL(target).port), new URL(target).hostname);
    socket.once("connect", () => resolve(socket));
    socket.once("error", reject);
  });
}

/**
 * Sends bytes unchanged, without the corrections of HTTP clients, and returns the answers until the server
 * closes. Without `connection: close` in the request that takes until its time-outs.
 */
export async function sendRaw(target: string, bytes: string | Uint8Array): Promise<RawAnswer[]> {
  const socket = await openSocket(target);
  socket.write(bytes);
  return readAnswers(socket);
}

/** Everything that the server answers until it closes the connection, or resets it. */
export function readAnswers(socket: Socket): Promise<RawAnswer[]> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => {
      socket.destroy();
      reject(new Error(`no end of the answer within ${ANSWER_TIMEOUT_MS} ms: ${Buffer.concat(chunks)}`));
    });
    socket.on("data", (chunk) => chunks.push(chunk));
    // A reset after the answer is how a server hangs up on a client that still sends.
    socket.on("error", () => undefined);
    socket.once("close", () => resolve(parseAnswers(Buffer.concat(chunks).toString("utf8"))));
  });
}

/** One request without a body in its own connection. `target` is sent unchanged in the request line. */
export async function rawRequest(
  server: string,
  requestLine: string,
  headers: Readonly<Record<string, string>> = {},
  body = "",
): Promise<RawAnswer> {
  const lines = Object.entries({
    host: "jobgate.test",
    connection: "close",
    ...(body === "" ? {} : { "content-length": String(Buffer.byteLength(body)) }),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const answers = await sendRaw(server, `${requestLine} HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
  const [answer] = answers;
  if (answer === undefined || answers.length > 1)
    throw new Error(`${answers.length} answers to ${requestLine}`);
  return answer;
}

function parseAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let rest = text; rest.length > 0; ) {
    const headEnd = rest.indexOf("\r\n\r\n");
    const [statusLine = "", ...lines] = rest.slice(0, headEnd).split("\r\n");
    const headers = Object.fromEntries(
      lines.map((line) => {
        const colon = line.indexOf(":");
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    );
    const bodyStart = headEnd + 4;
    const bodyEnd = bodyStart + Number(headers["content-length"] ?? 0);
    answers.push({
      status: Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1] ?? Number.NaN),
      headers,
      body: rest.slice(bodyStart, bodyEnd),
    });
    rest = rest.slice(bodyEnd);
  }
  return answers;
}
