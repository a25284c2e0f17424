import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { MAX_RESULT_BYTES } from "../../core/job-call.ts";
import { Fail, type Job, type Result, Retry } from "../../runner/job.ts";

/** The program that runs for each JobCall. */
export interface JobProgram {
  readonly command: string;
  readonly args: readonly string[];
  /** Undefined if it may run for any time. */
  readonly timeoutMs: number | undefined;
  /** Media type of its output. */
  readonly contentType: string;
  /** Exit codes after which a retry is useless. */
  readonly failCodes: readonly number[];
  /** Its environment, without the variables of the job. */
  readonly env: NodeJS.ProcessEnv;
}

const REASON_BYTES = 2_000;
const REASON_LINES = 10;
/** Time between SIGTERM and SIGKILL. */
const KILL_AFTER_MS = 2_000;

/**
 * Runs the program once, without a shell: the body is its standard input, its standard output is the result, and its
 * exit code is the outcome. Settles once the program has ended and closed its output. A lost lease kills the program
 * and its children.
 */
export function runJobProgram(program: JobProgram, job: Job): Promise<Result> {
  const { command, args, timeoutMs, contentType, failCodes } = program;
  return new Promise((resolve, reject) => {
    let child: ChildProcessByStdio<Writable, Readable, Readable>;
    try {
      const env = { ...program.env, ...jobVariables(job) };
      // The program has a process group of its own, so that its children end with it, and Ctrl-C reaches run-each
      // alone.
      child = spawn(command, args, { env, stdio: ["pipe", "pipe", "pipe"], detached: true });
    } catch (error) {
      return reject(cannotStart(command, error));
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
    const end = (): void => {
      clearTimeout(timeout);
      clearTimeout(killTimer);
      job.signal.removeEventListener("abort", kill);
    };
    job.signal.addEventListener("abort", kill);

    child.stdout.on("data", (chunk: Buffer) => {
      stdoutBytes += chunk.length;
      if (stdoutBytes <= MAX_RESULT_BYTES) stdout.push(chunk);
      else kill();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      process.stderr.write(chunk);
      stderrTail = Buffer.concat([stderrTail, chunk]).subarray(-REASON_BYTES);
    });
    child.once("error", (error) => {
      end();
      reject(cannotStart(command, error));
    });
    child.once("close", (code, signal) => {
      end();
      if (stdoutBytes > MAX_RESULT_BYTES)
        return reject(new Fail(`printed more than ${MAX_RESULT_BYTES} bytes, the maximum for a result`));
      if (timedOut)
        return reject(new Retry(reasonOf(`ran longer than ${Number(timeoutMs) / 1000} s`, stderrTail)));
      if (code === 0) return resolve({ body: Buffer.concat(stdout), contentType });
      const reason = reasonOf(code === null ? `ended by ${signal}` : `exit code ${code}`, stderrTail);
      reject(code !== null && failCodes.includes(code) ? new Fail(reason) : new Retry(reason));
    });
    // A program may end without reading its input.
    child.stdin.on("error", () => undefined);
    child.stdin.end(job.body);
  });
}

/**
 * Variables of a job. Only metadata named `X-…` is included, because a loader might read a variable with another name.
 */
function jobVariables({ callId, jobId, serviceId, attempt, metadata }: Job): NodeJS.ProcessEnv {
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

function cannotStart(command: string, error: unknown): Retry {
  const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
  return new Retry(`${command} cannot be started: ${reason}`);
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
    // The program has already ended.
  }
}
