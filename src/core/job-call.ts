/** Origins of JobCalls: the gateways, and the operator. */
export const ORIGINS = ["x402", "webhook", "operator"] as const;
/**
 * Origin of a JobCall: the gateway through which its job was started, or the operator, who sent an earlier JobCall to
 * its job once more.
 */
export type JobCallOrigin = (typeof ORIGINS)[number];

/** One request to run a job, before the store has given it a call id. */
export interface JobCall {
  readonly origin: JobCallOrigin;
  /** u64: the webhook endpoint's `job_id`, or the job index of a paid job. */
  readonly jobId: bigint;
  /** u64 */
  readonly serviceId: bigint;
  /** The request body, byte for byte. */
  readonly body: Uint8Array;
  /**
   * Metadata set by jobgate, except {@link CALL_ID_METADATA}, which is added when the store assigns the call ID. The
   * encoding of a frozen object is cached and reused for further JobCalls with the same object.
   */
  readonly metadata: Readonly<Record<string, string>>;
  /** Metadata of this request alone, in addition to `metadata`. It cannot replace an entry of `metadata`. */
  readonly requestMetadata?: readonly (readonly [name: string, value: string])[];
  /** Undefined if runners can run the JobCall beside any other JobCall. */
  readonly order?: CallOrder | undefined;
}

/** Key of JobCalls that runners get one at a time, in the order in which they were accepted. */
export interface CallOrder {
  /** Owner of the key, such as the path of a webhook endpoint: equal keys of two owners are two keys. */
  readonly owner: string;
  readonly key: string;
  /** A dead letter holds up its key until the operator retries or drops the dead letter. */
  readonly holdsOnDead: boolean;
}

/** Limit on the JobCalls of a job, over all processes that share the store. */
export interface JobLimit {
  readonly jobId: bigint;
  /** Largest number of leased JobCalls. */
  readonly concurrency?: number;
  readonly rate?: CallRate;
}

/** Largest number of JobCalls that are given out within `perMs` milliseconds. */
export interface CallRate {
  readonly calls: number;
  readonly perMs: number;
}

/** Separates the owner of a key, which has no line breaks, from the key. */
const KEY_SEPARATOR = "\n";

/** Returns the owner and the key as one text. */
export function orderKeyOf({ owner, key }: Pick<CallOrder, "owner" | "key">): string {
  return `${owner}${KEY_SEPARATOR}${key}`;
}

/** Parses the result of {@link orderKeyOf}. */
export function ownerAndKey(orderKey: string): Pick<CallOrder, "owner" | "key"> {
  const at = orderKey.indexOf(KEY_SEPARATOR);
  return { owner: orderKey.slice(0, at), key: orderKey.slice(at + KEY_SEPARATOR.length) };
}

/** Name of the metadata that repeats a JobCall's id as a decimal. */
export const CALL_ID_METADATA = "X-CHAIN-CALL-ID";
/** Name of the metadata that repeats a JobCall's service id as a decimal. */
export const SERVICE_ID_METADATA = "X-CHAIN-SERVICE-ID";

/** Name of the metadata that only a JobCall of the operator has. */
export const OPERATOR_ORIGIN_METADATA = "X-OPERATOR-ORIGIN";

/**
 * Turns a JobCall into the bytes that are stored and later streamed to the runner unchanged: all fields that are known
 * before the call has an ID. Delivery appends the ID, lease and attempt. The body's bytes come last.
 */
export type JobCallEncoder = (call: JobCall) => Uint8Array;

/** Names one priced job. */
export interface JobKey {
  /** u64 */
  readonly serviceId: bigint;
  /** u32 */
  readonly jobIndex: number;
}

export function equalJobs(left: JobKey, right: JobKey): boolean {
  return left.serviceId === right.serviceId && left.jobIndex === right.jobIndex;
}

/** Key of one job in maps and logs: `service/job`. */
export function jobKeyText(serviceId: bigint, jobIndex: number): string {
  return `${serviceId}/${jobIndex}`;
}

/** Largest result of a JobCall, unless its job allows larger results. A larger result is stored in chunks. */
export const MAX_RESULT_BYTES = 1024 * 1024;
/** Size of each chunk of a result except the last. Writing or reading a few chunks at once takes milliseconds. */
export const RESULT_CHUNK_BYTES = 256 * 1024;
/** Longest content type of a result. */
export const MAX_CONTENT_TYPE_LENGTH = 255;
/** The check is strict because the value becomes a response header for the paying client. */
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:;[\x20-\x7e]*)?$/;

/** Returns true if the text can be the content type of a result. */
export function isMediaType(type: string): boolean {
  return type.length <= MAX_CONTENT_TYPE_LENGTH && MEDIA_TYPE.test(type);
}

/** Beginnings of the names of headers that carry payments and settlements, in any version of x402. */
export const PAYMENT_PREFIXES = ["payment-", "x-payment-"] as const;

/** Request headers that no gateway forwards. */
export const NEVER_FORWARDED: readonly { readonly names: RegExp; readonly reason: string }[] = [
  {
    names: /^(authorization|cookie|proxy(-.*)?|sign-in-with-x|x-(api-key|auth-token|access-token))$/,
    reason: "carries credentials, which would be stored and shown with each job",
  },
  {
    names: /^(payment-.*|x-payment(-.*)?)$/,
    reason: "carries a payment, which only jobgate and its facilitator may see",
  },
  {
    names: /^x-(chain|tangle)-caller(-.*)?$/,
    reason: "proves who the caller is; the runner gets the caller that jobgate has checked as X-CHAIN-CALLER",
  },
  {
    names: /^(method|path|query|param-.*)$/,
    reason: "would have the name of metadata that jobgate makes of a job's route",
  },
];

/** Names that all servers read in the same way. */
export const PLAIN_NAME = /^[A-Za-z0-9-]+$/;
/** Names of headers that concern the connection alone. */
export const OF_CONNECTION =
  /^(connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/i;
/** Names that a gateway sets, or with which a proxy replaces the method or the path. */
const OF_GATEWAYS =
  /^(x-original-.*|x-rewrite-.*|x-method-override|x-envoy-.*|x-forwarded-.*|forwarded|via|x-real-ip|x-jobgate-.*|idempotency-key|callback-url|prefer|x-chain-.*|x-x402-.*|x-http-.*|traceparent|tracestate)$/i;
/** Returns true if a header belongs to the client, rather than to its connection or to a gateway. */
export function isEndToEnd(name: string): boolean {
  return PLAIN_NAME.test(name) && !OF_CONNECTION.test(name) && !OF_GATEWAYS.test(name);
}

/** Entry in a list of headers that stands for every end-to-end header except credentials. */
export const ALL_HEADERS = "*";
/** Headers that a payment is bound to if all headers are forwarded. */
export const BOUND_HEADERS: readonly string[] = ["accept", "accept-language", "content-type"];

/**
 * Returns the names in a list, in lower case and without the names in the request's `Connection` header. In the list,
 * `*` stands for all headers of the request.
 */
export function namesIn(
  list: readonly string[],
  headers: Readonly<Record<string, unknown>>,
): readonly string[] {
  const ofConnection = String(headers.connection ?? "")
    .toLowerCase()
    .split(/[\s,]+/);
  const listed = list.includes(ALL_HEADERS)
    ? Object.keys(headers).filter(
        (name) => isEndToEnd(name) && !NEVER_FORWARDED.some(({ names }) => names.test(name)),
      )
    : list;
  return listed.filter((name) => !ofConnection.includes(name));
}
