/** Part of jobgate that runs until `stop`: a listener, a dispatcher, a reconciler. */
export interface BackgroundService {
  /** Resolves once the service is ready for work. Leaves nothing running when it rejects. */
  start(): Promise<void>;
  /** Accepts no new work, finishes the work it has, then resolves. Safe to call twice. */
  stop(): Promise<void>;
}
