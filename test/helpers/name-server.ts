import { createSocket } from "node:dgram";
import { isIPv6 } from "node:net";

/** A name server on 127.0.0.1. */
export interface NameServer {
  /** `host:port`. */
  readonly address: string;
  /** Names that it was asked for. */
  readonly asked: ReadonlySet<string>;
  stop(): Promise<void>;
}

const HEADER_BYTES = 12;
const [A, AAAA] = [1, 28];
/** Response, recursion desired and available; then with the code for a name that does not exist. */
const [FOUND, NO_SUCH_NAME] = [0x8180, 0x8183];

/** Starts a name server (RFC 1035, over UDP). @param addresses of each name, in IPv4 and IPv6 */
export async function startNameServer(
  addresses: Readonly<Record<string, readonly string[]>>,
): Promise<NameServer> {
  const asked = new Set<string>();
  const socket = createSocket("udp4");
  socket.on("message", (query, from) => {
    const { name, type, end } = readQuestion(query);
    asked.add(name);
    const known = addresses[name];
    const records = (known ?? [])
      .filter((address) => type === (isIPv6(address) ? AAAA : A))
      .map((address) => record(type, address));
    const header = Buffer.from(query.subarray(0, HEADER_BYTES));
    header.writeUInt16BE(known === undefined ? NO_SUCH_NAME : FOUND, 2);
    header.writeUInt16BE(records.length, 6);
    // No authorities and no additional records, which the query may have had.
    header.fill(0, 8);
    socket.send(
      Buffer.concat([header, query.subarray(HEADER_BYTES, end), ...records]),
      from.port,
      from.address,
    );
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    stop: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}

function readQuestion(query: Buffer) {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** A record of the question's name, to be kept for no time. */
function record(type: number, address: string): Buffer {
  const data = isIPv6(address) ? ipv6Bytes(address) : Buffer.from(address.split(".").map(Number));
  const head = Buffer.alloc(HEADER_BYTES);
  // Pointer to the question's name.
  head.writeUInt16BE(0xc00c, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}

function ipv6Bytes(address: string): Buffer {
  const [head = [], tail = []] = address
    .split("::")
    .map((half) => half.split(":").filter((group) => group !== ""));
  const groups = [...head, ...Array<string>(8 - head.length - tail.length).fill("0"), ...tail];
  return Buffer.from(groups.map((group) => group.padStart(4, "0")).join(""), "hex");
}
