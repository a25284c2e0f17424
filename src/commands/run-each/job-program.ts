import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { Delivery, Outcome } from "../../delivery/runner-client/worker.ts";

/** The program that runs for each JobCall. */
interface JobProgram {
  readonly command: string;
  readonly args: readonly string[];
  /** Undefined if it may run for any time. */
  readonly timeoutMs: number | undefined;
  /** Media type of its output. */
  readonly contentType: string;
  /** Exit codes after which a retry is useless. */
  readonly failCodes: readonly number[];
  /** Its environment, without the variables of the delivery. */
  readonly env: NodeJS.ProcessEnv;
}

/** Largest result that jobgate accepts; see docs/writing-a-runner.md. */
const MAX_RESULT_BYTES = 1024 * 1024;
const REASON_BYTES = 2_000;
const REASON_LINES = 10;
/** Time between SIGTERM and SIGKILL. */
const KILL_AFTER_MS = 2_000;

/**
 * Runs the program once, without a shell: the body is its standard input, its standard output is the result, and its
 * exit code is the outcome. Resolves once it has ended and closed its output; never rejects.
 * @param lost kills the program and its child processes
 */
export function runJobProgram(program: JobProgram, delivery: Delivery, lost: AbortSignal): Promise<Outcome> {
  const { command, args, timeoutMs, contentType, failCodes } = program;
  return new Promise((resolve) => {
    let child: ChildProcessByStdio<Writable, Readable, Readable>;
    try {
      const env = { ...program.env, ...deliveryVariables(delivery) };
      // A process group of its own: its children end with it, and Ctrl-C reaches run-each alone.
      child = spawn(command, args, { env, stdio: ["pipe", "pipe", "pipe"], detached: true });
    } catch (error) {
      return resolve(cannotStart(command, error));
    }
    const stdout: Buffer[] = [];
    let stdoutBytes = 0;
    let stderrTail = Buffer.alloc(0);
    let timedOut = false;
    let killTimer: NodeJS.Timeout | undefined;

    const kill = (): void => {
      if (killTimer !== undefined) return;
      signalGroup(child.pid, "SIGTERM");
      killTimer = setTimeout(() => signalGroup(child.pid, "SIGKILL"), KILL_AFTER_MS);
    };
    const timeout =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            timedOut = true;
            kill();
          }, timeoutMs);
    const settle = (outcome: Outcome): void => {
      clearTimeout(timeout);
      clearTimeout(killTimer);
      lost.removeEventListener("abort", kill);
      resolve(outcome);
    };
    lost.addEventListener("abort", kill);

    child.stdout.on("data", (chunk: Buffer) => {
      stdoutBytes += chunk.length;
      if (stdoutBytes <= MAX_RESULT_BYTES) stdout.push(chunk);
      else kill();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      process.stderr.write(chunk);
      stderrTail = Buffer.concat([stderrTail, chunk]).subarray(-REASON_BYTES);
    });
    child.once("error", (error) => settle(cannotStart(command, error)));
    child.once("close", (code, signal) => {
      if (stdoutBytes > MAX_RESULT_BYTES) {
        settle({
          kind: "fail",
          reason: `printed more than ${MAX_RESULT_BYTES} bytes, the maximum for a result`,
        });
      } else if (timedOut) {
        settle({
          kind: "retry",
          reason: reasonOf(`ran longer than ${Number(timeoutMs) / 1000} s`, stderrTail),
        });
      } else if (code === 0) {
        settle({ kind: "done", body: Buffer.concat(stdout), contentType });
      } else {
        const kind = code !== null && failCodes.includes(code) ? "fail" : "retry";
        settle({
          kind,
          reason: reasonOf(code === null ? `ended by ${signal}` : `exit code ${code}`, stderrTail),
        });
      }
    });
    // A program may end without reading its input.
    child.stdin.on("error", () => undefined);
    child.stdin.end(delivery.body);
  });
}

/** Variables of a delivery. Only metadata named `X-…` is included: another name might be one that a loader reads. */
function deliveryVariables({ callId, jobId, serviceId, attempt, metadata }: Delivery): NodeJS.ProcessEnv {
  const fromMetadata = Object.entries(metadata)
    .filter(([name]) => /^x-/i.test(name))
    .map(([name, value]) => [name.toUpperCase().replaceAll("-", "_"), value]);
  return {
    ...Object.fromEntries(fromMetadata),
    JOBGATE_CALL_ID: String(callId),
    JOBGATE_JOB_ID: String(jobId),
    JOBGATE_SERVICE_ID: String(serviceId),
    JOBGATE_ATTEMPT: String(attempt),
  };
}

function cannotStart(command: string, error: unknown): Outcome {
  const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
  return { kind: "retry", reason: `${command} cannot be started: ${reason}` };
}

function reasonOf(what: string, stderrTail: Buffer): string {
  const lines = stderrTail.toString().trimEnd().split("\n").slice(-REASON_LINES).join("\n");
  return lines === "" ? what : `${what}: ${lines}`;
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // It has already ended.
  }
}
