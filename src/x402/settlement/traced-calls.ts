import type { Rpc } from "../../chain/rpc.ts";
import { Unexplained } from "./authorization.ts";
import { isRawLog, type RawLog } from "./chain-logs.ts";

/** A call that a contract executed within a transaction. */
export interface TracedCall {
  readonly input: string;
  /** Logs of the call and of the calls that it made. */
  readonly logs: readonly RawLog[];
}

/** A call in the output of `callTracer`. */
interface Frame {
  readonly type: string;
  readonly to?: string;
  readonly input: string;
  readonly error?: string;
  readonly logs?: readonly RawLog[];
  readonly calls?: readonly Frame[];
}

/**
 * Returns the calls to a contract that a successful transaction executed, and that were not reverted.
 * @throws Unexplained when the RPC does not show them
 */
export async function readCalls(
  rpc: Rpc,
  transaction: string,
  contract: string,
): Promise<readonly TracedCall[]> {
  const tracer = { tracer: "callTracer", tracerConfig: { withLog: true } };
  try {
    const trace = (await rpc.call("debug_traceTransaction", [transaction, tracer])) as Frame;
    return succeededFrames(trace)
      .filter(({ type, to }) => type === "CALL" && to?.toLowerCase() === contract)
      .map((call) => ({ input: call.input, logs: succeededFrames(call).flatMap(logsOf) }));
  } catch (cause) {
    // RPCs without traces refuse in many ways.
    throw new Unexplained(
      "a contract may have used it, and the RPC does not trace the calls of a transaction (debug_traceTransaction)",
      { cause },
    );
  }
}

function logsOf({ logs = [] }: Frame): readonly RawLog[] {
  if (!logs.every(isRawLog)) throw new Error("the RPC answered with something other than logs");
  return logs;
}

/** Returns a call and the calls within it, except reverted calls. */
function succeededFrames(frame: Frame): readonly Frame[] {
  return frame.error === undefined ? [frame, ...(frame.calls ?? []).flatMap(succeededFrames)] : [];
}
