/** A part of jobgate that runs until it is told to stop: a listener, a dispatcher, a reconciler. */
export interface BackgroundService {
  /** Resolves once the service is ready for work. Rejects if it cannot be: then nothing is left running. */
  start(): Promise<void>;
  /** Takes no new work, finishes what is in hand, and resolves when nothing of it is left. Safe to call twice. */
  stop(): Promise<void>;
}
