import type { BackgroundService } from "./background-service.ts";
import { monotonicClock } from "./clock.ts";

/** The pause of a loop between two steps, which can end early. */
export class Pause {
  #hasEnded = false;
  #wake = (): void => undefined;

  /** Waits, unless the pause was ended after the last wait. */
  async wait(ms: number): Promise<void> {
    if (!this.#hasEnded) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#hasEnded = false;
  }

  /** Discards a request to end the pause that came while nothing waited. */
  reset(): void {
    this.#hasEnded = false;
  }

  end(): void {
    this.#hasEnded = true;
    this.#wake();
  }
}

interface Options {
  /** @returns milliseconds until the next step */
  readonly step: () => Promise<number>;
  /** Milliseconds until the first step. Default: none. */
  readonly firstMs?: number;
  /** Milliseconds from a step that failed to the next one. */
  readonly retryMs: number;
  /** Receives the error of the first step in a row that failed. */
  readonly onTrouble: (error: unknown) => void;
  /** Called after the first step that succeeds again. */
  readonly onRecovery?: () => void;
}

/** Runs one step after the other in the background, with a pause after each. */
export class BackgroundLoop implements BackgroundService {
  readonly #options: Options;
  readonly #pause = new Pause();
  #wakeTimer: NodeJS.Timeout | undefined;
  #beganAt = Number.NEGATIVE_INFINITY;
  #isInTrouble = false;
  #isStopped = false;
  #running: Promise<void> = Promise.resolve();

  constructor(options: Options) {
    this.#options = options;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Does not wait for the first step. */
  async start(): Promise<void> {
    this.#running = this.#run();
  }

  /**
   * Begins the next step early, once the present one has ended.
   * @param gatherMs minimum time between the starts of two steps; calls within it wake the loop once
   */
  wake(gatherMs = 0): void {
    const waitMs = this.#beganAt + gatherMs - monotonicClock();
    if (waitMs <= 0) this.#pause.end();
    else
      this.#wakeTimer ??= setTimeout(() => {
        this.#wakeTimer = undefined;
        this.#pause.end();
      }, waitMs).unref();
  }

  /** Resolves once the present step has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#wakeTimer);
    this.#pause.end();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { firstMs = 0 } = this.#options;
    if (firstMs > 0) await this.#pause.wait(firstMs);
    while (!this.#isStopped) await this.#pause.wait(await this.#step());
  }

  async #step(): Promise<number> {
    const { step, retryMs, onTrouble, onRecovery } = this.#options;
    this.#beganAt = monotonicClock();
    try {
      const waitMs = await step();
      if (this.#isInTrouble) onRecovery?.();
      this.#isInTrouble = false;
      return waitMs;
    } catch (error) {
      if (!this.#isInTrouble) onTrouble(error);
      this.#isInTrouble = true;
      return retryMs;
    }
  }
}
